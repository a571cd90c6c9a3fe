"""How far a place is from each node, kept in a file that its relay reads again and again.

One line for each node: its name, the milliseconds one way, their deviation, and what is
found there: the node's address, and the network of its pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home, write_atomically
from edgewise.local.network.delay import Delay


def distances_text(record: ClusterRecord, delays: Mapping[str, Delay]) -> str:
    lines = []
    for number, node in enumerate(record.spec.node_names, start=1):
        delay = delays.get(node, Delay())
        where = f"{record.addresses.node(number)} {record.addresses.pods_of(number)}"
        lines.append(f"{node} {delay.ms:g} {delay.jitter:g} {where}\n")
    return "".join(lines)


def write_first(home: Home, record: ClusterRecord, place: str) -> None:
    """As asked for with `up`; what was changed since then stays."""
    if not distances_file(home, place).exists():
        _write(home, record, place, record.spec.places[place])


def current(home: Home, place: str) -> dict[str, Delay]:
    """How far each node is at this moment."""
    try:
        lines = distances_file(home, place).read_text().splitlines()
        rows = [line.split() for line in lines]
        return {row[0]: Delay(float(row[1]), float(row[2])) for row in rows}
    except (OSError, ValueError, IndexError) as error:
        raise LocalError(
            f"the distances of place {place!r} cannot be read ({error}); the `edgewise local up` "
            "that made the cluster writes the file again if it is gone"
        ) from error


def change(home: Home, record: ClusterRecord, place: str, delays: Mapping[str, Delay]) -> None:
    """From the next frame on, or nearly so."""
    _write(home, record, place, current(home, place) | dict(delays))


def _write(home: Home, record: ClusterRecord, place: str, delays: Mapping[str, Delay]) -> None:
    write_atomically(distances_file(home, place), distances_text(record, delays).encode())


def distances_file(home: Home, place: str) -> Path:
    return home.place(place) / "distances"
