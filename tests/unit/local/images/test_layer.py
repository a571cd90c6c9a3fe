"""A layer's bytes follow from what is in it, and from nothing else."""

import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from edgewise.local.images.layer import EPOCH, Layer, opened


def example(folder: Path, *, backwards: bool = False) -> Layer:
    names = ["b", "a", "c"]
    for name in reversed(names) if backwards else names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name * 1000)
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o750)
    (folder / "link").symlink_to("a")
    layer = Layer()
    layer.tree(folder, "/app")
    layer.directory("tmp", 0o1777)
    return layer


def test_the_same_contents_give_the_same_bytes_whatever_the_dates_and_the_order(
    tmp_path: Path,
) -> None:
    one = example(tmp_path / "one").write(tmp_path / "1.tar")
    second = tmp_path / "two"
    layer = example(second, backwards=True)
    os.utime(second / "a", (time.time() - 5000,) * 2)
    two = layer.write(tmp_path / "2.tar")
    assert one.digest == two.digest
    assert one.size == (tmp_path / "1.tar").stat().st_size
    (second / "a").write_text("other")
    assert layer.write(tmp_path / "3.tar").digest != one.digest


def test_what_is_in_it(tmp_path: Path) -> None:
    blob = example(tmp_path / "files").write(tmp_path / "layer.tar")
    with tarfile.open(blob.path) as archive:
        found = {info.name: info for info in archive}
    assert list(found) == ["app", "app/a", "app/b", "app/c", "app/link", "app/run", "tmp"]
    assert found["app/run"].mode == 0o755
    assert found["app/a"].mode == 0o644
    assert found["app/link"].linkname == "a"
    assert found["tmp"].mode == 0o1777
    assert {info.mtime for info in found.values()} == {EPOCH}
    assert {(info.uid, info.gid, info.uname) for info in found.values()} == {(0, 0, "")}


def test_folders_come_before_what_is_in_them(tmp_path: Path) -> None:
    layer = Layer()
    layer.file("a/b/c", b"x")
    layer.file("a/b.txt", b"x")
    blob = layer.write(tmp_path / "layer.tar")
    with tarfile.open(blob.path) as archive:
        names = archive.getnames()
    assert names.index("a") < names.index("a/b") < names.index("a/b/c")


@pytest.mark.parametrize("path", ["../x", "/a/../../x", "/", ""])
def test_paths_that_leave_the_image_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not a path inside an image"):
        Layer().file(path, b"x")


def archive_of(path: Path, name: str) -> Path:
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo(name)
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    return path


@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")
def test_a_python_without_filters_unpacks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "tar_filter", raising=False)
    with opened(archive_of(tmp_path / "an.tar", "inside")) as archive:
        archive.extract("inside", tmp_path / "to")
    assert (tmp_path / "to/inside").read_bytes() == b"x"


def test_nothing_is_unpacked_elsewhere_where_python_can_tell(tmp_path: Path) -> None:
    with opened(archive_of(tmp_path / "an.tar", "../outside")) as archive:
        if hasattr(tarfile, "OutsideDestinationError"):
            with pytest.raises(tarfile.OutsideDestinationError):
                archive.extract("../outside", tmp_path / "to")
            assert not (tmp_path / "outside").exists()
