"""What the demo decides before it shows anything."""

from pathlib import Path

import msgspec
import pytest

from edgewise.api.sessions import SessionTemplate
from edgewise.cli.demo import commands as demo
from edgewise.cli.demo import own_cluster
from edgewise.cli.demo.objects import NAMESPACE, POD_TEMPLATE, TEMPLATE, template
from edgewise.cli.demo.play import DemoError
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


class OwnCluster:
    """What `on_own_cluster` does to clusters, in order."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EDGEWISE_STATE_DIR", str(folder))
        monkeypatch.setattr(demo.clusters, "down", self._down)
        monkeypatch.setattr(own_cluster, "why_not_real", lambda: "")
        self.homes = folder / "clusters"
        self.happened: list[str] = []

    def _down(self, name: str) -> None:
        self.happened.append(f"down {name}")
        (self.homes / name).rmdir()

    async def show(self, name: str) -> None:
        self.happened.append(f"show {name}")
        (self.homes / name).mkdir(parents=True)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnCluster:
    return OwnCluster(tmp_path, monkeypatch)


def test_a_demo_on_a_cluster_of_its_own_begins_and_ends_with_nothing(own: OwnCluster) -> None:
    (own.homes / "demo-toys").mkdir(parents=True)  # what a killed one left
    own_cluster.on_own_cluster("toys", own.show)
    assert own.happened == ["down demo-toys", "show demo-toys", "down demo-toys"]


def test_also_when_an_act_fails(own: OwnCluster) -> None:
    async def fails(name: str) -> None:
        await own.show(name)
        raise DemoError("the ball is gone")

    with pytest.raises(DemoError, match="the ball is gone"):
        own_cluster.on_own_cluster("toys", fails)
    assert own.happened == ["show demo-toys", "down demo-toys"]


def test_without_real_nodes_it_does_not_begin(
    own: OwnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_cluster, "why_not_real", lambda: "namespaces: not allowed")
    with pytest.raises(DemoError, match=r"needs real nodes, .*: namespaces: not allowed"):
        own_cluster.on_own_cluster("toys", own.show)
    assert own.happened == []
