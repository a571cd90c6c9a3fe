"""How Debian packages become a root file system."""

import io
import tarfile
from pathlib import Path

import pytest

from edgewise.local.images.debian import (
    dropped,
    explain,
    has_entries,
    place,
    root_file_system,
    unpack,
)
from edgewise.local.images.oci import ImageError


@pytest.mark.parametrize(
    ("packaged", "placed"),
    [
        ("./lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("./bin/busybox", "usr/bin/busybox"),
        ("./usr/bin/python3", "usr/bin/python3"),
        ("./lib", ""),
        ("./libexec/x", "libexec/x"),
        (".", ""),
    ],
)
def test_slash_usr_is_merged_whatever_the_release(packaged: str, placed: str) -> None:
    assert place(packaged) == placed


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("usr/share/doc/dpkg/changelog.gz", True),
        ("usr/share/doc", True),
        ("usr/share/documents", False),
        ("usr/lib/x86_64-linux-gnu/gconv/UTF-7.so", True),
        ("usr/lib/python3.11/test/support/__init__.py", True),
        ("usr/lib/python3.11/unittest/case.py", False),
        ("usr/local/var/x", False),
        ("var/lib/dpkg/status", True),
        ("usr/bin/dpkg-deb", True),
        ("usr/bin/python3.11", False),
    ],
)
def test_what_no_container_needs_is_left_out(path: str, gone: bool) -> None:
    assert dropped(path) is gone


def test_unpacking_moves_filters_and_links(tmp_path: Path) -> None:
    packed = tmp_path / "packed.tar"
    with tarfile.open(packed, "w") as archive:
        for name, kind, target in (
            ("./lib", tarfile.DIRTYPE, ""),
            ("./lib/libc.so.6", tarfile.REGTYPE, ""),
            ("./usr/lib/libc.so", tarfile.LNKTYPE, "./lib/libc.so.6"),
            ("./usr/share/doc/x", tarfile.REGTYPE, ""),
            ("./dev/null", tarfile.CHRTYPE, ""),
            ("./opt/fifo", tarfile.FIFOTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            info.size = 2 if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(b"so"))
    unpack(packed, tmp_path / "root")
    root = tmp_path / "root"
    assert (root / "lib").readlink() == Path("usr/lib")
    assert (root / "lib" / "libc.so.6").read_text() == "so"
    assert (root / "usr" / "lib" / "libc.so").read_text() == "so"
    assert sorted(path.name for path in root.iterdir()) == ["lib", "usr"]
    assert not (root / "usr" / "share").exists()


def test_what_mmdebstrap_says_becomes_a_sentence() -> None:
    log = "I: automatic\nE: setup failed\nE: Unable to locate package no-such-thing\n"
    assert explain(log) == "Unable to locate package no-such-thing"
    assert explain("I: x\nE: cannot reach it\n") == "cannot reach it"
    assert explain("") == "it did not say why"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("deb http://x y main\n", True),
        ("Types: deb\nURIs: http://x\n", True),
        ("# nothing but a remark\n", False),
        ("", False),
    ],
)
def test_a_sources_file_without_sources_does_not_count(text: str, counts: bool) -> None:
    assert has_entries(text) is counts


def test_without_mmdebstrap_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="apt-get install mmdebstrap"):
        root_file_system(["x"], tmp_path / "root")
