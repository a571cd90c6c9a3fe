"""How the pods are: new, ready, dead, or not ours to keep."""

from __future__ import annotations

from edgewise.api.sessions import DEFAULT_NODE_LOSS_SECONDS
from edgewise.sessions.draft import Draft, Fault, named
from edgewise.sessions.steps.failing import rest
from edgewise.sessions.steps.waiting import is_newcomer, ready_seconds
from edgewise.workloads.deadlines import kept
from edgewise.workloads.pods_seen import PodSeen


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
    _waited_for_in_vain(draft)
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
        words = pod.trouble or "its containers ended"
        draft.dead[pod.name] = f"ended ({pod.trouble})" if pod.trouble else "ended"
        draft.faults[pod.name] = Fault(pod.reason if pod.trouble else "PodEnded", words)
    elif pod.crashing and pod.name in draft.load:
        # The kubelet would let it wait for up to five minutes; a new pod takes a second.
        draft.dead[pod.name] = f"crashes ({pod.trouble})"
        draft.faults[pod.name] = Fault(pod.reason, pod.trouble)
    elif pod.ready and pod.ip != draft.ip_of[pod.name]:
        draft.set_ip(pod.name, pod.ip)


def _waited_for_in_vain(draft: Draft) -> None:
    """Pods in which clients wait in vain. (One that was ready, and runs, may hold what matters to
    those whom it has served: it stays for them, and what it lacks is told.)"""
    if draft.seen.workload is None:
        return
    current, period = {made.name for made in draft.made}, ready_seconds(draft)
    for client in draft.digest.pending:
        record = draft.clients[client]
        for pod in record.pods.values():
            seen = draft.seen.pods.get(pod)
            if seen is None or pod in draft.dead:
                continue
            was_ready = bool(draft.ip_of.get(pod))
            if was_ready and not seen.trouble and (seen.ready or not is_newcomer(record)):
                continue
            if not was_ready and draft.revision_of[pod] not in current:
                draft.dead[pod] = "was never ready, and its template has changed since"
            elif record.due and draft.due(kept(record.due, period, draft.now)):
                if was_ready and not seen.trouble and _has_served(draft, pod):
                    _seat_elsewhere(draft, client, pod)
                    continue
                draft.dead[pod] = f"was not ready within {period} s ({seen.reason or 'NotReady'})"
                words = seen.standing or draft.dead[pod]
                draft.faults[pod] = Fault(seen.reason or "NotReady", words)


def _has_served(draft: Draft, pod: str) -> bool:
    return any(
        client in draft.clients and not is_newcomer(draft.clients[client])
        for client, _ in draft.occupants.get(pod, ())
    )


def _seat_elsewhere(draft: Draft, client: str, pod: str) -> None:
    """The others keep their pod, unless all clients are to be together whatever happens."""
    for made in draft.made:
        name = made.template.name
        if made.template.max_clients and draft.clients[client].pods.get(name) == pod:
            draft.unseat(client, name)


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
        fault = draft.faults.get(pod)
        for client in group:
            draft.unseat(client, template)
            if fault is not None:
                rest(draft, client, template, draft.revision_of[pod], fault)
        # One that fails is followed by others that fail: without its name they add up.
        which = f"a pod of {template}" if fault is not None else f"pod {pod}"
        if group:
            draft.bereaved[template].append(group)
            draft.recoveries += 1
            draft.tally.recoveries += 1
            draft.note(
                "Recovering",
                f"{which} {why}; its clients get another: {named(group)}",
                warning=True,
            )
        elif fault is not None:
            draft.note("PodFailed", f"{which} {why}", warning=True)
        seen = draft.seen.pods.get(pod)
        draft.drop_pod(pod)
        if seen is not None and (not seen.deleting or seen.pooled):
            draft.remove_pod(seen)
