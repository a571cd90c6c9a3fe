"""Whose tokens an API server takes besides its own: an AuthenticationConfiguration, checked here.

An API server that is given a bad one does not start, and says why in its log only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from edgewise.local.errors import BadSpec

KIND = "AuthenticationConfiguration"
GROUP = "apiserver.config.k8s.io"
LARGEST = 64 << 10


def read_authentication(file: Path) -> str:
    """The text of the file, if it is one that an API server takes."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise BadSpec(f"{file} is larger than {LARGEST >> 10} KiB: it cannot be an {KIND}")
        text = content.decode()
        check(yaml.safe_load(text), str(file))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadSpec(f"{file} cannot be read as an {KIND}: {error}") from error
    return text


def check(document: Any, where: str) -> None:
    """Refuse, with a sentence that names the field, what would keep the API server from starting,
    and names without a prefix, which could be anybody's."""
    given = document if isinstance(document, dict) else {}
    version = str(given.get("apiVersion", ""))
    if given.get("kind") != KIND or version.partition("/")[0] != GROUP:
        raise BadSpec(f"{where} is no {KIND} of {GROUP}/v1")
    issuers = given.get("jwt")
    if not isinstance(issuers, list) or not issuers:
        raise BadSpec(f"{where}: jwt must list at least one issuer")
    for number, each in enumerate(issuers):
        _check_issuer(each if isinstance(each, dict) else {}, f"{where}: jwt[{number}]")


def _check_issuer(given: dict[str, Any], where: str) -> None:
    issuer = given.get("issuer")
    issuer = issuer if isinstance(issuer, dict) else {}
    url = str(issuer.get("url", ""))
    if urlsplit(url).scheme != "https" or not urlsplit(url).netloc:
        raise BadSpec(f"{where}.issuer.url must begin with https://, not {url[:100]!r}")
    if not issuer.get("audiences"):
        raise BadSpec(f"{where}.issuer.audiences must name who its tokens are for")
    mappings = given.get("claimMappings")
    username = (mappings if isinstance(mappings, dict) else {}).get("username")
    username = username if isinstance(username, dict) else {}
    if username.get("expression"):
        return
    if not username.get("claim"):
        raise BadSpec(f"{where}.claimMappings.username.claim must name the claim with the name")
    if not username.get("prefix"):
        raise BadSpec(
            f"{where}.claimMappings.username.prefix must not be empty: without it, the issuer "
            "could give somebody the name of anybody, such as that of a tenant's owner"
        )
