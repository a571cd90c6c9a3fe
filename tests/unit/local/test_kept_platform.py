"""Which programs of the platform run where."""

from pathlib import Path

from edgewise.local import kept_platform
from edgewise.local.component import CONTROL_PLANE
from edgewise.local.layout import Home
from edgewise.local.platform_site import Site

SITE = Site(
    host="127.0.0.1", webhook_host="10.65.1.2", http=1, control=2, health=3, webhook=4, echo=5
)


def test_programs_of_domains_run_in_the_network_of_the_cluster(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert kept_platform.components(home) == []
    kept_platform.want(
        home, SITE, gateway=False, others={"reports": ("reports",)}, inside=CONTROL_PLANE
    )
    found = {part.name: part for part in kept_platform.components(home)}
    assert found["operator"].inside == ""
    assert found["reports"].inside == CONTROL_PLANE
    assert found["reports"].argv[-1] == f"--kubeconfig={home.kubeconfig}"
