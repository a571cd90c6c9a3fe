"""How long packets take: what was said on the command line, and the relays that make it so.

Always one way: with 20 ms, a round trip takes 40.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from edgewise.local.component import CONTROL_PLANE, Component
from edgewise.local.errors import BadSpec
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.network import commands as network
from edgewise.local.network.connections import peers
from edgewise.local.network.delay import Delay, milliseconds, parse_delay
from edgewise.local.network.distances import distances_file
from edgewise.local.spec import HOST

RELAY = Path(__file__).with_name("relay.py")


class Latencies(msgspec.Struct, frozen=True):
    """Of one cluster, by what they are the latency of."""

    # By node or host: all that goes over that cable.
    cables: dict[str, float]
    # By other cluster.
    clusters: dict[str, float]
    # By place, then by node: from the clients of that place.
    places: dict[str, dict[str, Delay]]


def parse_latency(text: str) -> tuple[str, float]:
    """`edge-1-1=20ms` as a name and milliseconds."""
    who, _, time = text.partition("=")
    try:
        if who:
            return who, milliseconds(time)
    except BadSpec as error:
        if "is more than" in str(error):
            raise
    raise BadSpec(f"{text!r} is not a latency: write it as edge-1-1=20ms")


def parse_distance(text: str) -> tuple[str, str, Delay]:
    """`rome:edge-3=12.5ms±2ms` as a place, a node and how long it takes between them."""
    who, _, time = text.partition("=")
    place, _, node = who.partition(":")
    if not place or not node:
        raise BadSpec(f"{text!r} is not a distance: write it as rome:edge-3=12.5ms")
    return place, node, parse_delay(time)


def sorted_latencies(name: str, texts: Sequence[str], places: Sequence[str] = ()) -> Latencies:
    """What was said about the cluster `name` and its places."""
    found = Latencies({}, {}, {place: {} for place in places})
    for text in texts:
        one, colon, other = text.partition("=")[0].partition(":")
        if colon and one in found.places:
            place, node, delay = parse_distance(text)
            found.places[place][node] = delay
            continue
        who, time = parse_latency(text)
        if not colon:
            found.cables[who] = time
        elif name in (one, other) and one != other:
            found.clusters[other if one == name else one] = time
        else:
            raise BadSpec(
                f"{text!r} says nothing about this cluster: write {name}:OTHER=40ms, "
                "PLACE:NODE=40ms with a --place of that name, the name of a node, or `host`"
            )
    return found


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
    return [
        *(_relay(link, f"{delay:g}") for link, delay in cables.items() if delay > 0),
        *(
            _relay(network.place_port(number), str(distances_file(home, place)))
            for number, place in enumerate(record.spec.places, start=1)
        ),
    ]


def _relay(link: str, delay: str) -> Component:
    one, other = network.relay_links(link)
    return Component(
        name=f"relay/{link}",
        argv=(sys.executable, "-I", "-S", str(RELAY), one, other, delay),
        inside=CONTROL_PLANE,
        after=f"/sys/class/net/{other}",
    )
