"""URL paths of objects and collections, safe against names that would lead elsewhere."""

from __future__ import annotations

from urllib.parse import quote

from edgewise.kube.errors import Invalid
from edgewise.kube.objects import Kind


def object_path(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    # Without its name, a request about one object would be one about all of them.
    if not name or (kind.namespaced and not namespace):
        missing = "name" if not name else "namespace"
        raise ValueError(f"a {kind.kind} cannot be addressed without its {missing}")
    path = kind.path(_segment(namespace) or None, _segment(name))
    return f"{path}/{subresource}" if subresource else path


def collection_path(kind: Kind, namespace: str | None) -> str:
    return kind.path(_segment(namespace) if namespace else None)


def _segment(name: str) -> str:
    """A name as a part of a path. A slash in it, even an encoded one, would lead elsewhere."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise Invalid(422, "Invalid", f"{name!r} cannot be a name: leave out slashes and percents")
    return quote(name, safe="")
