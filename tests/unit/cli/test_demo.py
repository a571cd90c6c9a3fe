"""What the demo decides before it shows anything."""

from pathlib import Path

import msgspec
import pytest

from edgewise.api.sessions import SessionTemplate
from edgewise.cli.demo import commands as demo
from edgewise.cli.demo.objects import NAMESPACE, POD_TEMPLATE, TEMPLATE, template
from edgewise.local.doctor import Check
from edgewise.local.images.oci import ImageError


def test_demos_at_the_same_time_have_clusters_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path))
    with demo.own_name() as first, demo.own_name() as second:
        assert (first, second) == ("demo", "demo2")
    with demo.own_name() as again:
        assert again == "demo"
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_demo_left_is_removed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path))
    for part in ("hub", "porto"):
        (tmp_path / "clusters" / f"demo-{part}").mkdir(parents=True)
    removed: list[str] = []
    monkeypatch.setattr(demo.clusters, "down", removed.append)
    with demo.own_name() as name:
        assert removed == [f"{name}-hub", f"{name}-porto"]


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


def test_its_template_is_what_the_types_say() -> None:
    made = msgspec.convert(template("edgewise.local/python:1"), SessionTemplate)
    (pods,) = made.spec.pod_templates
    assert pods.name == POD_TEMPLATE
    assert (made.metadata.namespace, made.metadata.name) == (NAMESPACE, TEMPLATE)
