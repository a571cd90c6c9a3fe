"""What the demo decides before it shows anything."""

from pathlib import Path

import msgspec
import pytest

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.cli import demo
from edgewise.cli.demo_objects import POD_TEMPLATE, PORT_NAME, session, template
from edgewise.local.doctor import Check
from edgewise.local.image_oci import ImageError


def test_demos_at_the_same_time_have_clusters_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path))
    with demo.own_cluster() as first, demo.own_cluster() as second:
        assert (first, second) == ("demo", "demo-2")
    with demo.own_cluster() as again:
        assert again == "demo"
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_demo_left_is_removed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path))
    (tmp_path / "clusters" / "demo").mkdir(parents=True)
    removed: list[str] = []
    monkeypatch.setattr(demo.clusters, "down", removed.append)
    with demo.own_cluster() as name:
        assert removed == [name]


GOOD = Check("root", good=True, found="user id 0")


@pytest.mark.parametrize(
    ("checks", "image", "why"),
    [
        ([GOOD], None, ""),
        ([Check("memory", good=False, found="little")], None, ""),
        (
            [GOOD, Check("namespaces", good=False, found="not allowed", advice="ask")],
            None,
            "namespaces: not allowed; ask",
        ),
        ([GOOD], ImageError("mmdebstrap is missing"), "mmdebstrap is missing"),
    ],
)
def test_nodes_are_simulated_only_for_a_reason_that_is_said(
    checks: list[Check], image: ImageError | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def python_image(progress: object) -> None:
        if image:
            raise image

    monkeypatch.setattr(demo, "examine", lambda: checks)
    monkeypatch.setattr(demo, "python_image", python_image)
    assert demo.why_not_real() == why


def test_its_template_and_session_are_what_the_types_say() -> None:
    made = msgspec.convert(template("edgewise.local/python:1"), SessionTemplate)
    (pods,) = made.spec.pod_templates
    assert pods.name == POD_TEMPLATE
    assert [port.name for port in pods.ports] == [PORT_NAME]
    follower = msgspec.convert(session(), Session)
    assert follower.spec.template_ref is not None
    assert follower.spec.template_ref.name == made.metadata.name
    assert follower.metadata.namespace == made.metadata.namespace
