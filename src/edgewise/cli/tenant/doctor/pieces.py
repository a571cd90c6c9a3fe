"""What a cluster needs to keep tenants apart: objects, parameters, and an operator."""

import ipaddress
from datetime import UTC, datetime
from typing import Any

import msgspec

from edgewise.cli.tenant.doctor.finding import Finding
from edgewise.domain import mutates_by_policy
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.admission import MutatingWebhookConfiguration
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.kube.objects import Object
from edgewise.operator import LEASE, WEBHOOKS
from edgewise.tenancy import parameters
from edgewise.tenancy.domain import TENANCY
from edgewise.tenancy.policies.runtime_class import NAME as RUNTIME_CLASS
from edgewise.tenancy.policies.runtime_class import SET_RUNTIME_CLASS
from edgewise.tenancy.slices.pinning import PIN_PODS

INSTALL = "install the chart of this version again"
_SHOWN = 3


async def examine(client: Client, namespace: str) -> list[Finding]:
    return [
        await kinds(client),
        await objects(client, "policies and roles", await _needed(client)),
        *await told(client),
        await operator(client, namespace),
    ]


async def _needed(client: Client) -> tuple[Object, ...]:
    by_policy = PIN_PODS if await mutates_by_policy(client) else ()
    return (*TENANCY.cluster_objects, *by_policy)


async def kinds(client: Client) -> Finding:
    missing = []
    for kind in (each.KIND for each in TENANCY.kinds):
        try:
            await client.kind_of(kind.api_version, kind.kind)
        except NotFound:
            missing.append(f"{kind.plural}.{kind.group}")
    return Finding(
        check="kinds",
        good=not missing,
        found=f"missing: {', '.join(missing)}" if missing else f"all {len(TENANCY.kinds)} served",
        reason="KindsMissing" if missing else "",
        advice=INSTALL if missing else "",
    )


async def objects(client: Client, check: str, wanted: tuple[Object, ...]) -> Finding:
    """Whether each is there, and says what it should."""
    missing, other = [], []
    for each in wanted:
        name = f"{type(each).KIND.kind} {each.metadata.name}"
        try:
            found = await client.get(type(each), each.metadata.name)
        except NotFound:
            missing.append(name)
            continue
        if not within(_said(each), _said(found)):
            other.append(name)
    sentences = [
        f"{word}: {_few(names)}"
        for word, names in (("missing", missing), ("other", other))
        if names
    ]
    return Finding(
        check=check,
        good=not sentences,
        found="; ".join(sentences) or f"all {len(wanted)} there",
        reason="PoliciesMissing" if missing else "PoliciesDiffer" if other else "",
        advice=INSTALL if sentences else "",
    )


def _said(each: Object) -> Any:
    document = msgspec.to_builtins(each)
    return {name: document[name] for name in ("spec", "rules") if name in document}


def within(wanted: Any, found: Any) -> bool:
    """Whether `found` has all of it; Kubernetes adds what it has by default."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            (name in found or value in ("", [], {})) and within(value, found.get(name, value))
            for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(within(*pair) for pair in zip(wanted, found, strict=True))
        )
    return bool(wanted == found)


def _few(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


async def told(client: Client) -> list[Finding]:
    """The parameters, and the runtime class that they name."""
    try:
        found = (await client.get(ClusterRole, parameters.NAME)).metadata.annotations
    except NotFound:
        return [
            Finding(
                check="parameters",
                good=False,
                found=f"the ClusterRole {parameters.NAME} is missing: policies refuse all tenants",
                reason="ParametersMissing",
                advice=INSTALL,
            )
        ]
    wrong = [name for name in parameters.DEFAULTS if parameters.annotation(name) not in found]
    wrong += [
        f"ranges has {each!r}, which is no network"
        for each in found.get(parameters.annotation("ranges"), "").split(",")
        if not _is_network(each)
    ]
    said = Finding(
        check="parameters",
        good=not wrong,
        found=f"missing or wrong: {_few(wrong)}" if wrong else "all set",
        reason="ParametersWrong" if wrong else "",
        advice=INSTALL if wrong else "",
    )
    return [said, await _class(client, parameters.parameters_in(found).runtime_class)]


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


async def _class(client: Client, name: str) -> Finding:
    check = "runtime class"
    if not name:
        return Finding(check=check, good=True, found="none: pods run in what the node has")
    try:
        await client.request("GET", f"/apis/node.k8s.io/v1/runtimeclasses/{name}")
    except NotFound:
        return Finding(
            check=check,
            good=False,
            found=f"there is no RuntimeClass {name}: no pod of a tenant can start",
            reason="RuntimeClassMissing",
            advice=f"make the RuntimeClass {name}, or set tenancy.runtimeClass to another one",
        )
    if await mutates_by_policy(client):
        by_policy = await objects(client, check, SET_RUNTIME_CLASS)
        if by_policy.good:
            return Finding(check=check, good=True, found=f"{name}, set by the API server")
        return by_policy
    try:
        hooks = (await client.get(MutatingWebhookConfiguration, WEBHOOKS)).webhooks
    except NotFound:
        hooks = []
    if any(each.name == RUNTIME_CLASS for each in hooks):
        return Finding(check=check, good=True, found=f"{name}, set by the operator's webhook")
    return Finding(
        check=check,
        good=False,
        found=f"{name} is set by nobody: the API server has no MutatingAdmissionPolicies, and the "
        "operator has no webhook for it",
        reason="RuntimeClassNotSet",
        advice="give the operator --runtime-class-webhook; the chart does, when it is upgraded",
    )


async def operator(client: Client, namespace: str) -> Finding:
    check = "operator"
    try:
        spec = (await client.get(Lease, LEASE, namespace)).spec
    except NotFound:
        return Finding(
            check=check,
            good=False,
            found=f"no operator has ever led in the namespace {namespace}",
            reason="OperatorAway",
            advice="start one, or name its namespace with --namespace",
        )
    silent = _since(spec.renew_time)
    leads = bool(spec.holder_identity) and silent < 2 * (spec.lease_duration_seconds or 15)
    return Finding(
        check=check,
        good=leads,
        found=f"{spec.holder_identity} leads" if leads else f"silent for {silent:.0f} s",
        reason="" if leads else "OperatorAway",
        advice="" if leads else "start it: what is there is enforced, and nothing new is made",
    )


def _since(moment: str | None) -> float:
    if not moment:
        return float("inf")
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
