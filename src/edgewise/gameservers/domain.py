"""Game servers as a domain: what they add to Kubernetes, and what they need to run."""

from __future__ import annotations

from functools import partial

from edgewise.api.games import Allocation, Fleet, GameAutoscaler, GameType, Server
from edgewise.domain import CHECK_AUTHORS, Built, Context, Domain, Made, Option
from edgewise.gameservers import names
from edgewise.gameservers.admission import webhooks_of_games
from edgewise.gameservers.autoscaler.controller import GameAutoscalerController
from edgewise.gameservers.autoscaler.review import Rivals
from edgewise.gameservers.autoscaler.webhook import Webhooks
from edgewise.gameservers.counting import ServerCounts
from edgewise.gameservers.fleet.controller import FleetController
from edgewise.gameservers.gametype.controller import GameTypeController
from edgewise.gameservers.metrics import GameMetrics
from edgewise.gameservers.protection import CLUSTER_OBJECTS
from edgewise.gameservers.rights import RIGHTS
from edgewise.gameservers.sdk.handlers import SdkHandlers
from edgewise.gameservers.sdk.tokens import PodTokens, published_keys
from edgewise.gameservers.server.controller import ServerController
from edgewise.gameservers.server.failed_starts import FailedStarts
from edgewise.gameservers.server.settings import Settings, game_ports
from edgewise.kube.kinds.core import ConfigMap, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.tasks import Task

SIDECAR_IMAGE = Option(
    name="sidecar-image",
    default="",
    help="The image of the sidecar of game servers; without it games have no SDK.",
)
SIDECAR_OPERATOR = Option(
    name="sidecar-operator-url",
    default="",
    help="Where sidecars find this operator; by default its Service, at the port it listens at.",
)
GAME_PORTS = Option(
    name="game-ports",
    default="7000-8000",
    help="Ports of nodes that game servers may get.",
)
LOCAL_WEBHOOKS = Option(
    name="local-autoscaler-webhooks",
    default=False,
    help="Let webhooks of GameAutoscalers be at loopback and link-local addresses.",
)


def build(context: Context) -> Built:
    settings = Settings(
        sidecar_image=str(context.options[SIDECAR_IMAGE.name]),
        operator_url=str(context.options[SIDECAR_OPERATOR.name])
        or f"http://edgewise-operator-metrics.{context.namespace}.svc:8081",
        ports=game_ports(str(context.options[GAME_PORTS.name])),
    )
    client, caches = context.client, context.caches
    sdk = SdkHandlers(
        client,
        PodTokens(names.AUDIENCE, partial(published_keys, client)),
        servers=caches.of(Server),
        pods=caches.of(Pod, Selection(labels=names.PROTECTED)),
        allocations=caches.of(Allocation),
    )
    metrics = GameMetrics(context.metrics.registry)
    ServerCounts(metrics).follow(caches.of(Server))
    webhooks = Webhooks(client, local=bool(context.options[LOCAL_WEBHOOKS.name]))
    scalers = GameAutoscalerController(webhooks, metrics=metrics)
    return Built(
        controllers=(
            ServerController(settings, FailedStarts(client)),
            FleetController(),
            GameTypeController(metrics=metrics),
            scalers,
        ),
        webhooks=(
            *webhooks_of_games(
                client,
                context.namespace,
                settings,
                check_authors=bool(context.options[CHECK_AUTHORS.name]),
            ),
            Rivals(client, caches.of(GameAutoscaler)).webhook(),
        ),
        replica_tasks=(Task("questions to webhooks of autoscalers", scalers.asking.run),),
        handlers=sdk.handlers(),
    )


GAMESERVERS = Domain(
    name="gameservers",
    kinds=(Server, Fleet, GameType, GameAutoscaler, Allocation),
    finalizers={
        Server: names.SERVER_FINALIZER,
        Fleet: names.FLEET_FINALIZER,
        GameType: names.GAMETYPE_FINALIZER,
    },
    made=(
        Made(kind=Pod.KIND, label=names.PROTECTED),
        Made(kind=ConfigMap.KIND, label=names.FAILED_STARTS),
        Made(
            kind=PodDisruptionBudget.KIND,
            label=names.PROTECTED,
            annotation=names.BUDGET_MARK,
        ),
    ),
    options=(SIDECAR_IMAGE, SIDECAR_OPERATOR, GAME_PORTS, LOCAL_WEBHOOKS, CHECK_AUTHORS),
    cluster_objects=CLUSTER_OBJECTS,
    build=build,
    rights=RIGHTS,
)
