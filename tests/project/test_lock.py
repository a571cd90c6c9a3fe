"""requirements.lock holds exactly what pyproject.toml asks for, and no location."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()


def asked_for() -> list[Requirement]:
    project = PROJECT["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
        *PROJECT["dependency-groups"]["dev"],
    ]
    return [Requirement(text) for text in texts]


def locked() -> dict[str, Version]:
    """What the lock names for the Python and platform that run this test."""
    found = {}
    for line in re.findall(r"^([a-zA-Z0-9].*?) *\\?$", LOCK, re.MULTILINE):
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate():
            (spec,) = pin.specifier
            assert spec.operator == "==", f"{line} is not an exact version"
            found[canonicalize_name(pin.name)] = Version(spec.version)
    return found


PINS = locked()


@pytest.mark.parametrize("requirement", asked_for(), ids=str)
def test_what_the_project_asks_for_is_locked(requirement: Requirement) -> None:
    name = canonicalize_name(requirement.name)
    assert name in PINS, "run `make lock`"
    assert requirement.specifier.contains(PINS[name], prereleases=True), "run `make lock`"


def test_the_lock_is_complete_and_holds_nothing_else() -> None:
    """Follow the dependencies of the installed packages from what the project asks for."""
    reached: set[str] = set()
    todo = [(r, frozenset(r.extras)) for r in asked_for()]
    seen = set()
    while todo:
        requirement, extras = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        reached.add(name)
        assert name in PINS, f"{name} is needed but not locked: run `make lock`"
        for text in metadata.requires(name) or []:
            inner = Requirement(text)
            if inner.marker is None or any(
                inner.marker.evaluate({"extra": extra}) for extra in ("", *extras)
            ):
                todo.append((inner, frozenset(inner.extras)))
    assert set(PINS) - reached == set(), "locked but not needed: run `make lock`"


def test_every_pin_has_hashes_and_none_has_a_location() -> None:
    entries = re.split(r"\n(?=[a-zA-Z0-9])", LOCK.strip())
    assert [e.splitlines()[0] for e in entries if "--hash=sha256:" not in e] == []
    assert "://" not in LOCK
    assert not re.search(r"^\s*-(?!-hash)", LOCK, re.MULTILINE)
