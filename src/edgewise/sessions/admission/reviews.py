"""What is refused before it is stored, with a sentence that names the field.

The CRDs' own rules catch what can be said of one object by itself. Here is what needs another
object (the template, the other sessions), what its author may do, and the parts that the schema
leaves open.

Joins, losses and departures pass while no operator answers: who is there must be able to say
that it leaves, and what should have been refused the plan refuses client by client, when there
is an operator again. Everything else waits for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from edgewise.api.sessions import (
    PodTemplate,
    Session,
    SessionSpec,
    SessionTemplate,
    Workload,
)
from edgewise.kube.kinds.admission import MatchCondition
from edgewise.kube.shallow import DEEPEST, is_deep
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, Verdict
from edgewise.runtime.webhooks.serving import Webhook
from edgewise.sessions.admission.authors import ESCALATE, described, needed
from edgewise.sessions.admission.rehearsal import pods_of
from edgewise.sessions.bound import complaint
from edgewise.sessions.shapes import mappings, metadata_problem
from edgewise.sessions.steps.presence import CLIENT_ID, CLIENT_ID_RULE
from edgewise.workloads.author_review import Rights, review_author
from edgewise.workloads.rehearsal import Rehearsal, rehearse

TEMPLATE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")

# Status has its own door: a join is asked about once, and the operator's own writes never.
SPEC_CHANGED = "oldObject == null || object.spec != oldObject.spec"


def _changed(field: str) -> str:
    """In CEL, which has no way to take one field out of a map and compare the rest."""
    new, old = f"object.spec.{field}", f"oldObject.spec.{field}"
    return f"has({new}) != has({old}) || (has({new}) && {new} != {old})"


WORKLOAD_CHANGED = "oldObject == null || " + " || ".join(
    _changed(field.encode_name)
    for field in msgspec.structs.fields(SessionSpec)
    if field.name != "clients"
)
CLIENTS_CHANGED = f"!({WORKLOAD_CHANGED}) && object.spec != oldObject.spec"

# A reviewer may ask the API server twice, and wait for it each time.
REVIEW_SECONDS = 10
# Who joins is not held up for longer by an operator that is gone without a word.
JOIN_SECONDS = 2


class Known(Protocol):
    """What the reviewers have to know beyond the object itself."""

    async def template(self, namespace: str, name: str) -> SessionTemplate | None: ...

    def sessions_of(self, namespace: str, template: str) -> int: ...


def webhooks(
    known: Known, *, rights: Rights | None = None, stage: Rehearsal | None = None
) -> list[Webhook[Any]]:
    """Without `rights` everybody who may write a workload may have it made; without `stage` its
    pods are not tried out."""

    async def session(request: AdmissionRequest[Session]) -> Verdict:
        verdict = await review_session(request, known)
        return verdict if isinstance(verdict, Denied) else await objects(request)

    async def template(request: AdmissionRequest[SessionTemplate]) -> Verdict:
        verdict = review_template(request)
        return verdict if isinstance(verdict, Denied) else await objects(request)

    async def objects(request: AdmissionRequest[Any]) -> Verdict:
        return await review_objects(request, rights, stage)

    return [
        Webhook(
            name="sessions.sessions.edgewise.dev",
            kind=Session,
            review=session,
            timeout_seconds=REVIEW_SECONDS,
            match_conditions=(condition("the-workload-changed", WORKLOAD_CHANGED),),
        ),
        Webhook(
            name="clients.sessions.edgewise.dev",
            kind=Session,
            review=session,
            operations=("UPDATE",),
            fail_closed=False,
            timeout_seconds=JOIN_SECONDS,
            match_conditions=(condition("only-clients-changed", CLIENTS_CHANGED),),
        ),
        Webhook(
            name="sessiontemplates.sessions.edgewise.dev",
            kind=SessionTemplate,
            review=template,
            timeout_seconds=REVIEW_SECONDS,
            match_conditions=(condition("the-spec-changed", SPEC_CHANGED),),
        ),
    ]


def condition(name: str, expression: str) -> MatchCondition:
    return MatchCondition(name=name, expression=expression)


async def review_objects(
    request: AdmissionRequest[Session] | AdmissionRequest[SessionTemplate],
    rights: Rights | None,
    stage: Rehearsal | None,
) -> Verdict:
    """Whether what the workload describes may be made, and can be; only what changed. Also of
    what is being deleted: a template that is in use stays, and pods are made from it."""
    new, old = request.object, request.old_object
    if new is None:
        return Allowed()
    if old is not None and described(old.spec) == described(new.spec):
        return Allowed()
    if rights is not None:
        wanted = needed(new.spec, "spec")
        denied = await review_author(
            request.user, request.namespace, wanted, "spec", rights, exempt=ESCALATE
        )
        if denied is not None:
            return denied
    if stage is not None:
        return await rehearse(pods_of(new.spec, request.namespace, "spec"), stage)
    return Allowed()


async def review_session(request: AdmissionRequest[Session], known: Known) -> Verdict:
    new, old = request.object, request.old_object
    if new is None or new.metadata.deleting:
        return Allowed()
    problem = first_of(clients_problems(new, old))
    if problem:
        return Denied(problem)
    reference = new.spec.template_ref
    if reference is None:
        workload: Workload | None = new.spec
        if old is None or workload_of(old) != workload_of(new):
            problem = first_of(workload_problems(new.spec, "spec"))
    else:
        workload, problem = await referred(request, reference.name, known)
    return Denied(problem) if problem else too_many(new, old, workload)


async def referred(
    request: AdmissionRequest[Session], name: str, known: Known
) -> tuple[Workload | None, str]:
    """What the template says, or why it cannot be followed."""
    old = request.old_object
    problem = reference_problem(old, name)
    if problem:
        return None, problem
    template = await known.template(request.namespace, name)
    if template is None:
        if old is not None:
            return None, ""  # it was deleted by force; those who leave must not be held up
        return None, (
            f"spec.templateRef.name: there is no SessionTemplate {name} in the namespace "
            f"{request.namespace}"
        )
    if template.metadata.deleting and old is None:
        return None, f"spec.templateRef.name: the SessionTemplate {name} is being deleted"
    limit = template.spec.max_sessions
    if old is None and limit and known.sessions_of(request.namespace, name) >= limit:
        return None, (
            f"spec.templateRef.name: {name} allows {limit} sessions in a namespace, "
            "and there are as many"
        )
    return template.spec, ""


def reference_problem(old: Session | None, name: str) -> str:
    if old is not None and old.spec.template_ref is not None and old.spec.template_ref.name != name:
        return (
            "spec.templateRef cannot be changed: the pods of the clients were made from "
            f"{old.spec.template_ref.name}; make another session"
        )
    if not TEMPLATE_NAME.fullmatch(name):
        return (
            f"spec.templateRef.name: {name!r} cannot be the name of a SessionTemplate, which has "
            "small letters, digits, dashes and dots"
        )
    return ""


def clients_problems(new: Session, old: Session | None) -> Iterable[str]:
    """Only what changed is looked at: a session may have thousands of clients."""
    before = old.spec.clients if old is not None else {}
    for client, entry in new.spec.clients.items():
        if client in before and before[client] == entry:
            continue
        if not CLIENT_ID.fullmatch(client):
            yield f"spec.clients: the client id {client[:80]!r} {CLIENT_ID_RULE}"
        elif not isinstance(entry, dict):
            yield f"spec.clients.{client} must be an object, such as {{connected: true}}"
        elif is_deep(entry):
            yield f"spec.clients.{client} is nested deeper than {DEEPEST} levels"
        elif not isinstance(entry.get("connected", True), bool):
            yield f"spec.clients.{client}.connected must be true or false"


def too_many(new: Session, old: Session | None, workload: Workload | None) -> Verdict:
    """Those who are there may stay, and leave; only who would be one too many is refused."""
    limit = workload.max_clients if workload is not None else 0
    count = len(new.spec.clients)
    before = len(old.spec.clients) if old is not None else 0
    if limit and count > limit and count > before:
        return Denied(f"spec.clients: the session is full, maxClients is {limit}")
    return Allowed()


def review_template(request: AdmissionRequest[SessionTemplate]) -> Verdict:
    new, old = request.object, request.old_object
    if new is None or (old is not None and old.spec == new.spec):
        return Allowed()  # whoever only takes off a finalizer must not be held up
    problem = first_of(workload_problems(new.spec, "spec"))
    return Denied(problem) if problem else Allowed()


def workload_of(session: Session) -> dict[str, Any]:
    spec = msgspec.structs.asdict(session.spec)
    del spec["clients"]
    return spec


def workload_problems(workload: Workload, at: str) -> Iterable[str]:
    for number, pod_template in enumerate(workload.pod_templates):
        if is_deep(pod_template.template):
            yield f"{at}.podTemplates[{number}].template is nested deeper than {DEEPEST} levels"
        yield from pod_template_problems(pod_template, f"{at}.podTemplates[{number}]")
    for number, resource in enumerate(workload.resources):
        if is_deep(resource.manifest):
            yield f"{at}.resources[{number}].manifest is nested deeper than {DEEPEST} levels"
        if problem := complaint(resource):
            yield f"{at}.resources[{number}].manifest: {problem}"


def pod_template_problems(pod_template: PodTemplate, at: str) -> Iterable[str]:
    if problem := metadata_problem(pod_template.template.get("metadata")):
        yield f"{at}.template.{problem}"
    spec = pod_template.template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers:
        yield f"{at}.template.spec.containers must name at least one container"
        return
    names: list[Any] = []
    for number, container in enumerate(containers):
        where = f"{at}.template.spec.containers[{number}]"
        if not isinstance(container, dict):
            yield f"{where} must be an object"
            return
        for field in ("name", "image"):
            if not isinstance(container.get(field), str) or not container[field]:
                yield f"{where}.{field} must be given"
        ports = container.get("ports")
        if ports is not None and mappings(ports) != ports:
            yield f"{where}.ports must be a list of objects, such as [{{containerPort: 80}}]"
        names.append(container.get("name"))
    for name in sorted({str(name) for name in names if names.count(name) > 1}):
        yield f"{at}.template.spec.containers: the name {name} is there twice"
    reset = pod_template.reset
    if reset is not None and reset.restart_container and reset.restart_container not in names:
        yield f"{at}.reset.restartContainer: there is no container {reset.restart_container}"
    if reset is not None and reset.http_path and not (reset.port or pod_template.ports):
        yield f"{at}.reset.port must be given, because no port is exposed"


def first_of(problems: Iterable[str]) -> str:
    return next(iter(problems), "")
