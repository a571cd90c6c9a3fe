"""`edgewise tenant request`: ask for a tenant, or for a role."""

import json
from datetime import datetime
from typing import Annotated, Any

import typer

from edgewise.api.tenancy_requests import (
    OFFERED,
    OFFERED_EVERYWHERE,
    ClusterRoleRequest,
    ClusterRoleRequestSpec,
    Request,
    RequestedRole,
    RoleRequest,
    RoleRequestSpec,
    TenantRequest,
    TenantRequestSpec,
)
from edgewise.cli.options import Context, Kubeconfig
from edgewise.cli.tenant.acting import ActAs, Namespace, act_as
from edgewise.cli.tenant.deciding import about
from edgewise.cli.tenant.reading import BadTenantOption, moment, resources, tenant_name
from edgewise.kube.client import Client
from edgewise.kube.objects import ObjectMeta
from edgewise.tenancy.requests.names import new_name

app = typer.Typer()


@app.command()
def request(
    tenant: Annotated[
        str | None, typer.Argument(help="The name of the tenant that you would own.")
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            help="Instead of a tenant: owner, admin, collaborator, viewer, or a Role of the "
            "namespace; with --everywhere: approver or viewer."
        ),
    ] = None,
    namespace: Namespace = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="The role in the whole cluster.")
    ] = False,
    until: Annotated[
        str | None, typer.Option(help="When the role ends again: 2030-01-31T18:00:00Z.")
    ] = None,
    full_name: Annotated[str, typer.Option(help="What the organisation is called.")] = "",
    quota: Annotated[
        list[str] | None, typer.Option(help="What it would use: pods=10,cpu=4. May be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    who: ActAs = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Ask for a tenant, or for a role; somebody else has to approve it."""
    if (tenant is None) == (role is None):
        raise BadTenantOption("ask either for a tenant, by its name, or for a role, with --role")
    if tenant is not None:
        made: Request = TenantRequest(
            metadata=ObjectMeta(name=new_name()),
            spec=TenantRequestSpec(
                tenant_name=tenant_name(tenant),
                full_name=full_name,
                resources=resources(quota or ()),
            ),
        )
    else:
        made = _for_role(role or "", namespace, moment(until), everywhere=everywhere)

    async def do(client: Client) -> None:
        stored: Any = await client.create(made)
        name, where = stored.metadata.name, stored.metadata.namespace
        if as_json:
            told = {"kind": stored.KIND.kind, "name": name, "namespace": where}
            print(json.dumps(told | {"requester": stored.spec.requester}))
            return
        print(f"{stored.spec.requester} asks for {about(stored)}, by request {name}")
        there = f" -n {where}" if where else ""
        print(f"who may approve it says: edgewise tenant approve {name}{there}")

    act_as(kubeconfig, context, who, do)


def _for_role(
    role: str, namespace: str | None, until: datetime | None, *, everywhere: bool
) -> RoleRequest | ClusterRoleRequest:
    if everywhere == (namespace is not None):
        raise BadTenantOption("say where the role is wanted: -n NAMESPACE, or --everywhere")
    offered = OFFERED_EVERYWHERE if everywhere else OFFERED
    full = {each.rpartition("-")[2]: each for each in offered}.get(role, role)
    asked = RequestedRole(kind="ClusterRole" if full in offered else "Role", name=full)
    if not everywhere:
        spec = RoleRequestSpec(role_ref=asked, grant_expires_at=until)
        return RoleRequest(
            metadata=ObjectMeta(name=new_name(), namespace=namespace or ""), spec=spec
        )
    if full not in offered:
        known = ", ".join(sorted(each.rpartition("-")[2] for each in offered))
        raise BadTenantOption(f"{role!r} is not offered everywhere: choose one of {known}")
    return ClusterRoleRequest(
        metadata=ObjectMeta(name=new_name()),
        spec=ClusterRoleRequestSpec(role_ref=asked, grant_expires_at=until),
    )
