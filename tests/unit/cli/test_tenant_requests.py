"""Words of `edgewise tenant request`: what cannot be right gets a sentence."""

from __future__ import annotations

import re

import pytest

from edgewise.api.tenancy_requests import NAME_PATTERN, ClusterRoleRequest, RoleRequest
from edgewise.cli.tenant.deciding import about
from edgewise.cli.tenant.reading import BadTenantOption, moment
from edgewise.cli.tenant.request import _for_role, request
from edgewise.tenancy.requests.names import new_name


def test_names_cannot_be_guessed() -> None:
    found = {new_name() for _ in range(100)}
    assert len(found) == 100
    assert all(re.fullmatch(NAME_PATTERN, name) for name in found)


def test_a_short_word_is_one_of_the_offered_roles() -> None:
    made = _for_role("viewer", "acme", None, everywhere=False)
    assert isinstance(made, RoleRequest)
    assert (made.spec.role_ref.kind, made.spec.role_ref.name) == (
        "ClusterRole",
        "edgewise:tenant-viewer",
    )
    assert made.metadata.namespace == "acme"


def test_another_word_is_a_role_of_the_namespace() -> None:
    made = _for_role("reader", "acme", None, everywhere=False)
    assert (made.spec.role_ref.kind, made.spec.role_ref.name) == ("Role", "reader")


def test_a_word_that_is_not_one_of_the_offered_roles_is_shown_to_who_asks() -> None:
    assert about(_for_role("colaborator", "acme", None, everywhere=False)) == (
        "Role colaborator in acme"
    )


def test_everywhere_is_a_request_of_its_own() -> None:
    made = _for_role("approver", None, None, everywhere=True)
    assert isinstance(made, ClusterRoleRequest)
    assert made.spec.role_ref.name == "edgewise:tenant-approver"


BAD = {
    "a tenant and a role": ({"tenant": "acme", "role": "viewer"}, "either for a tenant"),
    "neither": ({}, "either for a tenant"),
    "a role nowhere": ({"role": "viewer"}, "say where"),
    "a role in two places": (
        {"role": "viewer", "namespace": "acme", "everywhere": True},
        "say where",
    ),
    "a role that is not offered": ({"role": "king", "everywhere": True}, "approver, viewer"),
    "a moment that is none": (
        {"role": "viewer", "namespace": "acme", "until": "tomorrow"},
        "is no moment",
    ),
    "a moment that is past": (
        {"role": "viewer", "namespace": "acme", "until": "2001-01-01T00:00:00Z"},
        "is past",
    ),
    "a name that no namespace can have": ({"tenant": "Acme!"}, "cannot be the name"),
    "an amount that is none": ({"tenant": "acme", "quota": ["pods"]}, "is no amount"),
}


@pytest.mark.parametrize("sentence", BAD)
def test_refused(sentence: str) -> None:
    options, says = BAD[sentence]
    with pytest.raises(BadTenantOption, match=says):
        request(**options)  # type: ignore[arg-type]


def test_a_moment_has_a_zone() -> None:
    with pytest.raises(BadTenantOption, match="write it like"):
        moment("2090-01-01T00:00:00")
    found = moment("2090-01-01T00:00:00Z")
    assert found is not None
    assert found.year == 2090
