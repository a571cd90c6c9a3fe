"""The OCI image layout in one tar file: what a container runtime imports without a registry."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from gzip import BadGzipFile
from lzma import LZMAError
from pathlib import Path
from typing import Any
from zlib import error as ZlibError

from edgewise.local.errors import LocalError
from edgewise.local.images.layer import EPOCH, Blob

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
# Not compressed: it never crosses a network, and unpacking is what costs time.
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME_NOTE = "io.containerd.image.name"
TAG_NOTE = "org.opencontainers.image.ref.name"

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<host>[A-Za-z0-9.-]+(?::\d+)?)/(?:{_COMPONENT}/)*{_COMPONENT}:[A-Za-z0-9_][\w.-]{{0,127}}",
    re.ASCII,
)


class ImageError(LocalError):
    """An image cannot be made, read or loaded; the text says why and what to do."""


@dataclass(frozen=True)
class Settings:
    """How a container of the image starts."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    folder: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)


def check_name(name: str) -> str:
    """A full image name. Without a dot in its host, runtimes would look for it elsewhere."""
    found = _NAME.fullmatch(name)
    if found is None or ("." not in found["host"] and ":" not in found["host"]):
        raise ImageError(
            f"{name!r} is not a full image name: use a host with a dot, a path and a tag, "
            "such as edgewise.local/hello:1"
        )
    return name


def config(settings: Settings, layers: Sequence[Blob], arch: str) -> dict[str, Any]:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **settings.environment}
    start: dict[str, Any] = {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": settings.folder,
    }
    if settings.entrypoint:
        start["Entrypoint"] = list(settings.entrypoint)
    if settings.command:
        start["Cmd"] = list(settings.command)
    if settings.user:
        start["User"] = settings.user
    if settings.labels:
        start["Labels"] = dict(settings.labels)
    return {
        "architecture": arch,
        "os": "linux",
        "config": start,
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
    }


def descriptor(media_type: str, digest: str, size: int, **more: Any) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest, "size": size, **more}


def encode(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def write_archive(
    to: Path, name: str, settings: Settings, layers: Sequence[Blob], arch: str
) -> str:
    """Write the image to one tar file, and return its manifest's digest."""
    check_name(name)
    described = encode(config(settings, layers, arch))
    manifest = encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, digest_of(described), len(described)),
            "layers": [descriptor(LAYER, layer.digest, layer.size) for layer in layers],
        }
    )
    names = {NAME_NOTE: name, TAG_NOTE: name.rpartition(":")[2]}
    index = encode(
        {
            "schemaVersion": 2,
            "manifests": [
                descriptor(
                    MANIFEST,
                    digest_of(manifest),
                    len(manifest),
                    annotations=names,
                    platform={"architecture": arch, "os": "linux"},
                )
            ],
        }
    )
    with tarfile.open(to, "w", format=tarfile.GNU_FORMAT) as archive:
        put(archive, "index.json", index)  # first, so that names are read without the rest
        put(archive, "oci-layout", encode({"imageLayoutVersion": "1.0.0"}))
        put(archive, blob_path(digest_of(manifest)), manifest)
        put(archive, blob_path(digest_of(described)), described)
        for layer in {layer.digest: layer for layer in layers}.values():
            info = member(blob_path(layer.digest), layer.size)
            with layer.path.open("rb") as file:
                archive.addfile(info, file)
    return digest_of(manifest)


def blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def member(path: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.size, info.mtime, info.mode = size, EPOCH, 0o644
    return info


def put(archive: tarfile.TarFile, path: str, data: bytes) -> None:
    archive.addfile(member(path, len(data)), io.BytesIO(data))


@dataclass(frozen=True)
class Summary:
    names: tuple[str, ...]
    digest: str = ""  # of the manifest; empty for a docker archive
    # The name is in the annotation that is meant for a tag, as podman writes it:
    # containerd has to be told it again.
    named_by_tag: bool = False


def read_archive(path: Path) -> Summary:
    """What a tar file holds, if it is an image at all."""
    if path.is_dir():
        raise not_an_image(path, "it is a folder")
    try:
        with tarfile.open(path) as archive:
            for info in archive:
                name = info.name.removeprefix("./")
                if name in ("index.json", "manifest.json") and info.isfile():
                    file = archive.extractfile(info)
                    return summarized(path, name, file.read() if file else b"")
    except (tarfile.TarError, EOFError, BadGzipFile, LZMAError, ZlibError) as error:
        raise not_an_image(path, "it is no tar file, or a part of one") from error
    raise not_an_image(path, "it holds neither index.json nor manifest.json")


def summarized(path: Path, file: str, text: bytes) -> Summary:
    try:
        return summarize(file, json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise not_an_image(path, f"its {file} does not describe one") from error


def not_an_image(path: Path, why: str) -> ImageError:
    return ImageError(
        f"{path} is not an image archive ({why}): make one with `docker save`, `podman save` or "
        "`edgewise local image build`"
    )


def summarize(file: str, document: Any) -> Summary:
    if file == "manifest.json":  # docker save
        return Summary(tuple(name for image in document for name in image.get("RepoTags") or ()))
    manifests = document["manifests"]
    digest = manifests[0]["digest"] if manifests else ""
    notes = [entry.get("annotations", {}) for entry in manifests]
    names = tuple(note[NAME_NOTE] for note in notes if NAME_NOTE in note)
    if names:
        return Summary(names, digest)
    tags = tuple(note[TAG_NOTE] for note in notes if "/" in note.get(TAG_NOTE, ""))
    return Summary(tags, digest, named_by_tag=bool(tags))
