"""Placement as a domain: what it adds to Kubernetes, and what it needs to run."""

from __future__ import annotations

from edgewise.api.placement import NAME_LABEL, LatencyPlacement
from edgewise.domain import Built, Context, Domain, Made, Program
from edgewise.kube.kinds.core import Pod
from edgewise.placement.admission import Admission
from edgewise.placement.board import VoteBoard
from edgewise.placement.controller import PlacementController
from edgewise.placement.listening import Listening
from edgewise.placement.metrics import PlacementMetrics
from edgewise.placement.rights import RIGHTS
from edgewise.runtime.tasks import Task


def build(context: Context) -> Built:
    board = VoteBoard()
    metrics = PlacementMetrics(context.metrics.registry)
    listening = Listening(context.client, context.http, context.namespace, board)
    return Built(
        controllers=(PlacementController(board, metrics=metrics),),
        webhooks=Admission(context.client, context.caches).webhooks(),
        leader_tasks=(Task("reports of latency", listening.run),),
    )


PLACEMENT = Domain(
    name="placement",
    kinds=(LatencyPlacement,),
    # By their owner: a sentinel that was promoted belongs to its ReplicaSet.
    made=(Made(kind=Pod.KIND, label=NAME_LABEL),),
    programs=(Program(name="reports", command=("reports", "--run-broker"), chart="reports.yaml"),),
    build=build,
    rights=RIGHTS,
)
