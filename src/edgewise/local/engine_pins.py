"""Which programs make up the engine, and which version of each.

The versions are written once, in the go.mod files under tools/engine; this
module only reads them. Everything here is a function of those files.
"""

import hashlib
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgewise.local.errors import LocalError

# Changing how the programs are built makes another engine.
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")

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
class Module:
    """One Go module under tools/engine: what it pins, and what is built from it."""

    name: str
    requires: str  # the module whose version is the program's version
    package: str
    programs: tuple[str, ...]
    binary: str  # programs that differ from it are links to it

    def stamp(self, version: str) -> tuple[str, ...]:
        """Linker flags that tell the program its own version."""
        if self.name != "kubernetes":
            return ()
        major, minor, _ = version.split(".", 2)
        where = "k8s.io/component-base/version"
        return (
            f"-X {where}.gitVersion=v{version}",
            f"-X {where}.gitMajor={major}",
            f"-X {where}.gitMinor={minor}",
        )


MODULES = (
    Module("init", "", ".", ("init",), "init"),
    Module("etcd", "go.etcd.io/etcd/server/v3", ".", ("etcd",), "etcd"),
    Module("kubernetes", "k8s.io/kubernetes", ".", KUBERNETES, "kubernetes"),
    Module("coredns", "github.com/coredns/coredns", ".", ("coredns",), "coredns"),
    Module("kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", ("kwok",), "kwok"),
)


def module_of(program: str) -> Module:
    for module in MODULES:
        if program in module.programs:
            return module
    raise EngineError(f"there is no engine program {program!r}: it is one of {', '.join(PROGRAMS)}")


def source_directory() -> Path:
    """Where the pinned modules are: inside an installed package, or in a checkout."""
    here = Path(__file__).resolve()
    for place in (here.parent / "engine_modules", here.parents[3] / "tools" / "engine"):
        if (place / "kubernetes" / "go.mod").is_file():
            return place
    raise EngineError(
        "the engine's pinned Go modules are missing from this installation: reinstall edgewise"
    )


@dataclass(frozen=True)
class Pins:
    source: Path
    versions: dict[str, str]  # of each module, such as {"etcd": "3.6.8"}
    go: tuple[int, ...]  # the oldest Go that builds all of it
    key: str  # names this exact engine

    def version(self, program: str) -> str:
        return self.versions[module_of(program).name]

    def series(self, program: str) -> str:
        """The versions that may stand in for the pinned one: `1.34` for 1.34.x."""
        return ".".join(self.version(program).split(".")[:2])


@cache
def read_pins(source: Path | None = None) -> Pins:
    source = source or source_directory()
    versions = {}
    oldest_go: tuple[int, ...] = (0,)
    for module in MODULES:
        text = (source / module.name / "go.mod").read_text()
        versions[module.name] = required_version(text, module.requires)
        oldest_go = max(oldest_go, go_directive(text))
    key = f"{versions['kubernetes']}-{digest(source)}"
    return Pins(source, versions, oldest_go, key)


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
    for module in MODULES:
        for file in sorted((source / module.name).iterdir()):
            if file.name in ("go.mod", "go.sum") or file.suffix == ".go":
                content = file.read_bytes()
                hashed.update(f"{module.name}/{file.name} {len(content)}\n".encode() + content)
    return hashed.hexdigest()[:12]
