"""Pods that fail by themselves, and how long their client waits for the next one.

The wait belongs to the client whose pods fail, and to what they were made from: nobody else in
the session waits with it, and an edited template is tried at once.
"""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import ClientStatus, Failures
from edgewise.sessions.draft import Draft, Fault
from edgewise.sessions.pods import Made
from edgewise.workloads.deadlines import moment, stamp

# A pod that fails by itself is replaced at once the first time; then its client is given a rest.
FIRST_REST = 1.0
LONGEST_REST = 300.0
# After so long without a failure the next one counts as a first one.
FORGIVEN_AFTER = 600.0


def rest(draft: Draft, client: str, template: str, revision: str, fault: Fault) -> None:
    """A pod of this client failed: let the next one wait, longer each time."""
    record = draft.clients[client]
    before = record.failures.get(template, Failures())
    count = 1
    if before.revision == revision and not _forgiven(before, draft.now):
        count = before.count + 1
    seconds = 0.0 if count == 1 else min(LONGEST_REST, FIRST_REST * 2.0 ** min(count - 2, 16))
    failures = Failures(
        count=count,
        until=stamp(draft.now + seconds),
        revision=revision,
        reason=fault.reason,
        message=fault.message,
    )
    _set(draft, client, template, failures)


def failures_of(record: ClientStatus, made: Made) -> Failures | None:
    """What this client's pods of today's template have done so far."""
    found = record.failures.get(made.template.name)
    return found if found is not None and found.revision == made.name else None


def resting(draft: Draft, client: str, made: Made) -> bool:
    """Whether a client has to wait for its next pod; the plan comes back in time."""
    record = failures_of(draft.clients[client], made)
    if record is None:
        return False
    until = moment(record.until) or 0.0
    if until > draft.now + LONGEST_REST:
        # The clock was set back.
        until = draft.now + LONGEST_REST
        changed = msgspec.structs.replace(record, until=stamp(until))
        _set(draft, client, made.template.name, changed)
    if until <= draft.now:
        return False
    draft.deadlines.append(until)
    return True


def remembered(record: ClientStatus, now: float) -> dict[str, Failures]:
    """The failures that still count, for a client that is served."""
    if not record.failures:
        return record.failures
    return {name: each for name, each in record.failures.items() if not _forgiven(each, now)}


def _forgiven(record: Failures, now: float) -> bool:
    return now - (moment(record.until) or 0.0) > FORGIVEN_AFTER


def _set(draft: Draft, client: str, template: str, failures: Failures) -> None:
    record = draft.clients[client]
    all_of_them = {**record.failures, template: failures}
    draft.set_client(client, msgspec.structs.replace(record, failures=all_of_them))
