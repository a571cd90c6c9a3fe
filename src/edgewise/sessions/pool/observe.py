"""Gathers what the plan of a pool needs: from caches, indexes, and what was noted before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from edgewise.api.sessions import SessionTemplate
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.watches import CacheView
from edgewise.sessions import names
from edgewise.sessions.indexes.indexes import Indexes, by_template, by_template_in_use
from edgewise.sessions.indexes.pod_index import Entry
from edgewise.sessions.observe import PortsOfNodes, children_of
from edgewise.sessions.pods import made_from
from edgewise.sessions.pool.plan import PoolObserved
from edgewise.sessions.pool.settle import ASK_AGAIN
from edgewise.sessions.raw_session import RawSession
from edgewise.sessions.resetting import Resets
from edgewise.workloads.children import BOUND_KINDS

# Warm pods that fail by themselves are made again after a while, which grows.
RESTS = Backoff(first=1.0, most=300.0)


class Rest(msgspec.Struct, frozen=True):
    failures: int = 0
    until: float = 0.0


class PoolHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What no object tells of a pool, and is noted from one look to the next."""

    waiting: int = 0  # pods that waited for somebody
    taken_at: float = 0.0  # when they last became fewer
    # Pods of nobody that are not ready, and since when.
    unready_since: Mapping[str, float] = {}
    # By revision: how many warm pods failed, one after the other, and until when the next waits.
    rests: Mapping[str, Rest] = {}

    def looked_at(self, pool: Mapping[str, Entry], now: float) -> PoolHistory:
        free = {
            name: entry.pod
            for name, entry in pool.items()
            if entry.pod is not None and not entry.holder
        }
        return msgspec.structs.replace(
            self,
            waiting=len(free),
            taken_at=now if len(free) < self.waiting else self.taken_at,
            unready_since={
                name: min(self.unready_since.get(name, now), now)
                for name, pod in free.items()
                if not pod.ready
            },
        )

    def followed(self, template: SessionTemplate) -> PoolHistory:
        """With the revisions that there are: one that was mended is not held to account."""
        if not self.rests:
            return self
        current = {made_from(each, template.spec).name for each in template.spec.pod_templates}
        rests = {name: rest for name, rest in self.rests.items() if name in current}
        return msgspec.structs.replace(self, rests=rests)

    def failed(self, revisions: Iterable[str], now: float) -> PoolHistory:
        """Warm pods failed: let the next ones wait, longer each time."""
        rests = {}
        for revision in revisions:
            before = self.rests.get(revision, Rest())
            count = before.failures + 1 if now - before.until < RESTS.most * 2 else 1
            rests[revision] = Rest(count, now + RESTS.delay(count, lambda: 1.0))
        return msgspec.structs.replace(self, rests={**self.rests, **rests})

    def refused(self, revisions: Iterable[str], now: float) -> PoolHistory:
        rests = dict.fromkeys(revisions, Rest(1, now + ASK_AGAIN))
        return msgspec.structs.replace(self, rests={**self.rests, **rests})


def sessions_of(template: SessionTemplate, cache: CacheView) -> list[RawSession]:
    return cache[RawSession].by(by_template, str(template.key))


def observe_pool(
    template: SessionTemplate,
    cache: CacheView,
    indexes: Indexes,
    history: PoolHistory,
    *,
    resets: Resets,
    gone_sessions: frozenset[str] = frozenset(),
    gone_pods: frozenset[str] = frozenset(),
) -> PoolObserved:
    """`history` has noted the pool as it is now."""
    meta = template.metadata
    pool = indexes.pods.pool_of(meta.namespace, meta.uid)
    return PoolObserved(
        template=template,
        pool=pool,
        live_sessions={
            each.metadata.uid: each.metadata.name for each in sessions_of(template, cache)
        },
        gone_sessions=gone_sessions,
        gone_pods=gone_pods,
        resets=_results(pool.values(), resets),
        resting_until={name: rest.until for name, rest in history.rests.items()},
        taken_at=history.taken_at,
        unready_since=history.unready_since,
        host_ports=PortsOfNodes(indexes, meta.namespace),
        public_ports=len(indexes.ports),
        in_use=bool(cache[RawSession].by(by_template_in_use, str(template.key))),
        children=children_of(names.TEMPLATE_UID, meta, cache, BOUND_KINDS),
    )


def _results(pool: Iterable[Entry], resets: Resets) -> dict[str, bool]:
    found = {}
    for entry in pool:
        if entry.pod is not None and entry.lease is not None:
            result = resets.result(entry.pod.uid, entry.lease.version)
            if result is not None:
                found[entry.pod.uid] = result
    return found
