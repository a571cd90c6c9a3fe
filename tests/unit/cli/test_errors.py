"""Whatever goes wrong, a person reads one sentence."""

import errno
import tomllib
from pathlib import Path

import pytest

from edgewise.cli.errors import _EXTRAS, sentence


class OurError(Exception):
    pass


OurError.__module__ = "edgewise.local.example"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OurError("port 6443 is in use: choose another"), "port 6443 is in use: choose another"),
        (OurError("two\n  lines"), "two lines"),
        (OurError(""), "OurError"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), "/x: No such file"),
        (OSError(errno.ENOSPC, "No space left on device"), "free some disk space"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "run this as root"),
        (ExceptionGroup("several", [OurError("the first"), OurError("the second")]), "the first"),
        (
            ModuleNotFoundError("No module named 'litestar.di'", name="litestar.di"),
            "this needs the package litestar: install edgewise[server]",
        ),
        (ModuleNotFoundError("No module named 'x'", name="x"), "internal error: ModuleNotFound"),
        (KeyError("x"), "internal error: KeyError: 'x' (run again with EDGEWISE_DEBUG=1"),
    ],
)
def test_sentence(error: BaseException, expected: str) -> None:
    said = sentence(error)
    assert expected in said
    assert "\n" not in said


def test_what_each_extra_brings_is_known() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert set(_EXTRAS.values()) == set(project["project"]["optional-dependencies"])
