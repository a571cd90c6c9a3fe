"""One program of a cluster, described: what is started, and in which namespaces."""

from __future__ import annotations

from pathlib import Path

import msgspec

CONTROL_PLANE = "control-plane"
PLACE_PREFIX = "place/"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
Flags = dict[str, str | int | float | bool]


def place_machine(place: str) -> str:
    """The machine of a place: with a name that no node can have."""
    return PLACE_PREFIX + place


class Component(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    argv: tuple[str, ...]
    # The holder whose namespaces it lives in; "" is the host itself.
    inside: str = ""
    # A file of that machine, such as a socket, without which there is no use in starting.
    after: str = ""

    @property
    def log_name(self) -> str:
        return self.name.replace("/", ".") + ".log"


def log_file(logs: Path, component: str) -> Path:
    return logs / (component.replace("/", ".") + ".log")


def flags(program: str, options: Flags) -> tuple[str, ...]:
    """`--name=value` for each option; a bool is written the way Go programs read it."""
    return (
        program,
        *(
            f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in options.items()
        ),
    )
