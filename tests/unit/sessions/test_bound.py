"""Bound resources: whose they are is in their names, and in what they select."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


ENDS = st.sampled_from(["a", "b"])


def words(between: list[str]) -> st.SearchStrategy[str]:
    middle = st.lists(st.sampled_from(["a", "b", *between]), max_size=5).map("".join)
    return ENDS | st.tuples(ENDS, middle, ENDS).map("".join)


OWNERS = words(["-", "--", "."])
RESOURCES = words(["-", "--"])
SCOPES = st.sampled_from(["Session", "Template"])


@given(
    one=st.tuples(OWNERS, RESOURCES, SCOPES),
    other=st.tuples(OWNERS, RESOURCES, SCOPES),
)
def test_no_two_bound_resources_have_the_same_name(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (names.bound_name(*one) == names.bound_name(*other)) == (one == other)


def test_names_of_bound_resources_can_be_foreseen() -> None:
    assert names.bound_name("x", "y-z", "Session") == "x-y--z"
    assert names.bound_name("x-y", "z", "Session") == "x-y-z"
    assert names.bound_name("x", "z", "Template") == "x---z"


@pytest.mark.parametrize("owner", ["a" * 63, "a.b", "a-" * 30 + "b"])
def test_long_names_and_dots_are_made_fit_for_dns(owner: str) -> None:
    made = {
        names.bound_name(owner, resource, scope)
        for resource in ("r-s", "s", "x" * 20)
        for scope in ("Session", "Template")
    }
    assert len(made) == 6
    for name in made:
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", name), name


@pytest.mark.parametrize("field", ["metadata", "spec"])
@pytest.mark.parametrize("value", ["x", 1, ["x"], None])
def test_what_slipped_past_admission_is_for_the_api_server_to_refuse(
    field: str, value: object
) -> None:
    resource = Resource(name="web", manifest={"kind": "Service", field: value})
    assert bound_manifest(resource, "room", "ns")["metadata"]["name"] == "room-web"
