"""The webhooks' certificates: kept in a Secret that all replicas share, and rotated in place.

Every replica runs the same keeper; the Secret's resource version decides who takes a step.
To replace the certificate authority ahead of time, annotate the Secret:

    kubectl annotate secret edgewise-webhook-certificates edgewise.dev/rotate=now
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Sequence

from edgewise.kube.client import Client, Patch
from edgewise.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from edgewise.kube.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import Key
from edgewise.kube.tls import ClientCertificate, Pem, load_pair
from edgewise.runtime.webhooks.certificate_authority import (
    Material,
    add_authority,
    drop_old_authorities,
    facts_of,
    issue_serving,
    split_bundle,
    start_anew,
)
from edgewise.runtime.webhooks.certificate_rotation import Facts, Policy, Step, next_step

ROTATE = "edgewise.dev/rotate"
INJECTED = "edgewise.dev/injected"
# Others may take the step first this many times before it is left to the next round.
ATTEMPTS = 5

Configuration = type[ValidatingWebhookConfiguration] | type[MutatingWebhookConfiguration]

_log = logging.getLogger(__name__)


class CertificateKeeper:
    """Keeps `context` able to serve, and the configurations able to trust it."""

    def __init__(
        self,
        client: Client,
        secret: Key,
        *,
        names: Sequence[str],
        configurations: Sequence[tuple[Configuration, str]],
        policy: Policy | None = None,
        period: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`names` are the DNS names and addresses under which the API server calls."""
        self._client = client
        self._secret = secret
        self._names = tuple(names)
        self._configurations = tuple(configurations)
        self._policy = policy or Policy()
        self._period = period
        self._clock = clock
        self._shown = b""
        self.bundle = b""  # of the authorities that vouch for the serving certificate
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    async def run(self) -> None:
        """Look after the certificates until cancelled; trouble is logged and tried again."""
        while True:
            await asyncio.sleep(self._period)
            try:
                await self.ensure()
            except KubeError as error:
                _log.warning("the webhooks' certificates could not be looked after: %s", error)
            except Exception:
                # Whatever it is, the certificates must be looked after tomorrow, too.
                _log.exception("the webhooks' certificates could not be looked after")

    async def ensure(self) -> None:
        """Take the step that is due, load the serving certificate, inject the bundle."""
        stored, material = await self._advance()
        self._show(material)
        self.bundle = material.bundle
        if await self._inject(material.bundle) and _injected_at(stored, material.bundle) is None:
            await self._note_injection(stored, material.bundle)

    async def _advance(self) -> tuple[Secret, Material]:
        for _ in range(ATTEMPTS):
            try:
                return await self._step()
            except (AlreadyExists, Conflict, NotFound):
                continue  # another replica was faster: look at what it has done
        raise KubeError(f"the Secret {self._secret} is changed by others all the time")

    async def _step(self) -> tuple[Secret, Material]:
        stored = await self._read()
        material, facts = self._understand(stored)
        now = self._clock()
        step = next_step(facts, now, self._policy)
        if material is None or step is Step.START_ANEW:
            material = start_anew(self._names, now, self._policy)
        elif step is Step.NOTHING and stored is not None:
            return stored, material
        elif step is Step.ADD_AUTHORITY:
            material = add_authority(material, now, self._policy)
        elif step is Step.ISSUE_SERVING:
            material = issue_serving(material, self._names, now, self._policy)
        elif step is Step.DROP_OLD_AUTHORITIES:
            material = drop_old_authorities(material)
        _log.info("the webhooks' certificates: %s", step.name.lower().replace("_", " "))
        return await self._write(stored, material), material

    async def _read(self) -> Secret | None:
        try:
            return await self._client.get(Secret, self._secret.name, self._secret.namespace)
        except NotFound:
            return None

    def _understand(self, stored: Secret | None) -> tuple[Material | None, Facts | None]:
        if stored is None:
            return None, None
        try:
            material = Material(
                authorities=split_bundle(stored.data["ca.crt"]),
                authority_key=stored.data["ca.key"],
                serving=stored.data["tls.crt"],
                serving_key=stored.data["tls.key"],
            )
            facts = facts_of(
                material,
                self._names,
                injected_at=_injected_at(stored, material.bundle),
                rotation_wanted=ROTATE in stored.metadata.annotations,
            )
        except Exception as error:
            _log.warning("the Secret %s is damaged and is made anew: %r", self._secret, error)
            return None, None
        return material, facts

    async def _write(self, stored: Secret | None, material: Material) -> Secret:
        data = {
            "ca.crt": material.bundle,
            "ca.key": material.authority_key,
            "tls.crt": material.serving,
            "tls.key": material.serving_key,
        }
        if stored is None:
            made = Secret.named(self._secret.name, self._secret.namespace, data=data)
            return await self._client.create(made)
        encoded = {name: b64encode(value).decode() for name, value in data.items()}
        return await self._patch(stored, annotations={ROTATE: None}, data=encoded)

    async def _note_injection(self, stored: Secret, bundle: bytes) -> None:
        note = f"{_digest(bundle)}@{self._clock():.0f}"
        try:
            await self._patch(stored, annotations={INJECTED: note})
        except (Conflict, NotFound):
            return  # it has changed meanwhile; the next round looks again

    async def _patch(
        self, stored: Secret, *, annotations: dict[str, str | None], **content: dict[str, str]
    ) -> Secret:
        """Refused with `Conflict` if another replica has written since we have read."""
        version = stored.metadata.resource_version
        metadata = {"resourceVersion": version, "annotations": annotations}
        return await self._client.patch(
            Secret,
            self._secret.name,
            self._secret.namespace,
            body={"metadata": metadata, **content},
        )

    def _show(self, material: Material) -> None:
        if material.serving == self._shown:
            return
        # Open connections go on; the next handshake shows the new certificate.
        load_pair(
            self.context,
            ClientCertificate(Pem(data=material.serving), Pem(data=material.serving_key)),
        )
        self._shown = material.serving

    async def _inject(self, bundle: bytes) -> bool:
        """Whether every configuration has the bundle now."""
        done = [await self._inject_into(kind, name, bundle) for kind, name in self._configurations]
        return all(done)

    async def _inject_into(self, kind: Configuration, name: str, bundle: bytes) -> bool:
        try:
            found = await self._client.get(kind, name)
            operations = []
            for index, webhook in enumerate(found.webhooks):
                if webhook.client_config.ca_bundle != bundle:
                    at = f"/webhooks/{index}"
                    value = b64encode(bundle).decode()
                    # Somebody may reorder the list between our reading and our writing.
                    operations += [
                        {"op": "test", "path": f"{at}/name", "value": webhook.name},
                        {"op": "add", "path": f"{at}/clientConfig/caBundle", "value": value},
                    ]
            if operations:
                await self._client.patch(kind, name, body=operations, type=Patch.JSON)
        except NotFound:
            _log.info("there is no %s %s yet to inject the CA bundle into", kind.KIND.kind, name)
            return False
        except (Conflict, Invalid) as error:
            _log.info("%s %s changes at this moment: %s", kind.KIND.kind, name, error)
            return False
        return True


def _digest(bundle: bytes) -> str:
    return hashlib.sha256(bundle).hexdigest()[:16]


def _injected_at(stored: Secret, bundle: bytes) -> float | None:
    """Since when the bundle, as it is now, has been in all configurations."""
    digest, _, since = stored.metadata.annotations.get(INJECTED, "").partition("@")
    return float(since) if digest == _digest(bundle) and since.isdecimal() else None
