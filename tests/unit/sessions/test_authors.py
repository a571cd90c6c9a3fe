"""What the author of a workload must be allowed, and what becomes of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from edgewise.api.sessions import SessionTemplateSpec
from edgewise.kube.errors import BadRequest, Forbidden, Invalid, KubeError, ServerError, Unreachable
from edgewise.kube.kinds.authorization import SubjectAccessReview, SubjectAccessReviewStatus
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.webhooks.admission import Allowed, Denied, UserInfo, Verdict
from edgewise.sessions.admission.authors import ESCALATE, needed
from edgewise.sessions.admission.rehearsal import pods_of
from edgewise.workloads import author_review, rehearsal
from edgewise.workloads.author_review import (
    MOST_REMEMBERED,
    REMEMBERED_SECONDS,
    AskedRights,
    review_author,
)
from edgewise.workloads.authors import PODS, Right
from edgewise.workloads.rehearsal import rehearse

EVE = UserInfo(username="eve", groups=["players"])


def workload(*pods: dict[str, Any], **spec: Any) -> SessionTemplateSpec:
    templates = [
        {"name": f"p{number}", "template": {"spec": {"containers": [], **pod}}}
        for number, pod in enumerate(pods)
    ]
    return msgspec.convert({"podTemplates": templates, **spec}, SessionTemplateSpec)


def resource(kind: str, **spec: Any) -> dict[str, Any]:
    return {"name": "x", "manifest": {"kind": kind, "spec": spec}}


NEEDED: dict[str, tuple[SessionTemplateSpec, dict[str, str]]] = {
    "pods": (workload({}), {"create pods": "spec.podTemplates[0]"}),
    "two kinds of pods are one right": (workload({}, {}), {"create pods": "spec.podTemplates[0]"}),
    "a session that follows a template describes nothing": (workload(), {}),
    "a service account": (
        workload({"serviceAccountName": "boss"}),
        {
            "create pods": "spec.podTemplates[0]",
            "impersonate serviceaccounts boss": (
                "spec.podTemplates[0].template.spec.serviceAccountName"
            ),
        },
    ),
    "a service account by the older name of the field": (
        workload({"serviceAccount": "boss"}),
        {
            "create pods": "spec.podTemplates[0]",
            "impersonate serviceaccounts boss": (
                "spec.podTemplates[0].template.spec.serviceAccount"
            ),
        },
    ),
    "the account that every pod has": (
        workload({"serviceAccountName": "default"}),
        {"create pods": "spec.podTemplates[0]"},
    ),
    "an account that is no text is still asked for": (
        workload({"serviceAccountName": ["boss"]}),
        {
            "create pods": "spec.podTemplates[0]",
            "impersonate serviceaccounts ['boss']": (
                "spec.podTemplates[0].template.spec.serviceAccountName"
            ),
        },
    ),
    "ports of the nodes": (
        workload({}, exposure="NodePort"),
        {"create pods": "spec.podTemplates[0]", "create services": "spec.exposure"},
    ),
    "the entry that the cluster has": (
        workload({}, exposure="GatewayAPI"),
        {"create pods": "spec.podTemplates[0]"},
    ),
    "what cannot be made needs no right": (
        workload(resources=[{"name": "x", "manifest": {"kind": ["Job"]}}]),
        {},
    ),
    "every kind that can be bound": (
        workload(
            resources=[
                resource("Service"),
                resource("ConfigMap"),
                resource("Deployment", template={"spec": {"serviceAccountName": "boss"}}),
                resource("StatefulSet"),
                resource("Job", template="x"),
            ]
        ),
        {
            "create services": "spec.resources[0].manifest",
            "create configmaps": "spec.resources[1].manifest",
            "create deployments.apps": "spec.resources[2].manifest",
            "impersonate serviceaccounts boss": (
                "spec.resources[2].manifest.spec.template.spec.serviceAccountName"
            ),
            "create statefulsets.apps": "spec.resources[3].manifest",
            "create jobs.batch": "spec.resources[4].manifest",
        },
    ),
}


@pytest.mark.parametrize("name", NEEDED)
def test_needed_are(name: str) -> None:
    described, expected = NEEDED[name]
    found = {str(right): at for right, at in needed(described, "spec").items()}
    assert found == expected


class Has:
    """Somebody with some rights."""

    def __init__(self, *rights: Right, error: Exception | None = None) -> None:
        self.rights = rights
        self.error = error

    async def has(self, user: UserInfo, namespace: str, right: Right) -> bool:
        if self.error is not None:
            raise self.error
        return right in self.rights


async def author(rights: Any, described: SessionTemplateSpec | None = None) -> str:
    asked = described if described is not None else workload({})
    wanted = needed(asked, "spec")
    denied = await review_author(EVE, "play", wanted, "spec", rights, exempt=ESCALATE)
    return denied.sentence if denied is not None else ""


async def test_who_may_create_it_may_have_it_made() -> None:
    assert await author(Has(PODS)) == ""
    assert await author(Has()) == (
        "spec.podTemplates[0]: eve may not create pods in the namespace play, and so may not have "
        "that done by the operator: ask for that right, or let somebody who has it write this"
    )
    assert await author(Has(ESCALATE)) == ""
    assert await author(Has(), workload()) == ""


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (Forbidden(403, "Forbidden", "no"), "because the operator may not ask: let it create"),
        (Unreachable("nobody there"), "(nobody there); try again"),
        (ServerError(500, "", "etcd is ill"), "(etcd is ill); try again"),
    ],
)
async def test_what_cannot_be_found_out_is_refused(error: KubeError, sentence: str) -> None:
    assert sentence in await author(Has(error=error))


async def test_an_answer_that_does_not_come_is_a_refusal(monkeypatch: Any) -> None:
    class Silent:
        async def has(self, user: UserInfo, namespace: str, right: Right) -> bool:
            await asyncio.sleep(3600)
            return True

    monkeypatch.setattr(author_review, "PATIENCE", 0.01)
    assert "there was no answer within 0 s" in await author(Silent())


class Api:
    """Answers questions, and counts them."""

    def __init__(self, *, allowed: bool) -> None:
        self.allowed = allowed
        self.asked: list[SubjectAccessReview] = []

    async def create(self, review: SubjectAccessReview) -> SubjectAccessReview:
        self.asked.append(review)
        status = SubjectAccessReviewStatus(allowed=self.allowed)
        return msgspec.structs.replace(review, status=status)


async def test_a_right_is_asked_for_once_in_a_while_and_a_missing_one_always() -> None:
    now = 0.0
    api: Any = Api(allowed=True)
    rights = AskedRights(api, monotonic=lambda: now)
    assert await rights.has(EVE, "play", PODS)
    assert await rights.has(EVE, "play", PODS)
    assert len(api.asked) == 1
    spec = api.asked[0].spec
    assert (spec.user, spec.groups) == ("eve", ["players"])
    assert spec.resource_attributes.namespace == "play"
    await rights.has(EVE, "work", PODS)
    await rights.has(UserInfo(username="eve", groups=["workers"]), "play", PODS)
    assert len(api.asked) == 3
    now += REMEMBERED_SECONDS
    await rights.has(EVE, "play", PODS)
    assert len(api.asked) == 4
    api.allowed = False
    now += REMEMBERED_SECONDS
    assert not await rights.has(EVE, "play", PODS)
    assert not await rights.has(EVE, "play", PODS)
    assert len(api.asked) == 6


async def test_what_is_remembered_is_bounded() -> None:
    now = 0.0
    api: Any = Api(allowed=True)
    rights = AskedRights(api, monotonic=lambda: now)
    for number in range(MOST_REMEMBERED + 10):
        await rights.has(EVE, f"n-{number}", PODS)
    assert len(rights._granted) == MOST_REMEMBERED
    now += REMEMBERED_SECONDS
    await rights.has(EVE, "play", PODS)
    assert len(rights._granted) == 1


class Stage:
    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.tried: list[Pod] = []

    async def try_out(self, pod: Pod) -> None:
        self.tried.append(pod)
        if self.error is not None:
            raise self.error


async def tried(error: Exception | None) -> Verdict:
    stage = Stage(error)
    verdict = await rehearse(pods_of(workload({}), "play", "spec"), stage)
    (pod,) = stage.tried
    assert not pod.metadata.owner_references
    assert pod.metadata.namespace == "play"
    return verdict


AT = "spec.podTemplates[0].template: "
REHEARSALS: dict[str, tuple[Exception | None, Verdict]] = {
    "all is well": (None, Allowed()),
    "a name that cannot be": (
        Invalid(422, "Invalid", "spec.containers[0].name: Invalid value"),
        Denied(f"{AT}spec.containers[0].name: Invalid value", code=422),
    ),
    "an unknown field": (
        BadRequest(400, "BadRequest", 'unknown field "spec.x"'),
        Denied(f'{AT}unknown field "spec.x"', code=422),
    ),
    "a quota": (
        Forbidden(403, "Forbidden", "exceeded quota"),
        Allowed((f"{AT}as things are, no such pod would be made: exceeded quota",)),
    ),
    "somebody else's webhook that cannot be asked": (
        BadRequest(400, "BadRequest", 'admission webhook "x" does not support dry run'),
        Allowed(),
    ),
    "an API server that is ill": (ServerError(500, "", "ill"), Allowed()),
}


@pytest.mark.parametrize("name", REHEARSALS)
async def test_a_rehearsal_ends_with(name: str) -> None:
    error, expected = REHEARSALS[name]
    assert await tried(error) == expected


async def test_a_rehearsal_that_takes_too_long_keeps_nobody(monkeypatch: Any) -> None:
    class Slow:
        async def try_out(self, pod: Pod) -> None:
            await asyncio.sleep(3600)

    monkeypatch.setattr(rehearsal, "PATIENCE", 0.01)
    assert await rehearse(pods_of(workload({}), "play", "spec"), Slow()) == Allowed()
