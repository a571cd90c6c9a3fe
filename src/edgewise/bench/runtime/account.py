"""The account of a measured program: what a controller has in a cluster, a token and little more.

A client certificate, which a person's kubeconfig has, is verified anew by the API server with
every request: a twentieth of what a write costs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from edgewise.bench.runtime.copies import Copy
from edgewise.kube.client import Client
from edgewise.kube.config import Access, load_access
from edgewise.kube.credentials import TokenFile
from edgewise.kube.errors import Forbidden
from edgewise.kube.objects import Kind
from edgewise.kube.paths import collection_path, object_path

NAME = "copier"
TOKEN_SECONDS = 6 * 3600
KNOWN_SECONDS = 10.0
_RBAC = "rbac.authorization.k8s.io"
_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")


def access_of(kubeconfig: str | Path, context: str, token: str | Path) -> Access:
    """That cluster, as the account whose token is in a file."""
    access = load_access(kubeconfig, context)
    access.credentials = TokenFile(str(token))
    access.impersonation = ()
    return access


@contextlib.asynccontextmanager
async def account_token(client: Client, namespace: str) -> AsyncIterator[Path]:
    """An account that may do to copies what their controller does; its token in a file."""
    for manifest in _manifests(namespace):
        await client.apply(manifest)
    answer = await client.request(
        "POST",
        object_path(_ACCOUNT, namespace, NAME, "token"),
        body=msgspec.json.encode({"spec": {"expirationSeconds": TOKEN_SECONDS}}),
    )
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:  # for its owner alone
        file = Path(folder, "token")
        await asyncio.to_thread(file.write_text, msgspec.json.decode(answer)["status"]["token"])
        yield file


async def until_known(client: Client, namespace: str) -> None:
    """The API server hears of a new role a moment after it was made."""
    deadline = time.monotonic() + KNOWN_SECONDS
    while True:
        try:
            await client.request(
                "GET", collection_path(Copy.KIND, namespace), params={"limit": "1"}
            )
        except Forbidden:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return


def _manifests(namespace: str) -> list[dict[str, Any]]:
    copies = Copy.KIND
    metadata = {"name": NAME, "namespace": namespace}
    rbac = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
    rule = {
        "apiGroups": [copies.group],
        "resources": [copies.plural, f"{copies.plural}/status"],
        "verbs": ["get", "list", "watch", "patch"],
    }
    return [
        {"apiVersion": "v1", "kind": _ACCOUNT.kind, "metadata": metadata},
        {**rbac, "kind": "Role", "rules": [rule]},
        {
            **rbac,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": NAME},
            "subjects": [{"kind": _ACCOUNT.kind, **metadata}],
        },
    ]
