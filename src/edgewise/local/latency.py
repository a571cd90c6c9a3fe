"""How long packets take: how somebody says it, and the relays that make it so.

Always one way: with 20 ms, a round trip takes 40.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from edgewise.local import network
from edgewise.local.component import CONTROL_PLANE, Component
from edgewise.local.connections import peers
from edgewise.local.errors import BadSpec
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.spec import HOST

_TIME = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>ms|s)", re.ASCII)
_LONGEST = 10_000.0
_RELAY = Path(__file__).with_name("relay.py")


def parse_latency(text: str) -> tuple[str, float]:
    """`edge-1-1=20ms` as a name and milliseconds."""
    who, _, time = text.partition("=")
    if not who or not _TIME.fullmatch(time):
        raise BadSpec(f"{text!r} is not a latency: write it as edge-1-1=20ms")
    return who, milliseconds(time)


def milliseconds(text: str) -> float:
    """`20ms` or `2s` as a number."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise BadSpec(f"{text!r} is not a latency: write it as 20ms")
    time = float(found["number"]) * (1000 if found["unit"] == "s" else 1)
    if time > _LONGEST:
        raise BadSpec(f"a latency of {text} is more than {_LONGEST / 1000:.0f} s: choose less")
    return time


def sorted_latencies(name: str, texts: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    """What was said about the cluster `name`: by node or host, and by other cluster."""
    cables: dict[str, float] = {}
    clusters: dict[str, float] = {}
    for text in texts:
        who, time = parse_latency(text)
        one, colon, other = who.partition(":")
        if not colon:
            cables[who] = time
        elif name in (one, other) and one != other:
            clusters[other if one == name else one] = time
        else:
            raise BadSpec(
                f"{text!r} says nothing about this cluster: write {name}:OTHER=40ms, "
                "the name of a node, or `host`"
            )
    return cables, clusters


def relays(home: Home, record: ClusterRecord) -> list[Component]:
    """The relays that this cluster's manager keeps running, at this moment."""
    cables: dict[str, float] = {}
    for number, node in enumerate(record.spec.node_names, start=1):
        cables[network.port(number)] = record.spec.latency.get(node, 0.0)
    cables[network.UPLINK] = record.spec.latency.get(HOST, 0.0)
    for peer in peers(home):
        # One relay for each pair is enough: the lower index has it.
        if record.index < peer.index:
            cables[network.peer_link(peer.index)] = peer.latency
    return [_relay(link, delay) for link, delay in cables.items() if delay > 0]


def _relay(link: str, delay: float) -> Component:
    one, other = network.relay_links(link)
    return Component(
        name=f"relay/{link}",
        argv=(sys.executable, "-I", "-S", str(_RELAY), one, other, f"{delay:g}"),
        inside=CONTROL_PLANE,
        after=f"/sys/class/net/{other}",
    )
