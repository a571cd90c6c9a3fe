"""What the CLI says of a hub that is not well."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from edgewise.api.clusters import Cluster, ClusterSpec, ClusterStatus
from edgewise.api.global_sessions import Degradation, Location, LocationSpec, LocationStatus
from edgewise.cli.cluster.commands import rows_of
from edgewise.cli.session.server import _view_details
from edgewise.cli.session.text import clients_table, templates_table
from edgewise.cli.session.views import TemplateView
from edgewise.client.sessions.views import ClientView, SessionDetails
from edgewise.kube.objects import ObjectMeta

NO_CLIENTS = "takes no clients: it has no Location"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_client_of_a_silent_cluster_is_suspect() -> None:
    silent = "porto has not answered since 2030-01-01T00:00:00Z"
    client = ClientView("room-1", "alice", "suspect", location="porto", message=silent)
    session = SessionDetails(
        "room-1", "demo", clients=1, suspect=1, clients_by_id={"alice": client}
    )
    view = _view_details(session)
    assert clients_table(view, NOW)[1] == [["alice", "Suspect in porto", ""]]
    alice = view.clients_by_id["alice"]
    assert (alice.phase, alice.location, alice.message) == ("Suspect", "porto", silent)


def test_a_cluster_names_the_templates_for_which_it_is_degraded() -> None:
    mark = Degradation(
        generation=1,
        failures=2,
        reason="PodsNotStarting",
        message="ErrImagePull",
        since=NOW,
        trial=NOW,
    )
    porto = Location(
        metadata=ObjectMeta(name="porto"),
        spec=LocationSpec(cluster="porto"),
        status=LocationStatus(degraded={"demo": mark}),
    )
    (row,) = rows_of([cluster("porto")], [porto])
    assert row[-1] == "degraded for demo: PodsNotStarting ErrImagePull"


def cluster(name: str, **status: str) -> Cluster:
    return Cluster(
        metadata=ObjectMeta(name=name),
        spec=ClusterSpec(region="eu"),
        status=ClusterStatus(**{"health": "Ready", **status}),
    )


def location(name: str, cluster: str, **spec: Any) -> Location:
    return Location(metadata=ObjectMeta(name=name), spec=LocationSpec(cluster=cluster, **spec))


@pytest.mark.parametrize(
    ("clusters", "locations", "rows"),
    [
        (
            [cluster("porto")],
            [location("porto", "porto", capacity=5, cordoned=True)],
            [("porto", "eu", "Ready", "porto", "yes", "5", "")],
        ),
        (
            [cluster("porto", health="Lost", message="porto is silent")],
            [],
            [
                ("porto", "eu", "Lost", "-", "-", "-", f"porto is silent; {NO_CLIENTS}"),
            ],
        ),
        (
            [cluster("porto")],
            [location("west", "porto"), location("east", "porto")],
            [
                ("porto", "eu", "Ready", "east", "no", "-", ""),
                ("porto", "eu", "Ready", "west", "no", "-", ""),
            ],
        ),
        (
            [],
            [location("porto", "porto")],
            [("porto", "-", "Unknown", "porto", "no", "-", "is not registered")],
        ),
    ],
    ids=["one of each", "no location", "two locations", "no cluster"],
)
def test_clusters_are_listed_with_their_locations(
    clusters: list[Cluster], locations: list[Location], rows: list[tuple[str, ...]]
) -> None:
    assert rows_of(clusters, locations) == rows


def test_before_the_first_server_a_cluster_says_what_is_missing() -> None:
    new = Cluster(metadata=ObjectMeta(name="porto"))
    (row,) = rows_of([new], [location("porto", "porto")])
    assert row[-1] == "no server has looked at it yet: start `edgewise server`"


def test_a_server_knows_neither_the_age_nor_the_warm_pods_of_a_template() -> None:
    known = TemplateView(
        name="demo",
        namespace="",
        pod_templates=["main"],
        sessions=1,
        warm=None,
        created=None,
        deleting=False,
    )
    assert templates_table([known], NOW) == (["NAME", "PODS", "SESSIONS"], [["demo", "main", "1"]])
