"""API tokens: only the exact token gets in, and what is kept cannot be turned back into it."""

import msgspec
import pytest

from edgewise.api.owners import owner_in
from edgewise.kube.kinds.core import Secret
from edgewise.server.identity.api_tokens import (
    TokenError,
    check_token,
    make_token,
    secret_of,
    token_id,
    token_in,
)
from edgewise.server.identity.principal import Role, Unauthenticated

NOW = 1_800_000_000.0


def test_a_token_comes_back_from_its_secret() -> None:
    token, kept = make_token(Role.APP, "arena", expires=NOW + 60)
    stored = msgspec.json.decode(msgspec.json.encode(secret_of(kept, "edge")), type=Secret)
    assert token_in(stored) == kept
    principal = check_token(token, token_in(stored), NOW)
    assert (principal.role, principal.application, principal.expires) == (
        Role.APP,
        "arena",
        NOW + 60,
    )


def test_what_is_kept_does_not_hold_the_token() -> None:
    token, kept = make_token(Role.APP, "arena")
    secret = token.split("_", 2)[2]  # the secret itself may have "_" in it
    assert len(secret) == 43
    assert secret.encode() not in msgspec.json.encode(secret_of(kept, "edge"))
    assert secret not in repr(kept)


def test_only_the_exact_token_is_accepted() -> None:
    token, kept = make_token(Role.APP, "arena")
    other, _ = make_token(Role.APP, "arena")
    for wrong in (other, token[:-1] + ("a" if token[-1] != "a" else "b"), token.upper()):
        with pytest.raises(Unauthenticated):
            check_token(wrong, kept, NOW)


def test_unknown_wrong_and_revoked_sound_the_same() -> None:
    token, _ = make_token(Role.APP, "arena")
    _, other = make_token(Role.APP, "arena")
    said = set()
    for kept in (None, other):
        with pytest.raises(Unauthenticated) as refused:
            check_token(token, kept, NOW)
        said.add(str(refused.value))
    assert len(said) == 1


def test_an_expired_token_is_refused() -> None:
    token, kept = make_token(Role.APP, "arena", expires=NOW)
    check_token(token, kept, NOW - 1)
    with pytest.raises(Unauthenticated, match="expired"):
        check_token(token, kept, NOW)


@pytest.mark.parametrize(
    "text", ["ewt_", "ewt_abc", "ewt_abcdefghij_short", "ewt_ABCDEFGHIJ_" + "x" * 43, "x" * 60]
)
def test_what_is_no_token_has_no_id(text: str) -> None:
    with pytest.raises(Unauthenticated, match="well formed"):
        token_id(text)


def test_a_client_never_gets_an_api_token() -> None:
    with pytest.raises(TokenError, match="not for client"):
        make_token(Role.CLIENT, "arena")


@pytest.mark.parametrize("name", ["", "Arena", "a b", "-a", "a" * 64, "a/b"])
def test_an_application_has_a_plain_name(name: str) -> None:
    with pytest.raises(TokenError, match="cannot name an application"):
        make_token(Role.APP, name)


@pytest.mark.parametrize(
    "change",
    [
        {"digest": None},
        {"digest": b""},
        {"digest": b"\xff" * 64},
        {"role": b"client"},
        {"role": b"root"},
        {"application": None},
        {"application": b"oidc:arena"},
        {"application": b"arena\n"},
        {"expires": b"tomorrow"},
        {"expires": b"2031-01-01T00:00:00"},
    ],
)
def test_a_damaged_secret_lets_nobody_in(change: dict[str, bytes | None]) -> None:
    _, kept = make_token(Role.APP, "arena")
    secret = secret_of(kept, "edge")
    data = {**secret.data, **change}
    secret.data = {name: value for name, value in data.items() if value is not None}
    with pytest.raises(TokenError, match="does not hold"):
        token_in(secret)


def test_a_token_of_a_tenant_owns_nothing_that_a_namesake_owns() -> None:
    token, kept = make_token(Role.APP, "arena", tenant="acme", tenant_uid="u1")
    stored = msgspec.json.decode(msgspec.json.encode(secret_of(kept, "edge")), type=Secret)
    assert token_in(stored) == kept
    owner = check_token(token, kept, NOW).application
    assert owner == owner_in(owner) == "tenant:acme/arena"
    assert owner not in (owner_in("arena"), owner_in("oidc:acme/arena"))


@pytest.mark.parametrize("missing", ["tenant", "tenantUid"])
def test_half_of_a_tenant_lets_nobody_in(missing: str) -> None:
    _, kept = make_token(Role.APP, "arena", tenant="acme", tenant_uid="u1")
    secret = secret_of(kept, "edge")
    del secret.data[missing]
    with pytest.raises(TokenError, match="does not hold a usable API token"):
        token_in(secret)


@pytest.mark.parametrize("tenant", ["Acme", "a/b", "x" * 64])
def test_what_cannot_be_a_tenant_gets_no_token(tenant: str) -> None:
    with pytest.raises(TokenError, match="cannot be a tenant"):
        make_token(Role.APP, "arena", tenant=tenant, tenant_uid="u1")
