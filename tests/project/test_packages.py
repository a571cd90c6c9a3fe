"""What the set-up installs is what real nodes ask for."""

from pathlib import Path

from edgewise.local.machines.container_programs import CNI_PACKAGE, PACKAGES

ROOT = Path(__file__).parents[2]
ESSENTIAL = {"util-linux", "mount"}  # on every Debian, or it would not start


def test_the_set_up_installs_every_package_that_a_real_node_needs() -> None:
    lines = (ROOT / "tools" / "debian-packages").read_text().splitlines()
    installed = {line for line in lines if line and not line.startswith("#")}
    assert {*PACKAGES.values(), CNI_PACKAGE} - ESSENTIAL <= installed
