"""`edgewise local image`: what it refuses before anything is built or loaded."""

import pytest
from typer.testing import CliRunner

from edgewise.cli.local.image import app
from edgewise.local.images import building as images
from edgewise.local.images.building import App, Image, ImageError


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--command", 'python3 "unclosed', "quote"),
        ("--command", "", "empty"),
        ("--command", "  ", "empty"),
        ("--user", "foo", "number"),
        ("--user", "-5", "number"),
        ("--user", "", "number"),
        ("--user", "5:", "number"),
        ("--user", "1:two", "number"),
        ("--workdir", "rel", "absolute"),
        ("--workdir", "", "absolute"),
        ("--env", "=x", "NAME=VALUE"),
        ("--output", "/nowhere/at/all.tar", "no folder"),
    ],
)
def test_what_would_make_a_broken_image_is_refused(
    option: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "build_app", lambda *_: pytest.fail("something was built"))
    done = CliRunner().invoke(app, ["build", "edgewise.local/x:1", f"{option}={value}"])
    assert isinstance(done.exception, ImageError)
    assert option in str(done.exception)
    assert why in str(done.exception)


@pytest.mark.parametrize("user", ["0", "1000", "65534:65534"])
def test_users_are_numbers(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[App] = []

    def remember(app: App, _: object) -> Image:
        seen.append(app)
        raise ImageError("seen enough")

    monkeypatch.setattr(images, "build_app", remember)
    words = ["build", "edgewise.local/x:1", f"--user={user}", "--command=sh -c 'a b'"]
    CliRunner().invoke(app, words)
    assert seen[0].settings.user == user
    assert seen[0].settings.command == ("sh", "-c", "a b")


def test_edgewises_own_images_take_no_options() -> None:
    for option in ("--user=1", "--workdir=/x", "--command=sh", "--env=A=b"):
        done = CliRunner().invoke(app, ["build", "python", option])
        assert "give yours a full name" in str(done.exception)
