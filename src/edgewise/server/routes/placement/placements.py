"""Report keys for clients, and the way for reports that cannot come over MQTT."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, Router, post
from litestar.params import JSONBody, PathParameter

from edgewise.api.placement import LatencyPlacement
from edgewise.placement.hub.half import PlacementHalf, ReportKey
from edgewise.placement.report_keys import CLIENT, GROUP
from edgewise.placement.reports import LARGEST
from edgewise.runtime.errors import NotThere, Unacceptable
from edgewise.server.http.guard import principal_of
from edgewise.server.http.problems import documented
from edgewise.server.identity.permissions import Action, Subject, Verdict, decide
from edgewise.server.routes.placement import actions

MOST_REPORTS = 50
# `$` also matches before a line feed at the end; nothing may follow, not even that.
_END = r"(?![\s\S])"
NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
NAME_RULE = "has lower-case letters, digits, dashes and dots"

ClusterName = Annotated[
    str,
    PathParameter(max_length=63, pattern=f"^{NAME}{_END}", description="The cluster's name."),
]
NamespaceName = Annotated[
    str, PathParameter(max_length=63, pattern=f"^{NAME}{_END}", description="The namespace.")
]
PlacementName = Annotated[
    str,
    PathParameter(max_length=63, pattern=f"^{NAME}{_END}", description="The LatencyPlacement."),
]


class KeyRequest(msgspec.Struct, forbid_unknown_fields=True):
    client: Annotated[str, msgspec.Meta(max_length=63)]
    """Who will report: an id that the application chooses, one for each person or device."""
    group: Annotated[str, msgspec.Meta(max_length=63)] = ""


class ReportBatch(msgspec.Struct, forbid_unknown_fields=True):
    reports: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MOST_REPORTS)]
    """Signed reports, each as the text that would be published."""


def placement_routes(half: PlacementHalf) -> Router:
    async def admitted(
        request: Request[Any, Any, Any], action: Action, cluster: str, namespace: str, name: str
    ) -> LatencyPlacement:
        """The placement, if it is the caller's; of all others not even that they exist."""
        found = await half.find(cluster, namespace, name)
        owner = found.spec.application if found is not None else ""
        verdict = decide(principal_of(request), action, Subject(owner=owner))
        if found is None or verdict is not Verdict.ALLOWED:
            raise NotThere(f"there is no placement {namespace}/{name} in {cluster}")
        return found

    @post(
        "/v1/clusters/{cluster:str}/placements/{namespace:str}/{name:str}/keys",
        action=actions.ISSUE_REPORT_KEY,
        summary="A report key for a client",
        description="For 15 minutes. The application hands it to its client, which signs what it "
        "measures with it.",
        responses=documented(400, 401, 403, 404, 413, 422, 429, 503),
        tags=["placements"],
    )
    async def keys(
        request: Request[Any, Any, Any],
        cluster: ClusterName,
        namespace: NamespaceName,
        name: PlacementName,
        data: JSONBody[KeyRequest],
    ) -> ReportKey:
        if not CLIENT.fullmatch(data.client) or not GROUP.fullmatch(data.group):
            raise Unacceptable("client and group have letters, digits, dots, dashes only")
        placement = await admitted(request, actions.ISSUE_REPORT_KEY, cluster, namespace, name)
        return await half.key(cluster, placement, data.client, data.group)

    @post(
        "/v1/clusters/{cluster:str}/placements/{namespace:str}/{name:str}/reports",
        action=actions.REPORT,
        summary="Reports of clients that do not speak MQTT",
        description="They are published to the broker of the cluster, and checked where all "
        "others are.",
        status_code=202,
        responses=documented(400, 401, 403, 404, 413, 422, 429, 503),
        tags=["placements"],
    )
    async def reports(
        request: Request[Any, Any, Any],
        cluster: ClusterName,
        namespace: NamespaceName,
        name: PlacementName,
        data: JSONBody[ReportBatch],
    ) -> None:
        sent = [each.encode() for each in data.reports]
        if any(len(each) > LARGEST for each in sent):
            raise Unacceptable(f"a report has {LARGEST} bytes at most")
        placement = await admitted(request, actions.REPORT, cluster, namespace, name)
        await half.publish(cluster, placement, sent)

    return Router("/", route_handlers=[keys, reports])
