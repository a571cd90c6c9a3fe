"""Which pod has which address, from the notes that the network plugins leave on a node.

The kubelet tells the API server about a second after a pod has begun to speak. These notes are
there before its first container starts, so rules are in time for its first packet.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import msgspec

from edgewise.local.network.policies.compiler import Address

_CLOSED_AFTER_WRITING, _MOVED_HERE, _DELETED = 0x8, 0x80, 0x200
_NON_BLOCKING, _CLOSED_ON_EXEC = 0x800, 0x80000
# Of pods, rather than of the loopback device that each of them has as well.
_NOTES = "edgewise-*"
_LONGEST = 1 << 20


class _Address(msgspec.Struct):
    address: str


class _Result(msgspec.Struct):
    ips: list[_Address] = []


class _Note(msgspec.Struct, rename="camel"):
    cni_args: list[tuple[str, str]] = []
    result: _Result = msgspec.field(default_factory=_Result)


class Attachment(msgspec.Struct, frozen=True):
    """A pod's cable to its node."""

    node: str
    namespace: str
    name: str
    uid: str
    addresses: tuple[Address, ...]


def notes_of(node_folder: Path) -> Path:
    return node_folder / "lib" / "cni" / "results"


def attachments(node: str, folder: Path) -> list[Attachment]:
    """Oldest first. A note that cannot be read is of a pod that is not known yet."""
    found: list[tuple[int, Attachment]] = []
    for file in folder.glob(_NOTES):
        try:
            found.append((file.stat().st_mtime_ns, _read(node, file)))
        except (OSError, ValueError, msgspec.MsgspecError):
            continue
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def _read(node: str, file: Path) -> Attachment:
    with file.open("rb") as opened:
        note = msgspec.json.decode(opened.read(_LONGEST), type=_Note)
    said = dict(note.cni_args)
    return Attachment(
        node,
        said.get("K8S_POD_NAMESPACE", ""),
        said.get("K8S_POD_NAME", ""),
        said.get("K8S_POD_UID", ""),
        tuple(ip_interface(each.address).ip for each in note.result.ips),
    )


def without_predecessors(found: Iterable[Attachment]) -> list[Attachment]:
    """A node that was killed leaves notes of pods whose addresses others have by now."""
    owner: dict[Address, Attachment] = {}
    kept = list(found)
    for each in kept:
        owner.update(dict.fromkeys(each.addresses, each))
    return [
        msgspec.structs.replace(each, addresses=mine)
        for each in kept
        if (mine := tuple(address for address in each.addresses if owner[address] is each))
    ]


class Notice:
    """Becomes readable when something changes in one of the folders."""

    def __init__(self, folders: Iterable[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = _checked(libc.inotify_init1(_NON_BLOCKING | _CLOSED_ON_EXEC))
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            events = _CLOSED_AFTER_WRITING | _MOVED_HERE | _DELETED
            _checked(libc.inotify_add_watch(self._handle, os.fsencode(folder), events))

    def fileno(self) -> int:
        return self._handle

    def drain(self) -> None:
        """What changed does not matter: all is read again."""
        try:
            while os.read(self._handle, 65536):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self._handle)


def _checked(answer: Any) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"files cannot be watched: {os.strerror(number)}")
    return int(answer)
