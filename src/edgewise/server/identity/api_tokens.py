"""API tokens of applications: random, shown once, kept only as a digest.

A token is `ewt_<id>_<secret>`. The id finds the Secret it is kept in, the secret is 32
random bytes: with that much chance in it, one SHA-256 is as good as a slow password hash
(there is no dictionary to try) and costs nothing per request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime

import msgspec

from edgewise.api.owners import APPLICATION_NAME, owner_of_tenant
from edgewise.api.secrets import SECRET_LABEL
from edgewise.errors import ReadableError
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import ObjectMeta
from edgewise.server.identity.principal import Principal, Role, Unauthenticated

PREFIX = "ewt_"
LABEL_VALUE = "api-token"
ROLES = (Role.ADMIN, Role.APP, Role.READER)  # clients have tokens of another kind

_TOKEN = re.compile(r"ewt_(?P<id>[a-z2-7]{10})_(?P<secret>[A-Za-z0-9_-]{43})")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


class TokenError(ReadableError):
    """A token that cannot be made, or a Secret that does not hold one."""


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept about a token. Not the token."""

    id: str
    digest: str
    role: Role
    application: str
    expires: float | None = None
    # Whose it is, if it is a tenant's: it ends with this very one.
    tenant: str = ""
    tenant_uid: str = ""


def check_application(name: str) -> None:
    if not APPLICATION_NAME.fullmatch(name):
        raise TokenError(
            f"{name!r} cannot name an application: use up to 63 lower-case letters, "
            "digits and dashes"
        )


def make_token(
    role: Role,
    application: str,
    *,
    expires: float | None = None,
    tenant: str = "",
    tenant_uid: str = "",
) -> tuple[str, ApiToken]:
    """A new token, to be shown once, and what to keep of it."""
    if role not in ROLES:
        raise TokenError(f"an API token can be for {', '.join(ROLES)}: not for {role}")
    if tenant and role is not Role.APP:
        raise TokenError(f"a token of a tenant is for app: {role} sees what belongs to others")
    if bool(tenant) != bool(tenant_uid) or not _may_be_tenant(tenant):
        raise TokenError(f"{tenant!r} cannot be a tenant")
    check_application(application)
    id = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    token = f"{PREFIX}{id}_{secrets.token_urlsafe(32)}"
    kept = ApiToken(
        id=id,
        digest=_digest(token),
        role=role,
        application=application,
        expires=expires,
        tenant=tenant,
        tenant_uid=tenant_uid,
    )
    return token, kept


def _may_be_tenant(name: str) -> bool:
    return not name or APPLICATION_NAME.fullmatch(name) is not None


def secret_of(token: ApiToken, namespace: str) -> Secret:
    data = {
        "digest": token.digest.encode(),
        "role": token.role.encode(),
        "application": token.application.encode(),
    }
    if token.tenant:
        data |= {"tenant": token.tenant.encode(), "tenantUid": token.tenant_uid.encode()}
    if token.expires is not None:
        end = datetime.fromtimestamp(token.expires, UTC).isoformat(timespec="seconds")
        data["expires"] = end.encode()
    secret = Secret.named(secret_name(token.id), namespace, data=data)
    secret.metadata = ObjectMeta(
        name=secret.metadata.name, namespace=namespace, labels={SECRET_LABEL: LABEL_VALUE}
    )
    return secret


def secret_name(id: str) -> str:
    return f"edgewise-token-{id}"


def token_in(secret: Secret) -> ApiToken:
    """What a Secret keeps; raises TokenError, so that a damaged one lets nobody in."""
    try:
        text = {name: value.decode() for name, value in secret.data.items()}
        digest, application = text["digest"], text["application"]
        role = Role(text["role"])
        end = datetime.fromisoformat(text["expires"]) if "expires" in text else None
    except (KeyError, ValueError) as error:
        raise TokenError(f"the Secret {secret.key} does not hold an API token: {error}") from error
    usable = role in ROLES and len(digest) == 64 and (end is None or end.tzinfo is not None)
    tenant, uid = text.get("tenant", ""), text.get("tenantUid", "")
    # Half of a tenant is none: such a token would be everybody's.
    usable = usable and bool(tenant) == bool(uid) and _may_be_tenant(tenant)
    usable = usable and (not tenant or role is Role.APP)
    if not usable or not APPLICATION_NAME.fullmatch(application):
        raise TokenError(f"the Secret {secret.key} does not hold a usable API token")
    return ApiToken(
        id=secret.metadata.name.removeprefix("edgewise-token-"),
        digest=digest,
        role=role,
        application=application,
        expires=None if end is None else end.timestamp(),
        tenant=tenant,
        tenant_uid=uid,
    )


def token_id(token: str) -> str:
    """The id in a token, by which to look up what is kept of it."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise Unauthenticated("the API token is not well formed")
    return found["id"]


def check_token(token: str, kept: ApiToken | None, now: float) -> Principal:
    """The principal of a token, or Unauthenticated: the same for unknown, wrong and revoked."""
    # An unknown id costs the same comparison, so that time tells nobody which ids exist.
    expected = kept.digest if kept is not None else "0" * 64
    if not hmac.compare_digest(_digest(token), expected) or kept is None:
        raise Unauthenticated("the API token is not known here")
    if kept.expires is not None and kept.expires <= now:
        raise Unauthenticated("the API token has expired")
    owner = kept.application
    if kept.tenant:
        owner = owner_of_tenant(kept.tenant, kept.application)
    return Principal(role=kept.role, application=owner, expires=kept.expires)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
