"""Bound resources: whose they are is in their names, and in what they select."""

import re

import pytest

from edgewise.api.sessions import Resource
from edgewise.sessions import names
from edgewise.sessions.bound import bound_manifest

LABEL = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def service(scope: str, owner: str) -> dict[str, str]:
    manifest = {"kind": "Service", "spec": {"selector": {"app": "web"}}}
    resource = Resource(name="web", scope=scope, manifest=manifest)  # type: ignore[arg-type]
    selector: dict[str, str] = bound_manifest(resource, owner, "ns")["spec"]["selector"]
    return selector


def test_a_session_never_selects_the_pods_of_a_template_of_its_name() -> None:
    session, template = service("Session", "room"), service("Template", "room")
    assert session["app"] == template["app"] == "web"
    assert session[names.BOUND] != template[names.BOUND]
    assert service("Session", "room-template")[names.BOUND] != template[names.BOUND]


@pytest.mark.parametrize("scope", ["Session", "Template"])
@pytest.mark.parametrize("length", [1, 53, 54, 55, 63, 100])
def test_labels_are_valid_and_of_one_owner_alone(scope: str, length: int) -> None:
    one, other = "a" * length, "a" * (length - 1) + "b"
    labels = {service(scope, owner)[names.BOUND] for owner in (one, other)}
    assert len(labels) == 2
    for label in labels:
        assert LABEL.fullmatch(label), label
