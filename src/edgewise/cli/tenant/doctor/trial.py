"""Two tenants for a minute, to see whether packets and requests of one stay with it."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from edgewise.api.tenancy import GROUP, State, Subject, Tenant, TenantSpec
from edgewise.cli.interruption import uninterrupted
from edgewise.cli.tenant.doctor.finding import Finding
from edgewise.cli.tenant.doctor.packets import PROTOCOLS, arrives, probe, ready
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, Forbidden, NotFound
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Namespace, Node, Pod, Service
from edgewise.kube.kinds.rbac import ClusterRole
from edgewise.runtime.errors import Unavailable
from edgewise.tenancy import parameters

DOCTOR = f"{GROUP}/doctor"  # a label of the tenants that it makes
OWNER = Subject(kind="User", name="edgewise:doctor")
NOT_TRIED = "NotTried"
# What another doctor left that was killed.
LEFT_AFTER = timedelta(minutes=10)
# Rules reach the nodes a moment after the pods.
PATIENCE = 10.0
ENDING_SECONDS = 60.0
_POLL_SECONDS = 0.2
LOCAL_IMAGE = "edgewise.local/python:1"

Say = Callable[[str], None]


async def image_for(client: Client, namespace: str) -> str:
    """That of the operator, or the one that every node of a local cluster has; else none."""
    with contextlib.suppress(NotFound, Forbidden):
        found = await client.get(Deployment, "edgewise-operator", namespace)
        image: str = found.spec["template"]["spec"]["containers"][0]["image"]
        return image
    with contextlib.suppress(Forbidden):
        for node in msgspec.json.decode(await client.request("GET", Node.KIND.path()))["items"]:
            images = node["status"].get("images") or ()
            if any(LOCAL_IMAGE in (each.get("names") or ()) for each in images):
                return LOCAL_IMAGE
    return ""


async def try_out(client: Client, image: str, timeout: float, say: Say) -> list[Finding]:
    if not image:
        return [
            Finding(
                check="network",
                good=False,
                found="no image is known that pods could be made of",
                reason=NOT_TRIED,
                advice="name one that has python3 with --image",
            )
        ]
    await sweep(client)
    mark = secrets.token_hex(3)
    names = [f"doctor-{mark}-{number}" for number in (1, 2)]
    left: list[str] = []
    try:
        async with tenants(client, names, timeout, left):
            say(f"the tenants {' and '.join(names)} are there; pods of {image} start")
            found = [
                await policies_answer(client, names[0]),
                await network(client, names, image, timeout),
            ]
    except (ApiError, Unavailable) as error:
        found = [Finding(check="trial", good=False, found=str(error), reason=NOT_TRIED)]
    if left:
        found.append(
            Finding(
                check="clean-up",
                good=False,
                found=f"still being deleted: {', '.join(left)}",
                reason="NotCleanedUp",
                advice="they go by themselves when an operator runs",
            )
        )
    return found


@contextlib.asynccontextmanager
async def tenants(
    client: Client, names: list[str], timeout: float, left: list[str]
) -> AsyncIterator[None]:
    """They go again, also when somebody presses Ctrl-C; `left` says what did not in time."""
    try:
        for name in names:
            made = Tenant.named(name, spec=TenantSpec(owners=[OWNER], full_name="trial"))
            made.metadata.labels = {DOCTOR: "true"}
            await client.create(made)
        await until_established(client, names, timeout)
        yield
    finally:
        with uninterrupted():
            left += await end(client, names)


async def until_established(client: Client, names: list[str], timeout: float) -> None:
    until = time.monotonic() + timeout
    waiting = list(names)
    while waiting:
        found = await client.get(Tenant, waiting[0])
        if found.status.state == State.ESTABLISHED.value:
            waiting.pop(0)
            continue
        if time.monotonic() > until:
            raise Unavailable(
                f"the tenant {waiting[0]} is not established after {timeout:.0f} s: it is "
                f"{found.status.state or 'untouched'}"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def end(client: Client, names: list[str], seconds: float = ENDING_SECONDS) -> list[str]:
    """Delete these tenants; which of their namespaces are there still."""
    for name in names:
        with contextlib.suppress(NotFound):
            await client.patch(Tenant, name, body={"spec": {"enabled": False}})
            await client.delete(Tenant, name)
    until = time.monotonic() + seconds
    left = list(names)
    while left and time.monotonic() < until:
        try:
            await client.get(Namespace, left[0])
        except NotFound:
            left.pop(0)
            continue
        await asyncio.sleep(_POLL_SECONDS)
    return left


async def sweep(client: Client) -> None:
    """What a doctor left that was killed, long ago."""
    before = datetime.now(UTC) - LEFT_AFTER
    for each in (await client.list(Tenant, labels=f"{DOCTOR}=true")).items:
        made = each.metadata.creation_timestamp
        if made and datetime.fromisoformat(made) < before:
            await end(client, [each.metadata.name], seconds=0)


async def policies_answer(client: Client, namespace: str) -> Finding:
    """Whether a request is refused that no tenant may make, by the policy that says so."""
    check = "policies answer"
    spec: dict[str, Any] = {"type": "ExternalName", "externalName": "elsewhere.example"}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "try"}, "spec": spec}
    path = Service.KIND.path(namespace)
    try:
        await client.request("POST", path, body=msgspec.json.encode(body), params={"dryRun": "All"})
    except ApiError as error:
        if f"services.{GROUP}" in str(error) and "spec.type" in str(error):
            return Finding(check=check, good=True, found="a Service with a foreign name is refused")
        return Finding(
            check=check,
            good=False,
            found=f"a Service with a foreign name is refused for another reason: {error}",
            reason="PoliciesUnsure",
            advice="see which policy says so; `policies` and `parameters` above may tell why",
        )
    return Finding(
        check=check,
        good=False,
        found="a Service with a foreign name was let through",
        reason="PoliciesNotEnforced",
        advice="the API server needs ValidatingAdmissionPolicies (Kubernetes 1.30 or later)",
    )


async def network(client: Client, names: list[str], image: str, timeout: float) -> Finding:
    told = (await client.get(ClusterRole, parameters.NAME)).metadata.annotations
    always = told.get(parameters.annotation("pullAlways")) == "true"
    pull = "Always" if always else "IfNotPresent"
    made = [
        probe(name, where, image, pull=pull)
        for name, where in (("one", names[0]), ("two", names[0]), ("three", names[1]))
    ]
    until = time.monotonic() + timeout
    for each in made:
        await _accepted(client, each, until)
    one, two, three = [await ready(client, each, timeout) for each in made]
    return await judge(client, one, two, three)


async def _accepted(client: Client, pod: Pod, until: float) -> None:
    """Kubernetes makes the account of a new namespace a moment after it."""
    while True:
        try:
            await client.create(pod)
        except Forbidden as error:
            if "serviceaccount" not in str(error) or time.monotonic() > until:
                raise
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return


async def judge(client: Client, one: Pod, two: Pod, three: Pod) -> Finding:
    """Two pods of one tenant, and one of another."""
    check = "network"
    until = time.monotonic() + PATIENCE
    while (inside := await arrives(client, one, two)) != [*PROTOCOLS]:
        if time.monotonic() > until:
            break
        await asyncio.sleep(_POLL_SECONDS)
    if inside != [*PROTOCOLS]:
        lost = ", ".join(each for each in PROTOCOLS if each not in inside)
        return Finding(
            check=check,
            good=False,
            found=f"{lost} does not arrive even inside of a tenant, so nothing was proven",
            reason="NetworkBroken",
            advice="look at the cluster's network: pods of one namespace do not reach each other",
        )
    until = time.monotonic() + PATIENCE
    while True:
        across = {*await arrives(client, three, one), *await arrives(client, one, three)}
        if not across or time.monotonic() > until:
            break
        await asyncio.sleep(_POLL_SECONDS)
    if across:
        return Finding(
            check=check,
            good=False,
            found=f"{' and '.join(sorted(across))} of one tenant arrives at another: nobody "
            "enforces NetworkPolicy here",
            reason="NetworkNotEnforced",
            advice="install a network plugin that enforces NetworkPolicy, such as Calico or Cilium",
        )
    return Finding(
        check=check,
        good=True,
        found="TCP and UDP arrive inside of a tenant, and nothing arrives between two",
    )
