"""Stretches of addresses with the ports that are open to them. Pure arithmetic.

The kernel refuses sets whose elements overlap, so whatever rules say is brought to one form:
stretches that do not touch each other, each with all that is open to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from ipaddress import ip_network

import msgspec

BITS = {4: 32, 6: 128}
LAST_PORT = 65535


class PortRange(msgspec.Struct, frozen=True, order=True):
    """Ports of one protocol, both ends included."""

    protocol: str
    first: int
    last: int


# None: everything, also what has no ports.
Ports = frozenset[PortRange] | None


class Stretch(msgspec.Struct, frozen=True, order=True):
    """Addresses of one family as numbers, both ends included."""

    first: int
    last: int


class Span(msgspec.Struct, frozen=True):
    """Addresses, and the ports that are open to every one of them."""

    first: int
    last: int
    ports: Ports


def everywhere(family: int) -> tuple[Stretch, ...]:
    return (Stretch(0, (1 << BITS[family]) - 1),)


def stretch_of(cidr: str, family: int) -> Stretch | None:
    """None: a network of the other family. Raises ValueError for what is no network."""
    network = ip_network(cidr, strict=False)
    if network.version != family:
        return None
    return Stretch(int(network.network_address), int(network.broadcast_address))


def without(whole: Stretch, holes: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """What is left of a stretch."""
    left = [whole]
    for hole in holes:
        kept = []
        for part in left:
            if hole.last < part.first or hole.first > part.last:
                kept.append(part)
                continue
            if part.first < hole.first:
                kept.append(Stretch(part.first, hole.first - 1))
            if hole.last < part.last:
                kept.append(Stretch(hole.last + 1, part.last))
        left = kept
    return tuple(left)


def together(ports: Iterable[Ports]) -> Ports:
    """All that is open by any of them, as ranges that do not touch."""
    ranges: set[PortRange] = set()
    for each in ports:
        if each is None:
            return None
        ranges |= each
    merged: list[PortRange] = []
    for new in sorted(ranges):
        last = merged[-1] if merged else None
        if last and last.protocol == new.protocol and new.first <= last.last + 1:
            merged[-1] = PortRange(last.protocol, last.first, max(last.last, new.last))
        else:
            merged.append(new)
    return frozenset(merged)


def union(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The same as all of the spans together, in order and without any overlap."""
    edges: dict[int, tuple[list[int], list[int]]] = {}
    for number, span in enumerate(spans):
        if span.ports is None or span.ports:
            edges.setdefault(span.first, ([], []))[0].append(number)
            edges.setdefault(span.last + 1, ([], []))[1].append(number)
    found: list[Span] = []
    open_now: set[int] = set()
    known: dict[frozenset[int], Ports] = {}
    places = sorted(edges)
    for place, following in itertools.pairwise(places):
        begin, end = edges[place]
        open_now.difference_update(end)
        open_now.update(begin)
        if not open_now:
            continue
        active = frozenset(open_now)
        if active not in known:
            known[active] = together(spans[number].ports for number in active)
        ports = known[active]
        last = found[-1] if found else None
        if last and last.last + 1 == place and last.ports == ports:
            found[-1] = Span(last.first, following - 1, ports)
        else:
            found.append(Span(place, following - 1, ports))
    return tuple(found)
