"""Where the projects publish their own builds, and the checksums beside them.

This is the only list of such addresses. A project that publishes no checksum
is not in it: what cannot be checked is built instead.
"""

from dataclasses import dataclass

from edgewise.local.engine.pins import KUBERNETES

KUBERNETES_HOST = "https://dl.k8s.io"
RELEASES_HOST = "https://github.com"


@dataclass(frozen=True)
class Release:
    """One file to fetch, and how to check it."""

    program: str
    url: str
    checksum_url: str  # either the bare digest, or lines of "digest  file name"
    algorithm: str
    member: str = ""  # the program's path, when the file is a tar archive

    @property
    def file_name(self) -> str:
        return self.url.rpartition("/")[2]


def releases(versions: dict[str, str], arch: str) -> dict[str, Release]:
    """The published build of each program that has one with a checksum."""
    kubernetes, etcd, coredns = (versions[name] for name in ("kubernetes", "etcd", "coredns"))
    found = {}
    for program in KUBERNETES:
        url = f"{KUBERNETES_HOST}/release/v{kubernetes}/bin/linux/{arch}/{program}"
        found[program] = Release(program, url, f"{url}.sha512", "sha512")

    folder = f"{RELEASES_HOST}/etcd-io/etcd/releases/download/v{etcd}"
    stem = f"etcd-v{etcd}-linux-{arch}"
    found["etcd"] = Release(
        "etcd", f"{folder}/{stem}.tar.gz", f"{folder}/SHA256SUMS", "sha256", f"{stem}/etcd"
    )

    folder = f"{RELEASES_HOST}/coredns/coredns/releases/download/v{coredns}"
    url = f"{folder}/coredns_{coredns}_linux_{arch}.tgz"
    found["coredns"] = Release("coredns", url, f"{url}.sha256", "sha256", "coredns")
    return found
