"""A layer of an image: a tar file whose bytes follow from its contents alone."""

import contextlib
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# Older dates than this cannot be packed into zip files by whoever uses the image.
EPOCH = 315532800  # 1980-01-01


@dataclass(frozen=True)
class Blob:
    """A file that is known by what is in it."""

    path: Path
    digest: str  # sha256:...
    size: int


@dataclass(frozen=True)
class Entry:
    mode: int
    content: bytes | Path | None = None  # None for directories and links
    target: str | None = None  # of a symbolic link


@dataclass
class Layer:
    """What a layer will hold. Everything belongs to root, and has the same date."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def directory(self, path: str, mode: int = 0o755) -> None:
        self.entries[clean(path)] = Entry(stat.S_IFDIR | mode)

    def file(self, path: str, content: bytes | Path, mode: int = 0o644) -> None:
        self.entries[clean(path)] = Entry(stat.S_IFREG | mode, content)

    def link(self, path: str, target: str) -> None:
        self.entries[clean(path)] = Entry(stat.S_IFLNK | 0o777, target=target)

    def tree(self, source: Path, at: str, keep: Callable[[str], bool] = lambda _: True) -> None:
        """Everything under `source`, as it would be under `at`; `keep` sees relative paths."""
        for path in walk(source):
            inside = path.relative_to(source).as_posix()
            if not keep(inside):
                continue
            where, mode = f"{at}/{inside}", path.lstat().st_mode
            if stat.S_ISLNK(mode):
                self.link(where, os.readlink(path))
            elif stat.S_ISDIR(mode):
                self.directory(where, stat.S_IMODE(mode) & 0o755)
            elif stat.S_ISREG(mode):
                self.file(where, path, 0o755 if mode & 0o111 else 0o644)

    def write(self, to: Path) -> Blob:
        with to.open("wb") as file:
            hashed = HashingWriter(file)
            with tarfile.open(fileobj=hashed, mode="w", format=tarfile.GNU_FORMAT) as archive:  # type: ignore[call-overload]
                for path, entry in with_parents(self.entries):
                    add(archive, path, entry)
        return Blob(to, f"sha256:{hashed.hash.hexdigest()}", hashed.size)


class HashingWriter:
    """Knows the digest and size of what went through it."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self.file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self.file.write(data)

    def tell(self) -> int:
        return self.size


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tarfile.TarFile]:
    """A tar file that unpacks nothing outside the folder it is unpacked to.

    Pythons before 3.11.4, such as Debian 12's, know no filters: there it is as safe as the
    tar file, which holds signed packages or was made by us.
    """
    with tarfile.open(path) as archive:
        if hasattr(tarfile, "tar_filter"):
            archive.extraction_filter = tarfile.tar_filter
        yield archive


def clean(path: str) -> str:
    parts = PurePosixPath("/", path).parts[1:]
    if ".." in parts or not parts:
        raise ValueError(f"{path!r} is not a path inside an image")
    return "/".join(parts)


def walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        for name in sorted(folders + files):
            yield Path(root, name)


def with_parents(entries: dict[str, Entry]) -> Iterator[tuple[str, Entry]]:
    """In order of path, with each directory before what is in it."""
    complete = dict(entries)
    for path in entries:
        for parent in PurePosixPath(path).parents:
            if parent.name:
                complete.setdefault(parent.as_posix(), Entry(stat.S_IFDIR | 0o755))
    yield from sorted(complete.items(), key=lambda item: item[0].split("/"))


def add(archive: tarfile.TarFile, path: str, entry: Entry) -> None:
    info = tarfile.TarInfo(path)
    info.mode = stat.S_IMODE(entry.mode)
    info.mtime = EPOCH
    if entry.target is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(info)
    elif entry.content is None:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif isinstance(entry.content, bytes):
        info.size = len(entry.content)
        archive.addfile(info, io.BytesIO(entry.content))
    else:
        with entry.content.open("rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            archive.addfile(info, file)
