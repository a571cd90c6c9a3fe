"""The base of every typed Kubernetes object, and the built-in kinds Edgewise reads.

A type lists only the fields that somebody uses: unknown fields are ignored when
decoding, so an object that was read is never sent back whole. Changes are made by
patch or server-side apply, which touch only what they name.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """How the API server names a type of object."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of a collection or of one object."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace is not None:
            root = f"{root}/namespaces/{namespace}"
        path = f"{root}/{self.plural}"
        return path if name is None else f"{path}/{name}"


class Record(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A part of an object: camelCase on the wire, defaults left out.

    Values hold values, and never themselves: Python need not look for cycles among the hundreds of
    thousands that caches hold, and stops everything while it does.
    """


class OwnerReference(Record):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Record):
    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def removed(self) -> bool:
        """Of an answer to a write: with it the object went, as nothing holds it any more."""
        return self.deleting and not self.finalizers and self.deletion_grace_period_seconds == 0


class Key(msgspec.Struct, frozen=True, order=True):
    """Names one object of a known type; the namespace is empty for cluster-wide ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Object(Record):
    """An object with a kind of its own. `KIND` is set by each type."""

    KIND: ClassVar[Kind]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def key(self) -> Key:
        return self.metadata.key

    def owner_reference(self, *, controller: bool = True) -> OwnerReference:
        """The reference by which an object made for this one names it as its owner."""
        return OwnerReference(
            api_version=self.KIND.api_version,
            kind=self.KIND.kind,
            name=self.metadata.name,
            uid=self.metadata.uid,
            controller=controller,
            block_owner_deletion=controller,
        )

    @classmethod
    def mended(cls, document: bytes) -> Self | None:
        """What can still be read of an object that does not fit its type.

        Open parts of an object can be edited by hand into anything. A type that can do without
        such a part says so here; otherwise one broken object keeps all others from being read.
        """
        del document
        return None

    @classmethod
    def named(cls, name: str, namespace: str = "", **fields: Any) -> Self:
        """A new object of this type, with its apiVersion and kind filled in."""
        return cls(
            api_version=cls.KIND.api_version,
            kind=cls.KIND.kind,
            metadata=ObjectMeta(name=name, namespace=namespace),
            **fields,
        )


class OpenObject(Object):
    """An object of which only the metadata is typed: the rest stays as it comes."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
