"""Admission webhooks, asked by a real API server, with certificates that keep themselves."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from edgewise.kube import errors
from edgewise.kube.client import Client, Patch
from edgewise.kube.kinds.admission import (
    LabelSelector,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from edgewise.kube.kinds.core import ConfigMap, Secret
from edgewise.kube.objects import Key
from edgewise.runtime.listening.listener import PortInUse
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, Mutated, Verdict
from edgewise.runtime.webhooks.certificate_authority import split_bundle
from edgewise.runtime.webhooks.certificate_rotation import Policy
from edgewise.runtime.webhooks.certificates import INJECTED, ROTATE, CertificateKeeper
from edgewise.runtime.webhooks.reviewing import Reviewing, reviewing
from edgewise.runtime.webhooks.serving import (
    Target,
    Webhook,
    WebhookServer,
    configurations,
)
from edgewise.testing.eventually import eventually

SECRET = "edgewise-webhooks"
QUICK = Policy(settle=1.5, overlap=4.0)


class Scene:
    """Replicas of a webhook server for one namespace, and its certificates."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.name = f"{namespace}.edgewise.test"
        self.port = 0
        self.asked = 0

    def guard(
        self, review: Callable[[AdmissionRequest[ConfigMap]], Verdict] | None = None, **options: Any
    ) -> Webhook[ConfigMap]:
        def counted(request: AdmissionRequest[ConfigMap]) -> Verdict:
            self.asked += 1
            return (review or no_grapes)(request)

        return Webhook(
            name=f"w{secrets.token_hex(3)}.{self.name}",
            kind=ConfigMap,
            review=counted,
            namespace_selector=LabelSelector(
                match_labels={"kubernetes.io/metadata.name": self.namespace}
            ),
            **options,
        )

    def keeper(
        self, policy: Policy | None = None, period: float = 0.1, *names: str
    ) -> CertificateKeeper:
        kinds = (ValidatingWebhookConfiguration, MutatingWebhookConfiguration)
        return CertificateKeeper(
            self.client,
            Key(self.namespace, SECRET),
            names=["127.0.0.1"],
            configurations=[(kind, name) for name in names or (self.name,) for kind in kinds],
            policy=policy,
            period=period,
        )

    @contextlib.asynccontextmanager
    async def serving(
        self, *webhooks: Webhook[Any], keeper: CertificateKeeper | None = None, keep: bool = True
    ) -> AsyncIterator[CertificateKeeper]:
        """Serve, register, and wait until the API server really asks."""
        keeper = keeper or self.keeper()
        async with WebhookServer(webhooks, keeper.context, host="127.0.0.1", port=self.port) as at:
            self.port = at.port
            await self.register(*webhooks)
            await keeper.ensure()
            keeping = asyncio.create_task(keeper.run()) if keep else None
            try:
                await eventually(self._is_asked, within=30, every=0.05)
                yield keeper
            finally:
                if keeping is not None:
                    keeping.cancel()
                    await asyncio.gather(keeping, return_exceptions=True)

    async def register(self, *webhooks: Webhook[Any]) -> None:
        target = Target(url=f"https://127.0.0.1:{self.port}")
        for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration):
            made = [c for c in configurations(self.name, webhooks, target) if type(c) is kind]
            # An empty one stands for "no webhooks of this sort", so that all can be injected.
            await self.client.apply(made[0] if made else kind.named(self.name))

    async def _is_asked(self) -> bool:
        before = self.asked
        with contextlib.suppress(errors.ApiError):
            await self.client.create(
                ConfigMap.named("probe", data={"probe": "1"}), self.namespace, dry_run=True
            )
        return self.asked > before

    async def remove(self) -> None:
        for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration):
            with contextlib.suppress(errors.NotFound):
                await self.client.delete(kind, self.name)

    async def put(self, **data: str) -> ConfigMap:
        return await self.client.create(
            ConfigMap.named(f"c{secrets.token_hex(4)}", data=data), self.namespace
        )

    async def secret(self) -> Secret:
        return await self.client.get(Secret, SECRET, self.namespace)


def no_grapes(request: AdmissionRequest[ConfigMap]) -> Verdict:
    assert request.object is not None
    if "grape" in request.object.data.values():
        return Denied("grapes are out of season: choose another fruit")
    return Allowed()


@pytest.fixture
async def scene(client: Client, namespace: str) -> AsyncIterator[Scene]:
    made = Scene(client, namespace)
    yield made
    await made.remove()


async def test_a_validator_lets_pass_and_denies_with_its_sentence(scene: Scene) -> None:
    async with scene.serving(scene.guard()):
        await scene.put(fruit="pear")
        with pytest.raises(errors.Forbidden, match="grapes are out of season: choose another"):
            await scene.put(fruit="grape")


async def test_a_mutator_changes_what_its_type_does_not_even_know(scene: Scene) -> None:
    def ripen(request: AdmissionRequest[ConfigMap]) -> Verdict:
        document = request.document
        document.setdefault("data", {})["ripe"] = "yes"
        document["metadata"].setdefault("labels", {})["fruit.example/checked"] = "yes"
        document.pop("immutable", None)
        return Mutated(document)

    async with scene.serving(scene.guard(ripen, mutates=True)):
        made = await scene.put(fruit="pear")
        assert made.data == {"fruit": "pear", "ripe": "yes"}
        assert made.metadata.labels == {"fruit.example/checked": "yes"}


async def test_old_and_new_are_told_on_update_and_delete(scene: Scene) -> None:
    def only_grow(request: AdmissionRequest[ConfigMap]) -> Verdict:
        if request.operation == "DELETE":
            assert request.object is None
            assert request.old_object is not None
            if request.old_object.data.get("keep"):
                return Denied("it is still needed")
        if request.operation == "UPDATE":
            assert request.object is not None
            assert request.old_object is not None
            if int(request.object.data["n"]) < int(request.old_object.data["n"]):
                return Denied("n must not shrink", code=422)
        return Allowed()

    webhook = scene.guard(only_grow, operations=("CREATE", "UPDATE", "DELETE"))
    async with scene.serving(webhook):
        made = await scene.put(n="2", keep="yes")
        name = made.metadata.name
        await scene.client.patch(ConfigMap, name, scene.namespace, body={"data": {"n": "3"}})
        with pytest.raises(errors.Invalid, match="n must not shrink"):
            await scene.client.patch(ConfigMap, name, scene.namespace, body={"data": {"n": "1"}})
        with pytest.raises(errors.Forbidden, match="it is still needed"):
            await scene.client.delete(ConfigMap, name, scene.namespace)


async def test_fail_closed_refuses_while_nobody_answers_and_fail_open_does_not(
    scene: Scene,
) -> None:
    closed = scene.guard()
    async with scene.serving(closed):
        pass
    with pytest.raises(errors.ServerError, match="failed calling webhook"):
        await scene.put(fruit="pear")
    opened = scene.guard(fail_closed=False)
    await scene.register(opened)

    async def the_webhook_may_be_ignored() -> bool:
        try:
            await scene.put(fruit="pear")
        except errors.ServerError:
            return False
        return True

    await eventually(the_webhook_may_be_ignored, within=30, every=0.05)


@pytest.mark.parametrize("fail_closed", [True, False])
async def test_a_reviewer_that_breaks_leaves_it_to_the_failure_policy(
    scene: Scene, fail_closed: bool
) -> None:
    def broken(request: AdmissionRequest[ConfigMap]) -> Verdict:
        raise RuntimeError("oops")

    async with scene.serving(scene.guard(broken, fail_closed=fail_closed)):
        if fail_closed:
            with pytest.raises(errors.ServerError, match="the reviewer failed"):
                await scene.put(fruit="pear")
        else:
            await scene.put(fruit="pear")


async def test_a_reviewer_that_hangs_is_given_up(scene: Scene) -> None:
    async def slow(request: AdmissionRequest[ConfigMap]) -> Verdict:
        scene.asked += 1
        await asyncio.sleep(60 if request.object and "fruit" in request.object.data else 0)
        return Allowed()

    webhook = Webhook(
        name=f"slow.{scene.name}",
        kind=ConfigMap,
        review=slow,
        timeout_seconds=1,
        namespace_selector=LabelSelector(
            match_labels={"kubernetes.io/metadata.name": scene.namespace}
        ),
    )
    async with scene.serving(webhook):
        with pytest.raises(errors.ServerError):
            await scene.put(fruit="pear")


async def test_replicas_share_one_secret_whoever_comes_first(scene: Scene) -> None:
    keepers = [scene.keeper() for _ in range(4)]
    await asyncio.gather(*(keeper.ensure() for keeper in keepers))
    stored = await scene.secret()
    assert len(split_bundle(stored.data["ca.crt"])) == 1
    before = stored.data
    await asyncio.gather(*(keeper.ensure() for keeper in keepers))
    assert (await scene.secret()).data == before


async def test_the_bundle_is_injected_again_after_somebody_removed_it(scene: Scene) -> None:
    webhook = scene.guard()
    async with scene.serving(webhook):
        await scene.client.patch(
            ValidatingWebhookConfiguration,
            scene.name,
            body=[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}],
            type=Patch.JSON,
        )

        async def injected() -> bool:
            found = await scene.client.get(ValidatingWebhookConfiguration, scene.name)
            return bool(found.webhooks[0].client_config.ca_bundle)

        await eventually(injected, within=30, every=0.05)


async def test_registering_again_keeps_the_bundle(scene: Scene) -> None:
    webhook = scene.guard()
    async with scene.serving(webhook, keep=False):
        await scene.register(webhook)
        found = await scene.client.get(ValidatingWebhookConfiguration, scene.name)
        assert found.webhooks[0].client_config.ca_bundle == (await scene.secret()).data["ca.crt"]


@pytest.mark.parametrize(
    "damage", [{"ca.crt": None}, {"tls.crt": "aGVsbG8="}, {"tls.key": "aGVsbG8="}]
)
async def test_a_damaged_secret_is_made_anew(scene: Scene, damage: dict[str, Any]) -> None:
    async with scene.serving(scene.guard()):
        await scene.client.patch(Secret, SECRET, scene.namespace, body={"data": damage})

        async def works_again() -> bool:
            with contextlib.suppress(errors.ServerError):
                await scene.put(fruit="pear")
                stored = await scene.secret()
                return bool(stored.data.get("ca.crt")) and len(stored.data["tls.crt"]) > 100
            return False

        await eventually(works_again, within=30, every=0.05)
        with pytest.raises(errors.Forbidden):
            await scene.put(fruit="grape")


async def test_the_authority_is_rotated_while_requests_flow(client: Client, namespace: str) -> None:
    """Every request is asked about at two replicas, of which one is slow to reload.

    Not one request may fail, or go unreviewed, at any moment of two rotations.
    """
    scenes = [Scene(client, namespace), Scene(client, namespace)]
    for number, scene in enumerate(scenes):
        scene.name = f"replica-{number}.{scene.name}"
    names = [scene.name for scene in scenes]
    prompt, slow = (scenes[0].keeper(QUICK, period, *names) for period in (0.1, 1.0))
    async with contextlib.AsyncExitStack() as stack:
        for scene, keeper in zip(scenes, (prompt, slow), strict=True):
            stack.push_async_callback(scene.remove)
            await stack.enter_async_context(scene.serving(scene.guard(), keeper=keeper))
        async with requests_flowing(scenes[0]) as flow:
            before = await scenes[0].secret()
            await rotate(scenes[0])
            await rotate(scenes[0])
            after = await scenes[0].secret()
    assert flow.failures == []
    assert flow.passed > 20
    assert flow.denied > 20
    old, new = (set(split_bundle(stored.data["ca.crt"])) for stored in (before, after))
    assert old.isdisjoint(new)
    assert ROTATE not in after.metadata.annotations
    assert INJECTED in after.metadata.annotations


class Flow:
    def __init__(self) -> None:
        self.passed = self.denied = 0
        self.failures: list[str] = []

    async def one(self, scene: Scene, fruit: str) -> None:
        try:
            made = ConfigMap.named(f"f{secrets.token_hex(4)}", data={"fruit": fruit})
            await scene.client.create(made, scene.namespace, dry_run=True)
        except errors.Forbidden:
            self.denied += 1
        except errors.KubeError as error:
            self.failures.append(str(error))
        else:
            self.passed += 1
            if fruit == "grape":
                self.failures.append("a grape got through")


@contextlib.asynccontextmanager
async def requests_flowing(scene: Scene) -> AsyncIterator[Flow]:
    flow, over = Flow(), asyncio.Event()

    async def send() -> None:
        while not over.is_set():
            await flow.one(scene, "grape")
            await flow.one(scene, "pear")
            await asyncio.sleep(0.01)

    workers = [asyncio.create_task(send()) for _ in range(3)]
    try:
        yield flow
    finally:
        over.set()
        await asyncio.gather(*workers)


async def rotate(scene: Scene) -> None:
    """Ask for a new authority, and see it through all the steps."""
    before = (await scene.secret()).data
    body = {"metadata": {"annotations": {ROTATE: "now"}}}
    await scene.client.patch(Secret, SECRET, scene.namespace, body=body)

    async def stage() -> tuple[int, bool]:
        data = (await scene.secret()).data
        return len(split_bundle(data["ca.crt"])), data["tls.crt"] != before["tls.crt"]

    async def the_new_authority_has_joined() -> bool:
        return (await stage())[0] == 2

    async def the_new_authority_issues() -> bool:
        return (await stage())[1]

    async def the_old_authority_has_left() -> bool:
        return await stage() == (1, True)

    await eventually(the_new_authority_has_joined, within=30, every=0.05)
    await eventually(the_new_authority_issues, within=30, every=0.05)
    await eventually(the_old_authority_has_left, within=30, every=0.05)


async def test_a_port_that_is_taken_is_told(scene: Scene) -> None:
    keeper = scene.keeper()
    await keeper.ensure()
    async with WebhookServer([], keeper.context, host="127.0.0.1", port=0) as first:
        with pytest.raises(PortInUse, match=f"port {first.port} for the webhooks is in use"):
            await WebhookServer([], keeper.context, host="127.0.0.1", port=first.port).__aenter__()


async def test_they_are_listened_to_before_the_api_server_knows_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a first start refuses every write that they guard, for a moment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    how = Reviewing(
        name=scene.name,
        certificates=Key(scene.namespace, SECRET),
        target=Target(url=f"https://127.0.0.1:{port}"),
        port=port,
    )
    real, registered = scene.client.apply, []

    async def apply(obj: Any, *args: Any, **options: Any) -> Any:
        context = ssl.create_default_context(
            cadata=obj.webhooks[0].client_config.ca_bundle.decode()
        )
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.close()
        registered.append(obj)
        made = await real(obj, *args, **options)
        for _ in range(20):
            await scene.put(fruit="apple")  # and is not refused
        return made

    monkeypatch.setattr(scene.client, "apply", apply)
    async with reviewing(scene.client, [scene.guard()], how, Metrics()):
        assert len(registered) == 1
        await eventually(scene._is_asked, within=30, every=0.05)
        with pytest.raises(errors.Forbidden, match="grapes are out of season"):
            await scene.put(fruit="grape")
        assert INJECTED in (await scene.secret()).metadata.annotations
