"""Python inside an image: its own interpreter, run from outside, and packages for it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from edgewise.local.engine.package_installer import find_uv, run_installer
from edgewise.local.engine.pins import machine
from edgewise.local.images.layer import Layer
from edgewise.local.images.oci import ImageError

USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"
LOADERS = {"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}
NEWEST_PLATFORM = 40  # the newest manylinux_2_x that uv knows by name


def inside(root: Path, program: str, *arguments: str) -> list[str]:
    """A command that runs `program` of the unpacked image `root`, by the image's own loader."""
    arch = machine()
    libraries = [root / "usr" / "lib" / TRIPLETS[arch], root / "usr" / "lib"]
    return [
        str(root / LOADERS[arch]),
        "--library-path",
        ":".join(map(str, libraries)),
        str(root / program),
        *arguments,
    ]


def python_version(root: Path) -> str:
    """Such as `3.11`."""
    link = root / "usr" / "bin" / "python3"
    found = re.fullmatch(r"python(3\.\d+)", os.readlink(link)) if link.is_symlink() else None
    if found is None:
        raise ImageError("the Debian packages brought no Python: include python3-minimal")
    return found[1]


def platform(root: Path) -> str:
    """What wheels may ask of the image: its processor, and the age of its C library."""
    loader = root / LOADERS[machine()]
    done = subprocess.run(
        [loader, "--version"], capture_output=True, text=True, check=False, timeout=30
    )
    found = re.search(r"version 2\.(\d+)", done.stdout)
    if found is None:
        raise ImageError("the image's C library does not say its version")
    return f"{PROCESSORS[machine()]}-manylinux_2_{min(int(found[1]), NEWEST_PLATFORM)}"


def base_layer(root: Path) -> Layer:
    """The layer of a Python-capable base out of an unpacked root file system."""
    version = python_version(root)
    compile_tree(root, root / "usr" / "lib" / f"python{version}", f"/usr/lib/python{version}")
    layer = Layer()
    layer.tree(root, "/")
    layer.link("usr/bin/python", "python3")
    for applet in applets(root):
        if applet not in layer.entries:
            layer.link(applet, "/usr/bin/busybox")
    layer.file("etc/passwd", USERS.encode())
    layer.file("etc/group", GROUPS.encode())
    layer.file("etc/nsswitch.conf", b"hosts: files dns\n")
    for folder in ("dev", "proc", "sys", "run", "root", "var/tmp", "usr/local/bin"):
        layer.directory(folder)
    layer.directory("tmp", 0o1777)
    layer.directory("var/tmp", 0o1777)
    return layer


def applets(root: Path) -> list[str]:
    """The paths at which busybox stands in for other programs, once /usr is merged."""
    if not (root / "usr" / "bin" / "busybox").exists():
        return []
    done = subprocess.run(
        inside(root, "usr/bin/busybox", "--list-full"),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if done.returncode:
        raise ImageError(f"busybox of the image does not run: {done.stderr.strip()}")
    paths = [line.strip().lstrip("/") for line in done.stdout.splitlines() if "/" in line]
    return sorted({path if path.startswith("usr/") else f"usr/{path}" for path in paths})


def compile_tree(root: Path, folder: Path, at: str) -> None:
    """Byte-compile `folder`, which will be at `at`, with the image's own Python.

    A container would otherwise compile all it imports again each time it starts. Not
    checked against dates: what is in an image does not change.
    """
    python = f"usr/bin/python{python_version(root)}"
    # Everything the interpreter needs to know about where it is, it is told.
    library = root / "usr" / "lib" / Path(python).name
    code = (
        "import compileall, py_compile, sys;"
        "compileall.compile_dir(sys.argv[1], stripdir=sys.argv[1], prependdir=sys.argv[2],"
        "quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)"
    )
    done = subprocess.run(
        inside(root, python, "-S", "-c", code, str(folder), at),
        env={
            "PYTHONHOME": str(root / "usr"),
            "PYTHONPATH": f"{library}:{library}/lib-dynload",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "LC_ALL": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise ImageError(f"Python of the image does not run: {last_line(done.stderr)}")


def packages_layer(requirements: Path, root: Path, scratch: Path, *, hashed: bool) -> Layer:
    """What `requirements` names, installed for the Python of the base `root`."""
    uv = find_uv()
    if uv is None:
        raise ImageError("packages for an image are installed by uv, which is missing: install it")
    version = python_version(root)
    target = scratch / "packages"
    command = [uv, "pip", "install", "--quiet", "--target", str(target)]
    command += ["--python-version", version, "--python-platform", platform(root)]
    command += ["--only-binary", ":all:", "--link-mode", "copy", "--requirement", str(requirements)]
    command += ["--require-hashes", "--no-deps"] if hashed else []
    done = run_installer(command, timeout=900)
    if done.returncode:
        said = " ".join(done.stderr.split())[:500]
        raise ImageError(f"the packages cannot be installed: {said}")
    at = site_packages(version)
    programs = take_programs(target, scratch / "programs")
    compile_tree(root, target, f"/{at}")
    layer = Layer()
    layer.tree(target, at, keep=lambda path: not path.startswith((".lock", "CACHEDIR")))
    layer.tree(programs, "usr/local/bin")
    return layer


def site_packages(version: str) -> str:
    """Where Debian's Python looks for packages that are not Debian's."""
    return f"usr/local/lib/python{version}/dist-packages"


def take_programs(target: Path, to: Path) -> Path:
    """Programs go where PATH finds them, and start the image's Python rather than this one."""
    to.mkdir()
    source = target / "bin"
    if source.is_dir():
        for path in sorted(source.iterdir()):
            content = path.read_bytes()
            if content.startswith(b"#!") and b"python" in content.partition(b"\n")[0]:
                content = b"#!/usr/bin/python3\n" + content.partition(b"\n")[2]
            (to / path.name).write_bytes(content)
            (to / path.name).chmod(0o755)
        shutil.rmtree(source)
    return to


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason was given"
