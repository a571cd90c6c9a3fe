"""Which kinds a server serves, and under which plural: asked once per group and version."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from edgewise.kube.documents import decode_as
from edgewise.kube.errors import Invalid, NotFound
from edgewise.kube.objects import Kind

_API_VERSION = re.compile(r"([a-z0-9][-a-z0-9.]*/)?v[a-z0-9]+")


class Request(Protocol):
    async def __call__(self, method: str, path: str) -> bytes: ...


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


class Discovery:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._known: dict[tuple[str, str], Kind] = {}

    async def kind_of(self, api_version: str, kind: str) -> Kind:
        # A kind that was not there may come later, so only what is there is remembered.
        if (api_version, kind) not in self._known:
            await self._ask(api_version)
        found = self._known.get((api_version, kind))
        if found is None:
            raise NotFound(404, "NotFound", f"the API server has no kind {kind} in {api_version}")
        return found

    async def _ask(self, api_version: str) -> None:
        if not _API_VERSION.fullmatch(api_version):
            raise Invalid(422, "Invalid", f"{api_version[:253]!r} cannot be an apiVersion")
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            answer = decode_as(_ResourceList, await self._request("GET", path))
        except NotFound as error:
            raise NotFound(
                404, "NotFound", f"the API server has no API {api_version}; are its CRDs installed?"
            ) from error
        for resource in answer.resources or ():
            if "/" not in resource.name:  # a slash marks a subresource
                self._known[api_version, resource.kind] = Kind(
                    group, version, resource.kind, resource.name, resource.namespaced
                )
