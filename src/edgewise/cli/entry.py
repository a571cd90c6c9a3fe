"""What a domain adds to the command line: one record, and the program puts them together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from edgewise.cli.lazy import LazyCommand
from edgewise.errors import ReadableError

Commands = Mapping[str, LazyCommand]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`demo` runs as `edgewise demo <domain>`, each of `bench` as `edgewise bench <name>`."""

    domain: str
    commands: Commands = field(default_factory=dict)
    demo: LazyCommand | None = None
    bench: Commands = field(default_factory=dict)


class TakenName(ReadableError):
    """Two commands would have one name."""


def demos_of(entries: Sequence[Entry]) -> dict[str, LazyCommand]:
    return joined({entry.domain: entry.demo} for entry in entries if entry.demo is not None)


def benches_of(entries: Sequence[Entry]) -> dict[str, LazyCommand]:
    return joined(entry.bench for entry in entries)


def joined(parts: Iterable[Commands]) -> dict[str, LazyCommand]:
    found: dict[str, LazyCommand] = {}
    for part in parts:
        for name, command in part.items():
            if name in found:
                raise TakenName(f"there are two commands {name!r}: give one another name")
            found[name] = command
    return found
