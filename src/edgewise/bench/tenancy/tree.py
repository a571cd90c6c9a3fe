"""Children of one tenant, one after the other while the tree grows, and far from its core."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from edgewise.api.tenancy import SubNamespace, SubNamespaceSpec, Workspace
from edgewise.bench.summary import ratio, summary
from edgewise.bench.tenancy.bare import OWNER, bare_child
from edgewise.bench.tenancy.stage import Stage, new_name

_SPEC = SubNamespaceSpec(workspace=Workspace(owner=OWNER))
_DEEP = 8
_PAIRS = 25
_TELL_EVERY = 100


async def growing_tree(stage: Stage, count: int) -> dict[str, Any]:
    root = new_name()
    await stage.tenant(root)
    ours: list[float] = []
    bare: list[float] = []
    for number in range(count):
        ours.append(await _child(stage, root, f"c{number}"))
        begun = time.monotonic()
        await bare_child(stage.client, f"{root}-{number}", _SPEC)
        bare.append(time.monotonic() - begun)
        if (number + 1) % _TELL_EVERY == 0:
            last, least = median(ours[-_TELL_EVERY:]), median(bare[-_TELL_EVERY:])
            stage.say(f"{number + 1} children: {last:.4f} s, bare {least:.4f} s")
    tenth = max(1, count // 10)
    children, floor = summary(ours), summary(bare)
    late, late_floor = summary(ours[-tenth:]), summary(bare[-tenth:])
    return {
        "children": count,
        "child_s": children,
        "bare_s": floor,
        "ratio": ratio(children.get("p50"), floor.get("p50")),
        "ratio_last_tenth": ratio(late.get("p50"), late_floor.get("p50")),
        **await _depths(stage, root),
    }


async def _depths(stage: Stage, root: str) -> dict[str, float]:
    """In this tree: a child of the core, and one eight levels down, in turns."""
    above = root
    for level in range(1, _DEEP):
        await _child(stage, above, f"d{level}")
        found = await stage.client.get(SubNamespace, f"d{level}", above)
        above = found.status.child
    flat: list[float] = []
    deep: list[float] = []
    for number in range(_PAIRS):
        # What is told above a child is written after it is established: each begins at rest.
        await stage.at_rest()
        flat.append(await _child(stage, root, f"flat{number}"))
        await stage.at_rest()
        deep.append(await _child(stage, above, f"deep{number}"))
    return {
        "depth_1_s": round(median(flat), 4),
        f"depth_{_DEEP}_s": round(median(deep), 4),
        "depth_ratio": round(median(deep) / median(flat), 2),
    }


async def _child(stage: Stage, namespace: str, name: str) -> float:
    begun = time.monotonic()
    await stage.child(SubNamespace.named(name, namespace, spec=_SPEC))
    return time.monotonic() - begun
