"""What was made before is not made again, and never found half-made."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgewise.local.images import store as image_store
from edgewise.local.images.layer import Layer
from edgewise.local.images.oci import ImageError, Settings


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "edgewise" / "images"


def silent(subject: str, state: str) -> None:
    pass


class Maker:
    def __init__(self, content: bytes = b"x") -> None:
        self.content = content
        self.calls = 0

    def __call__(self, scratch: Path) -> Layer:
        self.calls += 1
        assert list(scratch.iterdir()) == []
        layer = Layer()
        layer.file("file", self.content)
        return layer


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_layer_is_made_once_for_each_key() -> None:
    make = Maker()
    one = image_store.layer("base", "0" * 16, make, silent)
    assert image_store.layer("base", "0" * 16, make, silent) == one
    assert make.calls == 1
    assert image_store.layer("base", "1" * 16, make, silent).digest == one.digest
    assert make.calls == 2


def test_only_the_newest_of_a_label_is_kept(cache: Path) -> None:
    image_store.layer("base", "0" * 16, Maker(), silent)
    image_store.layer("base-more", "0" * 16, Maker(), silent)
    image_store.layer("base", "1" * 16, Maker(), silent)
    stems = {path.stem for path in (cache / "layers").iterdir()}
    assert stems == {f"base-{'1' * 16}", f"base-more-{'0' * 16}"}


def test_again_means_again() -> None:
    image_store.layer("base", "0" * 16, Maker(b"old"), silent)
    make = Maker(b"new")
    new = image_store.layer("base", "0" * 16, make, silent, again=True)
    assert make.calls == 1
    assert image_store.layer("base", "0" * 16, make, silent) == new


def test_a_layer_that_was_cut_short_is_made_again() -> None:
    make = Maker(b"x" * 100_000)
    blob = image_store.layer("base", "0" * 16, make, silent)
    blob.path.write_bytes(blob.path.read_bytes()[:5000])
    again = image_store.layer("base", "0" * 16, make, silent)
    assert make.calls == 2
    assert again.path.stat().st_size == again.size


def test_a_failure_leaves_nothing(cache: Path) -> None:
    def fail(scratch: Path) -> Layer:
        (scratch / "half").write_text("half")
        raise ImageError("no")

    with pytest.raises(ImageError):
        image_store.layer("base", "0" * 16, fail, silent)
    assert names(cache / "layers") == []


def test_images_are_listed_by_name_and_replaced_by_newer_ones(cache: Path) -> None:
    one = image_store.layer("base", "0" * 16, Maker(), silent)
    first = image_store.image("edgewise.local/a:1", Settings(), [one])
    assert image_store.image("edgewise.local/a:1", Settings(), [one]) == first
    image_store.image("edgewise.local/a:2", Settings(), [one])
    second = image_store.image("edgewise.local/a:1", Settings(command=("x",)), [one])
    assert second.digest != first.digest
    assert [image.name for image in image_store.images()] == [
        "edgewise.local/a:1",
        "edgewise.local/a:2",
    ]
    assert second in image_store.images()
    assert not first.archive.exists()


def test_keys_tell_files_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ab")
    (tmp_path / "b").write_text("c")
    before = image_store.key_of_files([tmp_path / "a", tmp_path / "b"])
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("bc")
    assert image_store.key_of_files([tmp_path / "a", tmp_path / "b"]) != before


def test_a_full_disk_is_noticed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    usage = SimpleNamespace(free=10)
    monkeypatch.setattr(image_store.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ImageError, match="GB of disk"):
        image_store.layer("base", "0" * 16, make, silent)
    assert make.calls == 0


def test_the_same_image_written_by_many_threads_at_once(cache: Path) -> None:
    layers = [image_store.layer("base", "0" * 16, Maker(b"x" * 1_000_000), silent)]
    with ThreadPoolExecutor(8) as threads:
        made = list(
            threads.map(
                lambda _: image_store.image("edgewise.local/many:1", Settings(), layers).digest,
                range(16),
            )
        )
    assert len(set(made)) == 1
    assert len(names(cache / "archives")) == 1
