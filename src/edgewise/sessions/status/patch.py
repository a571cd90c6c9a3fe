"""The status to be written, and the merge patch that leads to it: as small as the change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from edgewise.api.sessions import ClientStatus, IdlePod, Refusal, SessionStatus
from edgewise.runtime.merge_patch import difference
from edgewise.sessions.prospect import Prospect
from edgewise.sessions.steps.verdict import conditions, counts


class Writing(msgspec.Struct, frozen=True):
    """The new status, and how it differs from the old one."""

    status: SessionStatus
    patch: dict[str, Any]


def write(prospect: Prospect) -> Writing:
    old, generation = prospect.old, prospect.seen.session.metadata.generation
    patch: dict[str, Any] = {}
    _set(patch, "clients", _records(old.clients, prospect.clients, prospect.touched))
    pods, changes = _pods(prospect)
    _set(patch, "pods", changes)
    _set(patch, "idle", _records(old.idle, prospect.idle, old.idle.keys() | prospect.idle.keys()))
    revisions = {name: each for name, each in prospect.revisions.items() if name in pods}
    names = old.revisions.keys() | revisions.keys()
    _set(patch, "revisions", _records(old.revisions, revisions, names))
    names = old.refusals.keys() | prospect.refusals.keys()
    _set(patch, "refusals", _records(old.refusals, prospect.refusals, names))
    number = prospect.next
    if prospect.needs_fence and number == old.next and not patch:
        # Nothing else changes, but what follows needs a proof that nobody was ahead of us.
        number += 1
    # Not copied: neither a status that was read nor a prospect is ever changed.
    status = SessionStatus(
        observed_generation=generation,
        next=number,
        clients=cast("dict[str, ClientStatus]", prospect.clients),
        pods=pods,
        idle=cast("dict[str, IdlePod]", prospect.idle),
        revisions=revisions,
        refusals=cast("dict[str, Refusal]", prospect.refusals),
        recoveries=prospect.recoveries,
        counts=counts(prospect),
        conditions=conditions(prospect),
    )
    for field, name in _SMALL.items():
        if getattr(status, field) != getattr(old, field):
            patch[name] = msgspec.to_builtins(getattr(status, field))
    return Writing(status, patch)


_SMALL = {
    "next": "next",
    "recoveries": "recoveries",
    "conditions": "conditions",
    "counts": "counts",
    "observed_generation": "observedGeneration",
}


def _set(status: dict[str, Any], name: str, changes: dict[str, Any]) -> None:
    if changes:
        status[name] = changes


def _records(
    before: Mapping[str, msgspec.Struct],
    after: Mapping[str, msgspec.Struct],
    names: Iterable[str],
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name in names:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            changes[name] = None
        elif old is None:
            changes[name] = msgspec.to_builtins(new)
        else:
            changes[name] = difference(msgspec.to_builtins(old), msgspec.to_builtins(new))
    return changes


def _pods(prospect: Prospect) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """The pods by revision, and how that differs from before."""
    old = prospect.old.pods
    new, changes = dict(old), dict[str, Any]()
    then, now = prospect.before, prospect.digest
    for pod in prospect.touched_pods:
        before, after = then.revision_of.get(pod), now.revision_of.get(pod)
        if before == after and then.ip_of.get(pod) == now.ip_of.get(pod):
            continue
        for revision in (before, after):
            if revision is not None and revision not in changes:
                new[revision] = dict(new.get(revision, {}))
                changes[revision] = {}
        if before is not None and before != after:
            new[before].pop(pod, None)
            changes[before][pod] = None
        if after is not None:
            new[after][pod] = changes[after][pod] = now.ip_of[pod]
    for revision in [name for name, members in new.items() if not members]:
        del new[revision]
        changes[revision] = None
    return new, {name: each for name, each in changes.items() if each is not None or name in old}
