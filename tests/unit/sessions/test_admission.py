"""What is refused, in the words in which it is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.sessions import Session, SessionSpec, SessionTemplate, SessionTemplateSpec
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, UserInfo, Verdict
from edgewise.sessions.admission.reviews import review_session, review_template

POD = {"spec": {"containers": [{"name": "main", "image": "edgewise.local/x:1"}]}}
HERE = {"connected": True}


class Known:
    """A namespace with one template and some sessions of it."""

    def __init__(self, sessions: int = 0, **spec: Any) -> None:
        self.sessions = sessions
        self.known = template(**spec)

    async def template(self, namespace: str, name: str) -> SessionTemplate | None:
        return self.known if (namespace, name) == ("play", "arena") else None

    def sessions_of(self, namespace: str, template: str) -> int:
        return self.sessions


def template(**spec: Any) -> SessionTemplate:
    document = {"podTemplates": [{"name": "main", "template": POD}], **spec}
    return SessionTemplate.named(
        "arena", "play", spec=msgspec.convert(document, SessionTemplateSpec)
    )


def session(**spec: Any) -> Session:
    document = {"templateRef": {"name": "arena"}, **spec}
    document = {name: value for name, value in document.items() if value is not None}
    return Session.named("room", "play", spec=msgspec.convert(document, SessionSpec))


def asked(new: Any, old: Any = None) -> AdmissionRequest[Any]:
    return AdmissionRequest(
        uid="1",
        operation="UPDATE" if old is not None else "CREATE",
        name=new.metadata.name,
        namespace="play",
        subresource="",
        user=UserInfo(),
        object=new,
        old_object=old,
        dry_run=False,
        raw_object=b"",
    )


def nested(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = {"a": made}
    return made


def said(verdict: Verdict) -> str:
    if isinstance(verdict, Allowed):
        return ""
    assert isinstance(verdict, Denied)
    return verdict.sentence


SESSIONS: dict[str, tuple[Known, Session, Session | None, str]] = {
    "a session of a known template": (Known(), session(clients={"ann": HERE}), None, ""),
    "a template that is not there": (
        Known(),
        session(templateRef={"name": "nowhere"}),
        None,
        "spec.templateRef.name: there is no SessionTemplate nowhere in the namespace play",
    ),
    "a template that lies elsewhere": (
        Known(),
        session(templateRef={"name": "../../x"}),
        None,
        "spec.templateRef.name: '../../x' cannot be the name of a SessionTemplate, which has "
        "small letters, digits, dashes and dots",
    ),
    "presence that is nested without end": (
        Known(),
        session(clients={"ann": {"connected": True, "x": nested(150)}}),
        None,
        "spec.clients.ann is nested deeper than 100 levels",
    ),
    "a client id that cannot be a part of anything": (
        Known(),
        session(clients={"../ann": HERE}),
        None,
        "spec.clients: the client id '../ann' must have",
    ),
    "presence that is no object": (
        Known(),
        session(clients={"ann": "yes"}),
        None,
        "spec.clients.ann must be an object, such as {connected: true}",
    ),
    "presence that is neither true nor false": (
        Known(),
        session(clients={"ann": {"connected": "maybe"}}),
        None,
        "spec.clients.ann.connected must be true or false",
    ),
    "one client too many": (
        Known(maxClients=1),
        session(clients={"ann": HERE, "bob": HERE}),
        session(clients={"ann": HERE}),
        "spec.clients: the session is full, maxClients is 1",
    ),
    "somebody leaves a session that is over a limit lowered meanwhile": (
        Known(maxClients=1),
        session(clients={"ann": HERE, "bob": HERE}),
        session(clients={"ann": HERE, "bob": HERE, "cleo": HERE}),
        "",
    ),
    "one session too many": (
        Known(sessions=2, maxSessions=2),
        session(),
        None,
        "spec.templateRef.name: arena allows 2 sessions in a namespace, and there are as many",
    ),
    "a join of a session that is the last one allowed": (
        Known(sessions=2, maxSessions=2),
        session(clients={"ann": HERE}),
        session(),
        "",
    ),
    "another template for a session that runs": (
        Known(),
        session(),
        session(templateRef={"name": "old"}),
        "spec.templateRef cannot be changed",
    ),
    "somebody leaves after the template was deleted by force": (
        Known(),
        session(templateRef={"name": "nowhere"}),
        session(templateRef={"name": "nowhere"}, clients={"ann": HERE}),
        "",
    ),
    "an inline pod without containers": (
        Known(),
        session(templateRef=None, podTemplates=[{"name": "main", "template": {}}]),
        None,
        "spec.podTemplates[0].template.spec.containers must name at least one container",
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
async def test_sessions(name: str) -> None:
    known, new, old, sentence = SESSIONS[name]
    verdict = said(await review_session(asked(new, old), known))
    assert verdict.startswith(sentence) if sentence else verdict == ""


async def test_only_clients_that_changed_are_looked_at() -> None:
    # A client that slipped past is the plan's to refuse; it must not hold up the others.
    before = session(clients={"../ann": HERE})
    after = session(clients={"../ann": HERE, "bob": HERE})
    assert said(await review_session(asked(after, before), Known())) == ""


def pods(**fields: Any) -> dict[str, Any]:
    return {"podTemplates": [{"name": "main", "template": POD, **fields}]}


TWICE = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}}
TEMPLATES: dict[str, tuple[dict[str, Any], str]] = {
    "as it should be": (pods(), ""),
    "no containers": (
        pods(template={"spec": {"containers": []}}),
        "spec.podTemplates[0].template.spec.containers must name at least one container",
    ),
    "a pod that is nested without end": (
        pods(template={**POD, "x": nested(150)}),
        "spec.podTemplates[0].template is nested deeper than 100 levels",
    ),
    "a resource that is nested without end": (
        {**pods(), "resources": [{"name": "a", "manifest": {"kind": "Job", "x": nested(150)}}]},
        "spec.resources[0].manifest is nested deeper than 100 levels",
    ),
    "metadata of a pod that is a text": (
        pods(template={**POD, "metadata": "x"}),
        "spec.podTemplates[0].template.metadata must be an object",
    ),
    "labels of a pod that are no texts": (
        pods(template={**POD, "metadata": {"labels": {"a": 1}}}),
        "spec.podTemplates[0].template.metadata.labels must be texts by their names, "
        "such as {app: chat}",
    ),
    "annotations of a pod that are a list": (
        pods(template={**POD, "metadata": {"annotations": ["a"]}}),
        "spec.podTemplates[0].template.metadata.annotations must be texts by their names, "
        "such as {app: chat}",
    ),
    "a pod with empty metadata": (pods(template={**POD, "metadata": None}), ""),
    "ports of a container that are a number": (
        pods(template={"spec": {"containers": [{"name": "main", "image": "x", "ports": 80}]}}),
        "spec.podTemplates[0].template.spec.containers[0].ports must be a list of objects, "
        "such as [{containerPort: 80}]",
    ),
    "a resource of an impossible kind": (
        {**pods(), "resources": [{"name": "a", "manifest": {"kind": ["Job"]}}]},
        "spec.resources[0].manifest: kind must be one of Deployment, StatefulSet, Service, "
        "ConfigMap, Job, but is ['Job']",
    ),
    "a resource whose metadata is a text": (
        {**pods(), "resources": [{"name": "a", "manifest": {"kind": "Job", "metadata": "x"}}]},
        "spec.resources[0].manifest: metadata must be an object",
    ),
    "a container without an image": (
        pods(template={"spec": {"containers": [{"name": "main"}]}}),
        "spec.podTemplates[0].template.spec.containers[0].image must be given",
    ),
    "two containers of one name": (
        pods(template=TWICE),
        "spec.podTemplates[0].template.spec.containers: the name a is there twice",
    ),
    "a reset of a container that is not there": (
        pods(reset={"restartContainer": "other"}),
        "spec.podTemplates[0].reset.restartContainer: there is no container other",
    ),
    "a reset by HTTP at no port": (
        pods(reset={"httpPath": "/reset"}),
        "spec.podTemplates[0].reset.port must be given, because no port is exposed",
    ),
    "a bound resource that may do anything": (
        {"resources": [{"name": "root", "manifest": {"kind": "ClusterRole"}}]},
        "spec.resources[0].manifest: kind must be one of",
    ),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name: str) -> None:
    spec, sentence = TEMPLATES[name]
    verdict = said(review_template(asked(template(**spec))))
    assert verdict.startswith(sentence) if sentence else verdict == ""
