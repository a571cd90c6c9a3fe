"""In which namespace of the hub a hub is: a wrong one is empty, and looks like a new hub."""

from __future__ import annotations

import contextlib

from edgewise.api.clusters import Cluster
from edgewise.api.secrets import SECRET_LABEL
from edgewise.kube.client import Client
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.core import Secret
from edgewise.runtime.errors import ServiceError

# More namespaces than this are counted instead of named.
MOST_NAMED = 3


class NoHubHere(ServiceError):
    """The namespace holds nothing of a hub."""


async def members(hub: Client, namespace: str) -> list[Cluster]:
    try:
        return (await hub.list(Cluster, namespace)).items
    except NotFound:
        raise NoHubHere(
            "this cluster is no hub: it does not know the hub's objects; install them with "
            "`edgewise crds install`, or choose the hub with --kubeconfig and --context"
        ) from None


async def elsewhere(hub: Client, namespace: str) -> str:
    """Where else the hub has hubs, as half a sentence; empty if nowhere, or not to be seen."""
    found: set[str] = set()
    with contextlib.suppress(Forbidden):
        found = {each.metadata.namespace for each in (await hub.list(Cluster)).items}
    names = sorted(found - {namespace})
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    there = f"there is one in {', '.join(names[:MOST_NAMED])}{more}"
    return f"{there}: choose it with --namespace"


async def require_hub(hub: Client, namespace: str) -> None:
    """Refuse a namespace that has nothing of a hub while another one has.

    With no hub anywhere, this is the beginning of one. Who may not look is not held up.
    """
    other = ""
    with contextlib.suppress(Forbidden):
        if not await _has_hub(hub, namespace):
            other = await elsewhere(hub, namespace)
    if other:
        raise NoHubHere(
            f"there is no hub in namespace {namespace}, but {other} "
            f"(to begin another one in {namespace}, add a cluster to it first)"
        )


async def _has_hub(hub: Client, namespace: str) -> bool:
    if await members(hub, namespace):
        return True
    # Its server has run here, or tokens were made.
    return bool((await hub.list(Secret, namespace, labels=SECRET_LABEL)).items)


async def note_on_first(hub: Client, namespace: str) -> str:
    """For who adds a cluster, perhaps to the wrong hub; empty where there is one already."""
    with contextlib.suppress(Forbidden):
        if not await members(hub, namespace) and (other := await elsewhere(hub, namespace)):
            return f"It is the first one in {namespace}. If you meant another hub, {other}."
    return ""
