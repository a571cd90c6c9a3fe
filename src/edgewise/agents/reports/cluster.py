"""What reports are about: the placements, pods and nodes of the cluster, kept up to date."""

from __future__ import annotations

from edgewise.api.placement import NAME_LABEL, LatencyPlacement, seconds
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Node, Pod
from edgewise.placement.reports import PodKnown, Reports, Rules
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.metrics import Metrics


def rules_of(placement: LatencyPlacement) -> Rules:
    spec = placement.spec
    return Rules(
        uid=placement.metadata.uid,
        observation=seconds(spec.observation) or 1.0,
        half_life=seconds(spec.reports.half_life) or 2.0,
        max_rtt_ms=spec.reports.max_rtt_ms,
        min_clients=spec.reports.min_clients,
    )


class ClusterView:
    """Three watches that fill `Reports`."""

    def __init__(self, client: Client, reports: Reports, metrics: Metrics) -> None:
        self._reports = reports
        self.caches = SharedCaches(client, metrics=metrics)
        self.caches.of(LatencyPlacement).subscribe(self._placement)
        self.caches.of(Pod, Selection(labels=NAME_LABEL)).subscribe(self._pod)
        self.caches.of(Node).subscribe(self._node)

    def _placement(
        self, old: LatencyPlacement | None, new: LatencyPlacement | None, _: bool
    ) -> None:
        known = new or old
        if known is not None:
            meta = known.metadata
            rules = rules_of(new) if new is not None else None
            self._reports.set_placement(meta.namespace, meta.name, rules)

    def _pod(self, old: Pod | None, new: Pod | None, _: bool) -> None:
        known = new or old
        if known is None:
            return
        meta = known.metadata
        pod = None
        if new is not None and not new.metadata.deleting:
            pod = PodKnown(
                uid=meta.uid, node=new.node_name, placement=meta.labels.get(NAME_LABEL, "")
            )
        self._reports.set_pod(meta.namespace, meta.name, pod)

    def _node(self, old: Node | None, new: Node | None, _: bool) -> None:
        known = new or old
        if known is not None:
            self._reports.set_node(known.metadata.name, new is not None)
