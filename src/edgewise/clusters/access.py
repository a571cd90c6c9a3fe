"""The way into a member cluster, from the Secret that holds its kubeconfig.

A kubeconfig can name a program to run and files to read. From a Secret it may not: whoever
can write a Secret in the hub would otherwise run programs as the server and send it files
of the server's own machine.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from edgewise.api.clusters import KUBECONFIG_KEY
from edgewise.kube.config import Access, load_access
from edgewise.kube.errors import ConfigError
from edgewise.kube.kinds.core import Secret
from edgewise.kube.kubeconfig import KubeconfigCluster, KubeconfigUser, read_kubeconfig


def access_in(secret: Secret) -> Access:
    """Raises ConfigError with what to do about it."""
    content = secret.data.get(KUBECONFIG_KEY)
    if not content:
        raise ConfigError(f"the Secret {secret.key} has no key {KUBECONFIG_KEY!r}: put one there")
    with tempfile.TemporaryDirectory(prefix="edgewise-") as directory:
        file = Path(directory) / KUBECONFIG_KEY
        file.touch(mode=0o600)
        file.write_bytes(content)
        try:
            config = read_kubeconfig([file])
            for cluster in config.clusters.values():
                _refuse_outside(cluster, "certificate_authority")
            for user in config.users.values():
                _refuse_outside(user, "client_certificate", "client_key", "token_file", "exec")
            return load_access(file)
        except ConfigError as error:
            # The reader knows the Secret, and not our temporary file.
            said = str(error).replace(str(file), f"the Secret {secret.key}")
            raise ConfigError(said) from None


def _refuse_outside(part: KubeconfigCluster | KubeconfigUser, *fields: str) -> None:
    for field in fields:
        if getattr(part, field):
            name = field.replace("_", "-")
            raise ConfigError(
                f"a kubeconfig in a Secret must hold everything itself, but this one uses {name}: "
                "put certificates and tokens in as data"
            )
