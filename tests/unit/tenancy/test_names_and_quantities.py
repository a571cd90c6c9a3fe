"""Names of children, and quantities as exact numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.tenancy import Share, TenantResourceQuota, TenantResourceQuotaSpec
from edgewise.tenancy.names import child_name
from edgewise.tenancy.quota.quantities import NANO, NotAQuantity, amounts, parse, text, wanted
from edgewise.tenancy.quota.reading import total_of

UID = "0e3c2f6e-8d0a-4a9e-9a39-3f7c4a8d7b11"


def test_a_child_has_the_same_name_always_and_no_other_has_it() -> None:
    assert child_name("a", "b") == child_name("a", "b")
    names = {child_name("a-b", "c"), child_name("a", "b-c"), child_name("a", "c")}
    assert len(names) == 3


def test_the_longest_names_fit_into_a_label() -> None:
    assert len(child_name("p", "n" * 52)) == 63
    assert len(child_name("p", "n" * 15, "Federated", UID)) == 63
    assert child_name("p", "n", "Federated", UID) != child_name("p", "n", "Federated", UID[::-1])


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("1", NANO),
        (2, 2 * NANO),
        ("500m", NANO // 2),
        ("1Ki", 1024 * NANO),
        ("1.5Gi", 3 * 2**29 * NANO),
        ("1e3", 1000 * NANO),
        ("2k", 2000 * NANO),
        ("0.1", NANO // 10),
        (".5", NANO // 2),
        ("1n", 1),
        ("9999999999E", (2**63 - 1) * NANO),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(written: int | str, number: int) -> None:
    assert parse(written) == number


@pytest.mark.parametrize("written", ["", "x", "1 Gi", "1Gib", "--1", "1" * 99, "1e", "Ki", "0x10"])
def test_what_is_no_quantity_gets_a_sentence(written: str) -> None:
    with pytest.raises(NotAQuantity, match="pods: "):
        amounts({"pods": written})


def test_a_negative_amount_gets_a_sentence() -> None:
    with pytest.raises(NotAQuantity, match="negative"):
        amounts({"pods": "-1"})


@given(st.integers(0, 2**70))
def test_an_amount_that_is_written_is_read_again(amount: int) -> None:
    assert parse(text(amount)) == min(amount, (2**63 - 1) * NANO)


def test_a_total_is_no_more_than_kubernetes_can_keep() -> None:
    most = "9223372036854775807"
    claims = {name: Share(resources={"cpu": most}) for name in ("a", "b")}
    quota = TenantResourceQuota.named("acme", spec=TenantResourceQuotaSpec(claims=claims))
    (held,) = total_of(quota, 0.0).values()
    assert parse(text(held)) == held, "else a quota is written again and again"


@pytest.mark.parametrize(
    ("name", "amount"),
    [("pods", "500m"), ("count/jobs.batch", "1.5"), ("secrets", "1n"), ("example.com/gpu", "0.5")],
)
def test_a_part_of_what_is_counted_gets_a_sentence(name: str, amount: str) -> None:
    with pytest.raises(NotAQuantity, match=f"{name}: .* is no whole number"):
        wanted({"cpu": "1.5m", "memory": "0.5Gi", name: amount})
    assert wanted({"cpu": "1.5m", "requests.example.com/gpu": "0.5", "pods": "2000m"})


@pytest.mark.parametrize(("written", "held"), [("1n", "1m"), ("1500u", "2m"), ("1.5m", "2m")])
def test_what_becomes_quota_is_rounded_up_as_the_api_server_does(written: str, held: str) -> None:
    assert wanted({"cpu": written}) == amounts({"cpu": held})
