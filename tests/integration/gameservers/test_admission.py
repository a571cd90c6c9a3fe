"""Who may have which pods made, and what passes while no operator answers: on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from edgewise.api.games import Fleet, GameAutoscaler, GameType, Server
from edgewise.gameservers.admission import webhooks_of_games
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.gameservers.names import OPERATOR_ACCOUNT, OPERATOR_USER
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, Forbidden, Invalid, NotFound, ServerError
from edgewise.kube.kinds.admission import ValidatingWebhookConfiguration
from edgewise.kube.objects import Key, Object
from edgewise.operator import CERTIFICATES_SECRET, NAMESPACE, WEBHOOKS, Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.webhooks.reviewing import Reviewing, reviewing
from edgewise.runtime.webhooks.serving import Target
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port
from tests.integration.gameservers.game_stage import GameStage

RBAC = "rbac.authorization.k8s.io"
GAMES = "games.edgewise.dev"
CONTAINER = {"name": "game", "image": "game:1"}
PLAIN: dict[str, Any] = {"containers": [CONTAINER]}
POWERFUL: dict[str, Any] = {
    "containers": [{**CONTAINER, "securityContext": {"privileged": True}}],
    "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    "serviceAccountName": "boss",
}
MASTERS = "system:masters"
KINDS: tuple[type[Object], ...] = (Server, Fleet, GameType, GameAutoscaler)
OURS = f"system:serviceaccount:{NAMESPACE}:{OPERATOR_ACCOUNT}"


class Scene:
    """A namespace, the webhooks of an operator, and people with few rights."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.port = free_port()

    @contextlib.asynccontextmanager
    async def operator(self, **options: Any) -> AsyncIterator[None]:
        how = Reviewing(
            name=WEBHOOKS,
            certificates=Key(self.namespace, CERTIFICATES_SECRET),
            target=Target(url=f"https://127.0.0.1:{self.port}"),
            port=self.port,
        )
        hooks = webhooks_of_games(self.client, NAMESPACE, **options)
        async with reviewing(self.client, hooks, how, Metrics()):
            await eventually(self._asked, within=30)
            yield

    @contextlib.asynccontextmanager
    async def whole_operator(self, client: Client, **flags: bool) -> AsyncIterator[None]:
        """The program itself, with this one domain."""
        options = Options(
            namespace=self.namespace,
            listen=Listen(port=free_port()),
            leader_election=False,
            webhooks=Target(url=f"https://127.0.0.1:{self.port}"),
            webhook_port=self.port,
            flags={name.replace("_", "-"): value for name, value in flags.items()},
        )
        running = asyncio.create_task(run_operator(client, options, (GAMESERVERS,)))
        try:
            await eventually(self._asked, within=30)
            yield
        finally:
            running.cancel()
            await asyncio.wait((running,))

    async def _asked(self) -> bool:
        """Of each kind: the API server takes its webhooks into use one after the other."""
        deep: Any = 1
        for _ in range(150):
            deep = {"a": deep}
        for probe in everything({**PLAIN, "deep": deep}):
            try:
                await self.write("admin", probe, dry_run=True)
            except Invalid:
                continue
            except ServerError:
                return False  # registered, but not trusted yet
            return False
        return True

    async def write(
        self,
        who: str,
        manifest: dict[str, Any],
        *,
        groups: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> None:
        """Without an apiVersion it is a change, else a new object."""
        kind = {each.KIND.kind: each for each in KINDS}[manifest["kind"]]
        new = "apiVersion" in manifest
        path = kind.KIND.path(self.namespace, None if new else manifest["metadata"]["name"])
        headers = {} if who == "admin" else {"Impersonate-User": who}
        if groups:
            headers["Impersonate-Group"] = groups
        body = manifest
        if subresource:
            body = {"spec": manifest["spec"]}
        await self.client.request(
            "POST" if new else "PATCH",
            f"{path}/{subresource}" if subresource else path,
            body=msgspec.json.encode(body),
            content_type="application/json" if new else "application/merge-patch+json",
            headers=headers,
            params={"dryRun": "All"} if dry_run else {},
        )

    async def refused(self, who: str, manifest: dict[str, Any]) -> str:
        """What is said by who looks at authors, once the roles are seen."""
        said = ""

        async def by_the_webhook() -> bool:
            nonlocal said
            with pytest.raises(ApiError) as refusal:
                await self.write(who, manifest)
            said = str(refusal.value)
            return "cannot create resource" not in said and "cannot patch resource" not in said

        await eventually(by_the_webhook, within=15)
        return said

    async def grant(self, who: str, name: str, *rules: dict[str, Any]) -> None:
        metadata = {"name": f"{who.replace(':', '-')}-{name}", "namespace": self.namespace}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata}
        await self.client.apply({**role, "rules": list(rules)})
        await self.client.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": who}],
            }
        )

    async def granted(self, who: str, manifest: dict[str, Any]) -> None:
        """The authorizer takes a moment to see a role."""

        async def written() -> bool:
            await self.write(who, manifest)
            return True

        await eventually(written, within=15, not_yet=(Forbidden,))

    async def clear(self) -> None:
        """The operators of other tests should not meet what is left."""
        for kind in reversed(KINDS):
            for each in (await self.client.list(kind, self.namespace)).items:
                name = each.metadata.name
                with contextlib.suppress(NotFound):
                    free = {"metadata": {"finalizers": None}}
                    await self.client.patch(kind, name, self.namespace, body=free)
                    await self.client.delete(kind, name, self.namespace)

    async def spec(self, kind: type[Object], name: str) -> Any:
        found: Any = await self.client.get(kind, name, self.namespace)
        return found.spec


def rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


# All verbs on them, as roles often have it, and nothing else.
GAMES_ONLY = tuple(
    rule(GAMES, each, "*") for each in ("servers", "fleets", "fleets/scale", "gametypes")
)


def new(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GAMES}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def change(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def spec_of(kind: str, server: dict[str, Any]) -> dict[str, Any]:
    if kind == "Server":
        return server
    return {"spec": server} if kind == "Fleet" else {"fleetSpec": {"spec": server}}


WHERE = {"Server": "spec.pod", "Fleet": "spec.spec.pod", "GameType": "spec.fleetSpec.spec.pod"}


def everything(pod: dict[str, Any], name: str = "one") -> list[dict[str, Any]]:
    return [new(kind, name, spec_of(kind, {"pod": pod})) for kind in WHERE]


@pytest.fixture
async def scene(client: Client, namespace: str, protected: None) -> AsyncIterator[Scene]:
    made = Scene(client, namespace)
    yield made
    with contextlib.suppress(NotFound):
        await client.delete(ValidatingWebhookConfiguration, WEBHOOKS)
    await made.clear()


async def test_rights_on_games_alone_make_no_pods(scene: Scene) -> None:
    async with scene.operator():
        await scene.grant("eve", "games", *GAMES_ONLY)
        for pod in (POWERFUL, PLAIN):
            for manifest in everything(pod):
                said = await scene.refused("eve", manifest)
                where = WHERE[manifest["kind"]]
                assert f"{where}: eve may not create pods in the namespace" in said

        await scene.grant("eve", "pods", rule("", "pods", "create"))
        for manifest in everything(PLAIN, "plain"):
            await scene.granted("eve", manifest)
        for manifest in everything(POWERFUL):
            said = await scene.refused("eve", manifest)
            at = f"{WHERE[manifest['kind']]}.serviceAccountName"
            assert f"{at}: eve may not impersonate serviceaccounts boss" in said
            said = await scene.refused("eve", change(manifest["kind"], "plain", manifest["spec"]))
            assert f"{at}: eve may not impersonate serviceaccounts boss" in said

        named = {**rule("", "serviceaccounts", "impersonate"), "resourceNames": ["boss"]}
        await scene.grant("eve", "boss", named)
        for manifest in everything(POWERFUL, "powerful"):
            await scene.granted("eve", manifest)


CHANGES: dict[str, dict[str, Any]] = {
    "its containers": {"pod": POWERFUL},
    "its annotations": {"podMetadata": {"annotations": {"profile": "unconfined"}}},
    "a port of its node": {
        "ports": [{"name": "game", "containerPort": 7, "policy": "Static", "hostPort": 22}]
    },
    "its sidecar": {"sidecar": {"port": 9}},
}


async def test_every_part_of_a_pod_is_asked_about_when_it_changes(scene: Scene) -> None:
    async with scene.operator():
        await scene.grant("eve", "games", *GAMES_ONLY)
        for manifest in everything(PLAIN):
            await scene.write("admin", manifest)
        for part in CHANGES.values():
            for kind, where in WHERE.items():
                said = await scene.refused("eve", change(kind, "one", spec_of(kind, part)))
                assert f"{where}: eve may not create pods in the namespace" in said


async def test_what_is_being_deleted_makes_no_pods_that_its_author_may_not(scene: Scene) -> None:
    """A fleet stays until its servers are gone, and makes servers of what it says meanwhile."""
    async with scene.operator():
        await scene.grant("eve", "games", *GAMES_ONLY)
        for manifest in everything(PLAIN, "trap"):
            manifest["metadata"]["finalizers"] = ["example.com/not-yet"]
            await scene.write("admin", manifest)
        for kind in (Server, Fleet, GameType):
            await scene.client.delete(kind, "trap", scene.namespace)
            name = kind.KIND.kind
            said = await scene.refused(
                "eve", change(name, "trap", spec_of(name, {"pod": POWERFUL}))
            )
            assert f"{WHERE[name]}: eve may not create pods in the namespace" in said
            freed = {"kind": name, "metadata": {"name": "trap", "finalizers": None}}
            await scene.write("eve", freed)


async def test_what_makes_no_pods_passes_while_no_operator_answers(scene: Scene) -> None:
    await scene.grant("ann", "games", *GAMES_ONLY)
    async with scene.operator():
        for manifest in everything(PLAIN):
            await scene.write("admin", manifest)
    # The operator is gone, and its webhooks are still registered.
    await scene.granted("ann", change("Fleet", "one", {"scaling": {"replicas": 3}}))
    assert (await scene.spec(Fleet, "one")).scaling.replicas == 3
    await scene.write("ann", change("Fleet", "one", {"replicas": 5}), subresource="scale")
    assert (await scene.spec(Fleet, "one")).scaling.replicas == 5
    await scene.write("ann", change("GameType", "one", {"fleetSpec": {"scaling": {"replicas": 4}}}))
    assert (await scene.spec(GameType, "one")).fleet_spec.scaling.replicas == 4
    await scene.write("ann", change("GameType", "one", {"rollout": {"paused": True}}))
    await scene.write("ann", change("Server", "one", {"operation": "Kill", "timeout": "1m"}))
    assert (await scene.spec(Server, "one")).operation == "Kill"
    for manifest in (
        *everything(PLAIN, "another"),
        *(change(kind, "one", spec_of(kind, {"pod": POWERFUL})) for kind in WHERE),
    ):
        with pytest.raises(ServerError, match="failed calling webhook"):
            await scene.write("admin", manifest)


async def test_the_operator_is_not_asked_and_nobody_passes_for_it(scene: Scene) -> None:
    elsewhere = f"system:serviceaccount:{scene.namespace}:{OPERATOR_ACCOUNT}"
    async with scene.operator():
        # By name alone, or as an account of that name that somebody made elsewhere.
        for who in (OPERATOR_USER, OURS, elsewhere):
            await scene.grant(who, "games", *GAMES_ONLY)
            for manifest in everything(POWERFUL):
                said = await scene.refused(who, manifest)
                assert f"{who} may not create pods in the namespace" in said
    # Nobody answers any more: who passes now was not asked about.
    for number, who in enumerate((OPERATOR_USER, OURS)):
        for manifest in everything(POWERFUL, f"made-{number}"):
            await scene.write(who, manifest, groups=MASTERS)
    for who in (elsewhere, "edgewise:server", "somebody"):
        for manifest in everything(PLAIN):
            with pytest.raises(ServerError, match="failed calling webhook"):
                await scene.write(who, manifest, groups=MASTERS)


async def test_a_pod_that_can_never_be_made_is_refused_before_it_is_stored(scene: Scene) -> None:
    async with scene.operator():
        image = {"containers": [{"name": "game", "image": "game:1", "imagePullPolicy": "Perhaps"}]}
        misspelt = {"containers": [{"name": "game", "image": "game:1", "enviroment": []}]}
        for pod, words in ((image, "imagePullPolicy"), (misspelt, "unknown field")):
            for manifest in everything(pod):
                with pytest.raises(Invalid) as refusal:
                    await scene.write("admin", manifest)
                assert f"{WHERE[manifest['kind']]}: " in str(refusal.value)
                assert words in str(refusal.value)
        for manifest in everything(PLAIN):
            await scene.write("admin", manifest)


async def test_an_explicit_right_and_a_switch_let_authors_pass(scene: Scene) -> None:
    await scene.grant("bob", "games", *GAMES_ONLY)
    async with scene.operator():
        await scene.grant("bob", "trusted", rule(GAMES, "authors", "escalate"))
        for manifest in everything(POWERFUL, "trusted"):
            await scene.granted("bob", manifest)
    await scene.grant("cat", "games", *GAMES_ONLY)
    async with scene.operator(check_authors=False):
        for manifest in everything(POWERFUL, "unchecked"):
            await scene.granted("cat", manifest)


async def test_a_game_comes_to_its_servers_by_the_operator_alone(
    scene: Scene, games: GameStage
) -> None:
    """Its author was asked once; its fleet and its servers need nobody to answer."""
    async with scene.operator():
        await games.game(2, server={"pod": {**PLAIN, "serviceAccountName": "boss"}})
    async with games.operator():
        await games.counts("Ready", 2)


async def test_the_operator_asks_unless_it_is_told_not_to(
    scene: Scene, operator_client: Client
) -> None:
    await scene.grant("eve", "games", *GAMES_ONLY)
    manifest = new("GameType", "one", spec_of("GameType", {"pod": POWERFUL}))
    async with scene.whole_operator(operator_client):
        said = await scene.refused("eve", manifest)
        assert "spec.fleetSpec.spec.pod: eve may not create pods in the namespace" in said
    async with scene.whole_operator(operator_client, check_authors=False):
        await scene.granted("eve", manifest)


async def test_a_second_autoscaler_of_a_game_is_refused_while_an_operator_answers(
    scene: Scene, operator_client: Client
) -> None:
    policy = {"type": "buffer", "buffer": {"size": 2}}
    first, second, other = (
        new("GameAutoscaler", name, {"gameName": game, "policy": policy})
        for name, game in (("first", "arena"), ("second", "arena"), ("other", "chess"))
    )
    async with scene.whole_operator(operator_client):
        await scene.write("admin", first)

        async def refused() -> bool:
            try:
                await scene.write("admin", second, dry_run=True)
            except Invalid as error:
                return "GameAutoscaler first scales arena already" in str(error)
            return False

        await eventually(refused)
        with pytest.raises(Invalid, match=r"spec\.gameName: .* delete it first"):
            await scene.write("admin", second)
        await scene.write("admin", other)
        with pytest.raises(Invalid, match="GameAutoscaler first scales arena already"):
            await scene.write("admin", change("GameAutoscaler", "other", {"gameName": "arena"}))
        # What else of it changes is nobody's business, and who replaces it deletes it first.
        await scene.write("admin", change("GameAutoscaler", "first", {"min": 1}))
        await scene.client.delete(GameAutoscaler, "first", scene.namespace)
        await scene.write("admin", second)
    # The condition of the younger one says it, once an operator is there again.
    await scene.write("admin", first)
