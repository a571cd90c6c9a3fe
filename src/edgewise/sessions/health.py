"""How the pods are: new, ready, dead, or not ours to keep."""

from __future__ import annotations

import msgspec

from edgewise.api.sessions import DEFAULT_NODE_LOSS_SECONDS, Failures
from edgewise.sessions.deadlines import moment, stamp
from edgewise.sessions.draft import Draft, named
from edgewise.sessions.observed import PodSeen

# A pod that ends by itself is replaced at once the first time; then it is given a rest.
FIRST_REST = 1.0
LONGEST_REST = 300.0
# After so long without a failure the next one counts as a first one.
FORGIVEN_AFTER = 600.0


def notice_pods(draft: Draft) -> None:
    seen = draft.seen
    recorded = draft.revision_of.keys()
    for pod in draft.load.keys() - recorded:
        _seats_nowhere(draft, pod)
    for revision in draft.old.pods.keys() - draft.revisions.keys():
        if not _known(draft, revision):
            draft.dead.update(dict.fromkeys(draft.old.pods[revision], "is of no known revision"))
    for pod in recorded - seen.pods.keys():
        if pod in seen.gone:
            draft.dead[pod] = "was deleted"
        else:
            # One stream may be ahead of the other: only a live read tells.
            draft.confirm.append(pod)
    for pod in seen.pods.keys() - recorded:
        _unrecorded(draft, seen.pods[pod])
    changed = recorded if draft.changed_pods is None else recorded & draft.changed_pods
    for pod in changed & seen.pods.keys():
        _recorded(draft, seen.pods[pod])
    if seen.lost_nodes:
        _on_lost_nodes(draft)


def _seats_nowhere(draft: Draft, pod: str) -> None:
    """Somebody has written into the status: these clients need other seats."""
    for client, pod_template in draft.occupants.get(pod, ()):
        if client in draft.clients and draft.clients[client].pods.get(pod_template) == pod:
            draft.unseat(client, pod_template)
    draft.note("StatusRepaired", f"seats in pod {pod}, which is not recorded", warning=True)


def _unrecorded(draft: Draft, pod: PodSeen) -> None:
    """Made or claimed by an operator that ended before it could say so, or no longer ours."""
    if pod.ordinal < draft.old.next or pod.deleting or pod.ended or not _known(draft, pod.revision):
        draft.next = max(draft.next, pod.ordinal + 1)
        if not pod.deleting or pod.pooled:
            draft.remove_pod(pod)
            # A number that is still free could be recorded by somebody else meanwhile.
            draft.needs_fence |= pod.ordinal >= draft.old.next
        return
    draft.add_pod(pod.name, pod.revision, "", pod.ordinal)
    draft.unused.add(pod.name)
    if pod.ready:
        draft.set_ip(pod.name, pod.ip)


def _known(draft: Draft, revision: str) -> bool:
    if revision in draft.revisions:
        return True
    for made in draft.made:
        if made.name == revision:
            draft.revisions[made.name] = made.revision
            return True
    return False


def _recorded(draft: Draft, pod: PodSeen) -> None:
    if pod.deleting:
        draft.dead[pod.name] = "is being deleted"
    elif pod.ended:
        draft.dead[pod.name] = f"ended ({pod.trouble})" if pod.trouble else "ended"
    elif pod.ready and pod.ip != draft.ip_of[pod.name]:
        draft.set_ip(pod.name, pod.ip)


def _on_lost_nodes(draft: Draft) -> None:
    patience = draft.workload.node_loss_seconds
    if patience is None:
        patience = DEFAULT_NODE_LOSS_SECONDS
    for pod in draft.revision_of.keys() - draft.dead.keys():
        seen = draft.seen.pods.get(pod)
        since = draft.seen.lost_nodes.get(seen.node) if seen else None
        if seen is None or since is None:
            continue
        if draft.due(since + patience):
            draft.dead[pod] = f"was lost with node {seen.node}"
        else:
            draft.warn("NodeLost", f"node {seen.node} does not answer; {pod} is given time")


def bury(draft: Draft) -> None:
    """Free the seats in dead pods, and see to it that the pods go."""
    failed: dict[str, str] = {}
    for pod, why in draft.dead.items():
        occupants = draft.occupants.get(pod, [])
        template = occupants[0][1] if occupants else draft.template_of(pod)
        group = [
            client
            for client, where in occupants
            if where == template
            and client in draft.clients
            and draft.clients[client].pods.get(where) == pod
        ]
        for client in group:
            draft.unseat(client, template)
        if group:
            draft.bereaved[template].append(group)
            draft.recoveries += 1
            draft.tally.recoveries += 1
            draft.note(
                "Recovering",
                f"pod {pod} {why}; its clients get another: {named(group)}",
                warning=True,
            )
        seen = draft.seen.pods.get(pod)
        draft.drop_pod(pod)
        if seen is not None:
            if seen.ended and not seen.deleting:
                failed.setdefault(template, why)
            if not seen.deleting or seen.pooled:
                draft.remove_pod(seen)
    for template, why in failed.items():
        rest(draft, template, why)


def rest(draft: Draft, template: str, why: str) -> None:
    """A pod failed by itself: let the next one wait, longer each time."""
    before = draft.failures.get(template, Failures())
    last = moment(before.until) or 0.0
    count = 1 if draft.now - last > FORGIVEN_AFTER else before.count + 1
    seconds = 0.0 if count == 1 else min(LONGEST_REST, FIRST_REST * 2.0 ** min(count - 2, 16))
    draft.failures[template] = Failures(count=count, until=stamp(draft.now + seconds))
    draft.note("PodFailed", f"a pod of {template} {why}", warning=True)


def resting(draft: Draft, template: str) -> bool:
    """Whether new pods of a template have to wait; the plan comes back in time."""
    record = draft.failures.get(template)
    if record is None:
        return False
    until = moment(record.until) or 0.0
    if until > draft.now + LONGEST_REST:
        # The clock was set back.
        until = draft.now + LONGEST_REST
        draft.failures[template] = msgspec.structs.replace(record, until=stamp(until))
    if draft.now - until > FORGIVEN_AFTER:
        del draft.failures[template]
        return False
    if until <= draft.now:
        return False
    draft.deadlines.append(until)
    draft.warn(
        "PodsFailing",
        f"pods of {template} ended {record.count} times in a row; the next one waits until "
        f"{record.until}",
    )
    return True
