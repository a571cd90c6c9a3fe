"""Which programs make up the engine, and which version of each.

The versions are written once, in tools/engine/go.mod; this module only reads them. All programs
are one Go module, so that what they share is compiled once. That is why kwok is 0.6.1: 0.7.0 needs
the libraries of Kubernetes 1.33 and 0.8.0 those of 1.36, and each would compile most of them again.
"""

import hashlib
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgewise.local.errors import LocalError

# Changing how the programs are built makes another engine.
BUILD_FLAGS = (
    "-trimpath",
    "-buildvcs=false",
    "-gcflags=all=-dwarf=false",  # what debuggers need is thrown away by the linker anyway
)

KUBERNETES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
PROGRAMS = ("etcd", *KUBERNETES, "coredns", "kwok", "init")


class EngineError(LocalError):
    """The programs cannot be had; the text says why and what to do."""


@dataclass(frozen=True)
class Binary:
    """One binary of the engine, and the programs that it is."""

    name: str  # also the last part of `package`: Go names the file so
    requires: str  # the Go module whose version is the program's version
    package: str
    programs: tuple[str, ...]  # those of another name are links to it


BINARIES = (
    Binary("init", "", "./init", ("init",)),
    Binary("etcd", "go.etcd.io/etcd/server/v3", "./etcd", ("etcd",)),
    Binary("kubernetes", "k8s.io/kubernetes", "./kubernetes", KUBERNETES),
    Binary("coredns", "github.com/coredns/coredns", "./coredns", ("coredns",)),
    Binary("kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", ("kwok",)),
)


def binary_of(program: str) -> Binary:
    for binary in BINARIES:
        if program in binary.programs:
            return binary
    raise EngineError(f"there is no engine program {program!r}: it is one of {', '.join(PROGRAMS)}")


def source_directory() -> Path:
    """Where the pinned modules are: inside an installed package, or in a checkout."""
    here = Path(__file__).resolve()
    for place in (here.parent / "engine_modules", here.parents[4] / "tools" / "engine"):
        if (place / "go.mod").is_file():
            return place
    raise EngineError(
        "the engine's pinned Go modules are missing from this installation: reinstall edgewise"
    )


@dataclass(frozen=True)
class Pins:
    source: Path
    versions: dict[str, str]  # of each binary, such as {"etcd": "3.6.8"}
    go: tuple[int, ...]  # the oldest Go that builds all of it
    key: str  # names this exact engine

    def version(self, program: str) -> str:
        return self.versions[binary_of(program).name]

    def series(self, program: str) -> str:
        """The versions that may stand in for the pinned one: `1.34` for 1.34.x."""
        return ".".join(self.version(program).split(".")[:2])


@cache
def read_pins(source: Path | None = None) -> Pins:
    source = source or source_directory()
    go_mod = (source / "go.mod").read_text()
    versions = {binary.name: required_version(go_mod, binary.requires) for binary in BINARIES}
    key = f"{versions['kubernetes']}-{digest(source)}"
    return Pins(source, versions, go_directive(go_mod), key)


def required_version(go_mod: str, path: str) -> str:
    if not path:
        return ""
    found = re.search(rf"^(?:require)?\s+{re.escape(path)} v(\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise EngineError(f"tools/engine does not pin {path}: restore its go.mod")
    return found[1]


def go_directive(go_mod: str) -> tuple[int, ...]:
    found = re.search(r"^go (\d+(?:\.\d+)*)", go_mod, re.MULTILINE)
    return numbers(found[1]) if found else (0,)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def machine() -> str:
    """This machine's architecture, as Go and release files call it."""
    names = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
    found = names.get(platform.machine().lower())
    if found is None:
        raise EngineError(
            f"there is no engine for {platform.machine()} processors: use x86_64 or arm64"
        )
    return found


def digest(source: Path) -> str:
    hashed = hashlib.sha256(f"{platform.system()} {machine()} {BUILD_FLAGS}".encode())
    for file in sorted(source.rglob("*")):
        if file.name in ("go.mod", "go.sum") or file.suffix == ".go":
            content = file.read_bytes()
            hashed.update(f"{file.relative_to(source)} {len(content)}\n".encode() + content)
    return hashed.hexdigest()[:12]
