"""The programs of a container runtime, which come from the system's packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from edgewise.local.errors import LocalError

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
_CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")
# What is called, and the Debian package that has it.
PACKAGES = {
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "conntrack": "conntrack",
    "iptables": "iptables",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "mount": "mount",
}
CNI_PACKAGE = "containernetworking-plugins"


def missing_packages() -> list[str]:
    """Debian packages without which a real node cannot run."""
    missing = {
        package for program, package in PACKAGES.items() if not shutil.which(program, path=_PATH)
    }
    if cni_folder() is None:
        missing.add(CNI_PACKAGE)
    return sorted(missing)


def cni_folder() -> Path | None:
    for folder in map(Path, _CNI_FOLDERS):
        if all(os.access(folder / plugin, os.X_OK) for plugin in _CNI_PLUGINS):
            return folder
    return None


def container_programs() -> dict[str, str]:
    """The paths a node needs, or one sentence about what to install."""
    missing = missing_packages()
    folder = cni_folder()
    containerd = shutil.which("containerd", path=_PATH)
    if missing or folder is None or containerd is None:
        raise LocalError(
            f"real nodes need programs that are not installed: run `apt-get install "
            f"--no-install-recommends {' '.join(missing)}`, or use `--simulated-nodes`"
        )
    return {"containerd": containerd, "cni-plugins": str(folder)}
