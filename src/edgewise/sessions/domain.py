"""Sessions as a domain: what they add to Kubernetes, and what they need to run."""

from __future__ import annotations

from edgewise.api.clusters import Cluster
from edgewise.api.exposure import PortClaim
from edgewise.api.global_sessions import FINALIZER, ClientBinding, GlobalSession, Location
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.domain import CHECK_AUTHORS, Built, Context, Domain, Made
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.tasks import Task
from edgewise.sessions import names
from edgewise.sessions.admission.known import webhooks_of_sessions
from edgewise.sessions.controller import SessionController
from edgewise.sessions.indexes.indexes import Indexes
from edgewise.sessions.metrics import SessionMetrics
from edgewise.sessions.pool.controller import TemplateController
from edgewise.sessions.resetting import PodCleaner
from edgewise.sessions.rights import RIGHTS
from edgewise.workloads.children import CHILD, CHILD_KINDS


def build(context: Context) -> Built:
    metrics = SessionMetrics(context.metrics.registry)
    indexes = Indexes(context.site)
    cleaner = PodCleaner(context.client, context.http)
    sessions = SessionController(indexes, context.publisher, cleaner, metrics=metrics)
    templates = TemplateController(indexes, cleaner, metrics=metrics)
    hooks = webhooks_of_sessions(
        context.client,
        context.caches,
        check_authors=bool(context.options[CHECK_AUTHORS.name]),
    )
    return Built(
        controllers=(sessions, templates),
        webhooks=hooks,
        replica_tasks=(
            Task("resets for sessions", sessions.resets.run),
            Task("resets for templates", templates.resets.run),
        ),
    )


SESSIONS = Domain(
    name="sessions",
    kinds=(Session, SessionTemplate, PortClaim),
    hub_kinds=(GlobalSession, ClientBinding, Location, Cluster, SessionTemplate),
    finalizers={SessionTemplate: names.TEMPLATE_FINALIZER, GlobalSession: FINALIZER},
    made=(
        Made(kind=Pod.KIND, label=names.POD_TEMPLATE),
        *(Made(kind=each.KIND, label=CHILD) for each in CHILD_KINDS.values()),
        Made(kind=Lease.KIND, label=names.TEMPLATE_UID, annotation=names.POD_UID),
    ),
    options=(CHECK_AUTHORS,),
    build=build,
    rights=RIGHTS,
)
