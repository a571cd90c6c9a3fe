"""Words of `edgewise slice`: what cannot be right gets a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise.api.tenancy_slices import ClaimRef, NodeTerm
from edgewise.cli.tenant.reading import BadTenantOption
from edgewise.cli.tenant.slices import reference, terms


def test_labels_are_one_term() -> None:
    assert terms(["zone=a,disk=ssd", "gpu="]) == [
        NodeTerm(match_labels={"zone": "a", "disk": "ssd", "gpu": ""})
    ]
    assert terms([]) == []


def test_a_claim_has_a_namespace_and_a_name() -> None:
    assert reference("acme/lab") == ClaimRef(namespace="acme", name="lab")
    assert reference(None) is None


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "a label without a value": (lambda: terms(["zone"]), "'zone' is no label"),
    "a value without a label": (lambda: terms(["=a"]), "'=a' is no label"),
    "a claim without a namespace": (lambda: reference("lab"), "NAMESPACE/NAME"),
    "a name that no object can have": (lambda: reference("acme/La b"), "cannot be the name"),
}


@pytest.mark.parametrize("what", BAD)
def test_is_refused(what: str) -> None:
    do, sentence = BAD[what]
    with pytest.raises(BadTenantOption, match=sentence):
        do()
