"""The pictures are what their script draws from the code of today."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "pictures.py"
PICTURES = sorted((ROOT / "docs" / "design").glob("*.svg"))


def test_no_picture_is_stale() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_picture_that_was_changed_by_hand_is_found(tmp_path: Path) -> None:
    for name in ("tools/pictures.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    folder = tmp_path / "docs" / "design"
    folder.mkdir(parents=True)
    for picture in PICTURES:
        (folder / picture.name).write_text(picture.read_text().replace("kube", "kubes"))
    done = subprocess.run(
        [sys.executable, tmp_path / "tools" / "pictures.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.returncode) == (
        "layers.svg: not what the code says; run `make reference`\n",
        1,
    )


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_read_by_programs_too(picture: Path) -> None:
    tree = ET.parse(picture)  # noqa: S314 — our own file
    title = tree.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text
    # What is fetched from elsewhere when a page is read: nothing.
    assert "href" not in picture.read_text()
