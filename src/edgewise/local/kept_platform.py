"""Operator and gateway among the programs that a cluster's manager keeps running.

They are wanted while a file in the cluster's folder says so. So they come back when they
die, `status` and `logs` know them, and `down` ends them with everything else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from edgewise.local import registry
from edgewise.local.component import Component
from edgewise.local.layout import Home, write_atomically
from edgewise.local.platform_site import GATEWAY, OPERATOR, Site, python_command


class KeptPlatform(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided once for the platform of a cluster."""

    python: str
    site: Site
    # The folder of the gateway's sockets; empty where there is no gateway.
    gateway: str = ""
    # Programs of the domains: the arguments of each, by its name.
    others: dict[str, tuple[str, ...]] = {}
    # The machine they run in: in the cluster's own network, clients of a place find them.
    inside: str = ""

    def programs(self) -> list[str]:
        return [OPERATOR, *([GATEWAY] if self.gateway else [])]


def wanted(home: Home) -> KeptPlatform | None:
    try:
        return msgspec.json.decode(home.platform.read_bytes(), type=KeptPlatform)
    except (OSError, msgspec.MsgspecError):
        return None


def components(home: Home) -> list[Component]:
    """The programs of the platform that are wanted at this moment."""
    kept = wanted(home)
    if kept is None:
        return []
    token = _token(home)
    commands = {
        OPERATOR: kept.site.operator(home.operator_kubeconfig, token if kept.gateway else None)
    }
    if kept.gateway:
        commands[GATEWAY] = kept.site.gateway(home.kubeconfig, token, Path(kept.gateway))
    others = {
        name: [*arguments, f"--kubeconfig={home.kubeconfig}"]
        for name, arguments in kept.others.items()
    }
    return [
        Component(
            name=name,
            argv=python_command(kept.python, arguments),
            inside=kept.inside if name in others else "",
        )
        for name, arguments in (commands | others).items()
    ]


def want(
    home: Home,
    site: Site,
    *,
    gateway: bool,
    others: Mapping[str, tuple[str, ...]] | None = None,
    inside: str = "",
) -> bool:
    """Write down that the platform is wanted, at `site`; whether it was not so far."""
    with _deciding(home):
        kept = wanted(home)
        if kept is not None:
            if not os.path.exists(kept.python):  # its environment has moved since
                _write(home, msgspec.structs.replace(kept, python=sys.executable))
            return False
        folder = _gateway_folder(home) if gateway else ""
        kept = KeptPlatform(
            python=sys.executable,
            site=site,
            gateway=folder,
            others=dict(others or {}),
            inside=inside,
        )
        _write(home, kept)
        return True


def forget(home: Home) -> None:
    home.platform.unlink(missing_ok=True)


def _write(home: Home, kept: KeptPlatform) -> None:
    write_atomically(home.platform, msgspec.json.format(msgspec.json.encode(kept)))


def _gateway_folder(home: Home) -> str:
    # Not beside the sockets, which the next start of the machine takes away.
    write_atomically(_token(home), secrets.token_urlsafe(32).encode())
    return str(registry.new_scratch(home))


def _token(home: Home) -> Path:
    return home.platform.with_suffix(".token")


@contextlib.contextmanager
def _deciding(home: Home) -> Iterator[None]:
    with home.platform.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
