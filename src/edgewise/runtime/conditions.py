"""Conditions as declared data, with `Ready` derived from the others.

A kind declares once which conditions it has:

    SESSION = ConditionSet(needs=("PodsReady", "Addressed"), fears=("Degraded",))

A reconcile says what it found, and gets the list for the status:

    SESSION.report(session.status.conditions, findings, generation=..., now=...)
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from edgewise.kube.conditions import Condition

READY = "Ready"


class Finding(msgspec.Struct, frozen=True):
    """What a reconcile found out about one condition; `holds=None` is "not known"."""

    type: str
    holds: bool | None
    reason: str
    message: str = ""


class ConditionSet(msgspec.Struct, frozen=True):
    """The conditions of a kind: what must hold and what must not hold for it to be ready."""

    needs: tuple[str, ...]
    fears: tuple[str, ...] = ()
    # Told to people, but without a say in `Ready`.
    tells: tuple[str, ...] = ()

    def report(
        self,
        before: Iterable[Condition],
        findings: Iterable[Finding],
        *,
        generation: int,
        now: float,
    ) -> list[Condition]:
        """The new conditions. A transition time moves only when a status flips."""
        found = {finding.type: finding for finding in findings}
        declared = (*self.needs, *self.fears, *self.tells)
        if unknown := [name for name in found if name not in declared]:
            raise ValueError(
                f"condition {unknown[0]!r} is not declared; declared are {', '.join(declared)}"
            )
        missing = [name for name in (*self.needs, *self.fears) if name not in found]
        for name in missing:
            found[name] = Finding(name, None, "NotObserved", f"{name} was not looked at yet")

        old = {condition.type: condition for condition in before}
        ordered = [self._ready(found)] + [found[name] for name in declared if name in found]
        conditions = [
            _condition(old.pop(finding.type, None), finding, generation, now) for finding in ordered
        ]
        # What is not ours was put there by somebody else, and stays.
        return conditions + [other for name, other in old.items() if name not in self.tells]

    def _ready(self, found: dict[str, Finding]) -> Finding:
        wanted = [(found[name], True) for name in self.needs]
        wanted += [(found[name], False) for name in self.fears]
        # Something that is wrong is worth more words than something that is not known.
        for finding, holds in wanted:
            if finding.holds is (not holds):
                return Finding(READY, False, finding.reason, finding.message)
        for finding, _ in wanted:
            if finding.holds is None:
                return Finding(READY, None, finding.reason, finding.message)
        return Finding(READY, True, READY, "")


def is_true(conditions: Iterable[Condition], name: str = READY) -> bool:
    return any(each.type == name and each.status == "True" for each in conditions)


def _condition(old: Condition | None, finding: Finding, generation: int, now: float) -> Condition:
    status: Literal["True", "False", "Unknown"] = "Unknown"
    if finding.holds is not None:
        status = "True" if finding.holds else "False"
    flipped = old is None or old.status != status
    return Condition(
        type=finding.type,
        status=status,
        reason=finding.reason,
        message=finding.message,
        observed_generation=generation,
        last_transition_time=timestamp(now) if old is None or flipped else old.last_transition_time,
    )


def timestamp(moment: float) -> str:
    """RFC 3339 in UTC, to the second, as metav1.Time is written."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def microtimestamp(moment: float) -> str:
    """The same to the microsecond, as metav1.MicroTime is written."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
