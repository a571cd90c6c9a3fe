"""Whether the caller may do all that a case needs: asked before anything is made or measured."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.errors import ReadableError
from edgewise.kube.client import Client

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SESSIONS = "sessions.edgewise.dev"

# (verbs, resource with its group and subresource as `kubectl auth can-i` has them)
COMMON = (
    ("create delete list watch", "namespaces"),
    ("list", "nodes"),
    ("get", "nodes/proxy"),
    ("create delete list watch", "pods"),
)
OF_CASE: dict[str, tuple[tuple[str, str], ...]] = {
    "bare": (),
    "deployment": (("create list watch", "deployments.apps"), ("create", "services")),
    "session-deployment": (
        ("create delete", "deployments.apps"),
        ("patch", "deployments.apps/scale"),
        ("create list watch", "services"),
        ("patch", "pods"),
    ),
    "edgewise": (
        ("create patch", f"sessiontemplates.{SESSIONS}"),
        ("create delete list patch watch", f"sessions.{SESSIONS}"),
    ),
}
CLUSTER_WIDE = ("namespaces", "nodes")


class MayNot(ReadableError):
    """The kubeconfig leads to a cluster where its user lacks rights."""


class Attributes(msgspec.Struct, frozen=True, omit_defaults=True):
    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""


class Answer(msgspec.Struct):
    allowed: bool = False


class Review(msgspec.Struct):
    status: Answer = msgspec.field(default_factory=Answer)


def needed(case: str) -> Iterable[Attributes]:
    for verbs, resource in (*COMMON, *OF_CASE[case]):
        name, _, subresource = resource.partition("/")
        plural, _, group = name.partition(".")
        for verb in verbs.split():
            yield Attributes(
                verb=verb,
                resource=plural,
                group=group,
                subresource=subresource,
                namespace="" if plural in CLUSTER_WIDE else NAMESPACE,
            )


async def check_rights(client: Client, case: str) -> None:
    missing = [_words(each) for each in needed(case) if not await _allowed(client, each)]
    if missing:
        raise MayNot(
            f"the kubeconfig for {client.access.server} may not {', '.join(missing)}, "
            f"which case {case} needs: use one that may, or leave the case out"
        )


async def _allowed(client: Client, wanted: Attributes) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    said = await client.request("POST", PATH, body=msgspec.json.encode(body))
    return msgspec.json.decode(said, type=Review).status.allowed


def _words(wanted: Attributes) -> str:
    resource = wanted.resource + (f"/{wanted.subresource}" if wanted.subresource else "")
    return f"{wanted.verb} {resource}"
