"""Words of the command line, as parts of objects; what cannot be right gets a sentence."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from edgewise.api.tenancy import Subject
from edgewise.runtime.errors import ServiceError
from edgewise.tenancy.quota.quantities import NotAQuantity, wanted

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class BadTenantOption(ServiceError):
    """Something on the command line that cannot be right."""


def tenant_name(given: str) -> str:
    if not NAME.fullmatch(given):
        raise BadTenantOption(
            f"{given!r} cannot be the name of a tenant: it becomes that of a namespace, with at "
            "most 63 small letters, digits and dashes"
        )
    return given


def subject(given: str) -> Subject:
    """`alice`, `user:alice`, `group:team`, or `account:NAMESPACE/NAME`."""
    kind, colon, name = given.partition(":")
    if not colon:
        return Subject(kind="User", name=given)
    if kind == "user" and name:
        return Subject(kind="User", name=name)
    if kind == "group" and name:
        return Subject(kind="Group", name=name)
    namespace, slash, account = name.partition("/")
    if kind == "account" and slash and namespace and account:
        return Subject(kind="ServiceAccount", name=account, namespace=namespace)
    raise BadTenantOption(
        f"{given!r} is no owner: write user:NAME, group:NAME or account:NAMESPACE/NAME"
    )


def resources(given: Iterable[str]) -> dict[str, int | str]:
    """`pods=10,cpu=4` and the like."""
    found: dict[str, int | str] = {}
    for part in (part.strip() for each in given for part in each.split(",")):
        name, equals, amount = part.partition("=")
        if not name or not equals or not amount:
            raise BadTenantOption(f"{part!r} is no amount: write it like pods=10 or memory=8Gi")
        found[name] = amount
    try:
        wanted(found)
    except NotAQuantity as error:
        raise BadTenantOption(str(error)) from error
    return found


def moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        found = None
    now = datetime.now(UTC)
    if found is None or found.tzinfo is None:
        raise BadTenantOption(
            f"--until {text!r} is no moment: write it like {now:%Y-%m-%dT%H:%M:%SZ}"
        )
    if found <= now:
        raise BadTenantOption(f"--until {text} is past: it is {now:%Y-%m-%dT%H:%M:%SZ} now")
    return found
