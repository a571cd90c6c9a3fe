"""Whether the kube-proxy of a place leads to Services already."""

from __future__ import annotations

import subprocess

from edgewise.local.component import place_machine
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.network.cabling import running_inits

_LOOK_SECONDS = 10
_LIST = ["nft", "list", "map", "ip", "kube-proxy", "service-ips"]


def leads_to_services(home: Home, record: ClusterRecord, place: str) -> bool:
    """Whether its rules are written, those for the API server and for names at least."""
    init = running_inits(home, record.programs["init"]).get(place_machine(place))
    if init is None:
        return False
    listing = subprocess.run(
        ["nsenter", f"--target={init.pid}", "--net", "--", *_LIST],
        check=False,  # it fails as long as there are no rules
        capture_output=True,
        text=True,
        timeout=_LOOK_SECONDS,
    )
    wanted = (record.addresses.api_service, record.addresses.dns_service)
    return all(f"{address} " in listing.stdout for address in wanted)
