"""When the certificates take which step; and a rotation never leaves anybody untrusting."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.runtime.webhooks.certificate_authority import (
    Material,
    add_authority,
    drop_old_authorities,
    facts_of,
    issue_serving,
    split_bundle,
    start_anew,
)
from edgewise.runtime.webhooks.certificate_rotation import Facts, Policy, Step, Validity, next_step

POLICY = Policy(
    authority_lifetime=900, serving_lifetime=300, renew_before=1 / 3, settle=10, overlap=50
)
NOW = 1_800_000_000.0


def facts(**changes: object) -> Facts:
    usual = Facts(
        authorities=(Validity(NOW - 100, NOW + 800),),
        serving=Validity(NOW - 100, NOW + 200),
        serving_is_from_newest=True,
        serving_names_match=True,
        injected_at=NOW - 100,
    )
    return msgspec.structs.replace(usual, **changes)


OLD_AND_NEW = (Validity(NOW - 5, NOW + 895), Validity(NOW - 605, NOW + 295))

STEPS: dict[str, tuple[Facts | None, Step]] = {
    "nothing is stored": (None, Step.START_ANEW),
    "all is well": (facts(), Step.NOTHING),
    "the authority has expired": (
        facts(authorities=(Validity(NOW - 900, NOW),)),
        Step.START_ANEW,
    ),
    "the authority is old": (
        facts(authorities=(Validity(NOW - 600, NOW + 300),)),
        Step.ADD_AUTHORITY,
    ),
    "the authority is nearly old": (
        facts(authorities=(Validity(NOW - 599, NOW + 301),)),
        Step.NOTHING,
    ),
    "somebody asks for a rotation": (facts(rotation_wanted=True), Step.ADD_AUTHORITY),
    "the serving certificate is old": (
        facts(serving=Validity(NOW - 200, NOW + 100)),
        Step.ISSUE_SERVING,
    ),
    "the names have changed": (facts(serving_names_match=False), Step.ISSUE_SERVING),
    "the new bundle is not injected": (
        facts(authorities=OLD_AND_NEW, serving_is_from_newest=False, injected_at=None),
        Step.NOTHING,
    ),
    "the new bundle has not settled": (
        facts(authorities=OLD_AND_NEW, serving_is_from_newest=False, injected_at=NOW - 9),
        Step.NOTHING,
    ),
    "the new bundle has settled": (
        facts(authorities=OLD_AND_NEW, serving_is_from_newest=False, injected_at=NOW - 10),
        Step.ISSUE_SERVING,
    ),
    "another rotation is wanted during a rotation": (
        facts(
            authorities=OLD_AND_NEW,
            serving_is_from_newest=False,
            injected_at=NOW - 9,
            rotation_wanted=True,
        ),
        Step.NOTHING,
    ),
    "the serving certificate expired before the bundle settled": (
        facts(
            authorities=OLD_AND_NEW,
            serving_is_from_newest=False,
            injected_at=None,
            serving=Validity(NOW - 300, NOW),
        ),
        Step.ISSUE_SERVING,
    ),
    "replicas may still show the old certificate": (
        facts(authorities=OLD_AND_NEW, serving=Validity(NOW - 49, NOW + 251)),
        Step.NOTHING,
    ),
    "every replica shows the new certificate": (
        facts(authorities=OLD_AND_NEW, serving=Validity(NOW - 50, NOW + 250)),
        Step.DROP_OLD_AUTHORITIES,
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_the_step_when(case: str) -> None:
    seen, expected = STEPS[case]
    assert next_step(seen, NOW, POLICY) is expected


class Replica:
    """Shows the serving certificate that it has last read."""

    def __init__(self, material: Material) -> None:
        self.shown = material.serving


def trusted(shown: bytes, bundle: tuple[bytes, ...], now: float) -> bool:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(shown)
    if certificate.not_valid_after_utc.timestamp() <= now:
        return False
    for pem in bundle:
        authority = x509.load_pem_x509_certificate(pem)
        try:
            certificate.verify_directly_issued_by(authority)
        except Exception:  # noqa: S112
            continue
        if authority.not_valid_after_utc.timestamp() > now:
            return True
    return False


@settings(max_examples=20)
@given(
    pauses=st.lists(st.integers(min_value=1, max_value=20), min_size=40, max_size=90),
    demands=st.sets(st.integers(min_value=0, max_value=89), max_size=4),
)
def test_at_every_moment_what_is_shown_is_trusted_by_what_is_injected(
    pauses: list[int], demands: set[int]
) -> None:
    """Two replicas read in turn, the bundle is injected a round late, API servers settle late."""
    now = NOW
    material = start_anew(["a"], now, POLICY)
    replicas = [Replica(material), Replica(material)]
    injected_at: float | None = now
    used_by_api_servers = injected = material.authorities
    wanted = False
    for turn, pause in enumerate(pauses):
        now += pause
        wanted = wanted or turn in demands
        step = next_step(
            facts_of(material, ["a"], injected_at=injected_at, rotation_wanted=wanted), now, POLICY
        )
        before = material
        if step is Step.ADD_AUTHORITY:
            material, wanted = add_authority(material, now, POLICY), False
        elif step is Step.ISSUE_SERVING:
            material = issue_serving(material, ["a"], now, POLICY)
        elif step is Step.DROP_OLD_AUTHORITIES:
            material = drop_old_authorities(material)
        else:
            assert step is Step.NOTHING
        if material.authorities != before.authorities:
            injected_at = None
        elif injected_at is None:
            injected, injected_at = material.authorities, now
        if injected_at is not None and now - injected_at >= POLICY.settle:
            used_by_api_servers = injected
        replicas[turn % 2].shown = material.serving
        for replica in replicas:
            assert trusted(replica.shown, used_by_api_servers, now)
            assert trusted(replica.shown, injected, now)


def test_a_bundle_is_split_and_joined_without_loss() -> None:
    material = add_authority(start_anew(["a"], NOW, POLICY), NOW, POLICY)
    assert split_bundle(material.bundle) == material.authorities


def test_names_may_be_addresses() -> None:
    names = ["webhooks.games.svc", "127.0.0.1", "::1"]
    material = start_anew(names, NOW, POLICY)
    assert facts_of(material, names, injected_at=None, rotation_wanted=False).serving_names_match
    other = facts_of(material, names[:2], injected_at=None, rotation_wanted=False)
    assert not other.serving_names_match


def test_a_serving_certificate_does_not_outlive_its_authority() -> None:
    policy = msgspec.structs.replace(POLICY, serving_lifetime=10_000)
    seen = facts_of(start_anew(["a"], NOW, policy), ["a"], injected_at=None, rotation_wanted=False)
    assert seen.serving.end <= seen.authorities[0].end


DAMAGES = {
    "a key of another certificate": lambda one, two: msgspec.structs.replace(
        one, serving_key=two.serving_key
    ),
    "an authority key of another": lambda one, two: msgspec.structs.replace(
        one, authority_key=two.authority_key
    ),
    "a certificate of another authority": lambda one, two: msgspec.structs.replace(
        one, serving=two.serving, serving_key=two.serving_key
    ),
    "no certificate at all": lambda one, _: msgspec.structs.replace(one, serving=b"hello"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_material_is_not_used(case: str) -> None:
    damaged = DAMAGES[case](start_anew(["a"], NOW, POLICY), start_anew(["a"], NOW, POLICY))
    with pytest.raises(ValueError):  # noqa: PT011 - cryptography's messages are its own
        facts_of(damaged, ["a"], injected_at=None, rotation_wanted=False)


def test_keys_do_not_show() -> None:
    assert "PRIVATE" not in repr(start_anew(["a"], NOW, POLICY))
