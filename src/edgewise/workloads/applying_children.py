"""Children written and removed, and never in place of what another owner has made."""

from __future__ import annotations

from edgewise.kube.errors import Invalid, NotFound
from edgewise.runtime.api import Api
from edgewise.workloads.children import Child, ChildSeen, child_named


class NotOurs(Invalid):
    """Somebody else has made an object of this name."""

    def __init__(self, child: Child) -> None:
        name = child.metadata.name
        super().__init__(
            422,
            "Invalid",
            f"{name} is there already and belongs to somebody else; delete it, or choose "
            "another name for the resource",
        )


async def apply_child(api: Api, child: Child, *, new: bool) -> None:
    """A new one must not take the place of what somebody else has made."""
    if new:
        meta = child.metadata
        try:
            found = await api.get(type(child), meta.name, meta.namespace)
        except NotFound:
            pass
        else:
            owners = {each.uid for each in found.metadata.owner_references}
            if owners.isdisjoint(each.uid for each in meta.owner_references):
                raise NotOurs(child)
    await api.apply(child)


async def remove_child(api: Api, child: ChildSeen, namespace: str) -> None:
    obj = child_named(child, namespace)
    await api.delete(obj, propagation="Background")
