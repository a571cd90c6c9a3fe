"""ResourceQuotas and what people wrote, as accounts; and writes, as patches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from edgewise.api.tenancy import MANAGED, Share, TenantResourceQuota
from edgewise.kube.errors import UNREADABLE_JSON
from edgewise.kube.kinds.core import ResourceQuota, ResourceQuotaSpec
from edgewise.kube.objects import ObjectMeta
from edgewise.tenancy.names import KEPT, LEDGER
from edgewise.tenancy.quota.quantities import NotAQuantity, amounts, texts, total, wanted
from edgewise.tenancy.quota.tree_quota import Account, NewAccount, SetEnforced, SetHard


def total_of(quota: TenantResourceQuota, now: float) -> dict[str, int]:
    """Claims less drops. A claim that has expired counts nothing, but its names stay limited."""
    claims, drops = list(quota.spec.claims.values()), list(quota.spec.drops.values())
    names = sorted({name for each in claims for name in each.resources})
    given = total((wanted(each.resources) for each in claims if _lasts(each, now)), names)
    taken = total((wanted(each.resources) for each in drops if _lasts(each, now)), names)
    return {name: max(0, given[name] - taken[name]) for name in names}


def overdrawn(quota: TenantResourceQuota, now: float) -> str:
    """Where drops are greater than claims, in a sentence."""
    claims, drops = list(quota.spec.claims.values()), list(quota.spec.drops.values())
    names = sorted({name for each in drops for name in each.resources})
    given = total((wanted(each.resources) for each in claims if _lasts(each, now)), names)
    taken = total((wanted(each.resources) for each in drops if _lasts(each, now)), names)
    for name in names:
        if taken[name] > given[name]:
            found = texts({"total": given[name], "dropped": taken[name]})
            return f"drops of {name} are {found['dropped']}, and the claims only {found['total']}"
    return ""


def changes_at(shares: Iterable[Share], now: float) -> list[float]:
    """The moments at which what counts changes by itself."""
    moments = [each.expires_at.timestamp() for each in shares if each.expires_at is not None]
    return [moment for moment in moments if moment > now]


def _lasts(share: Share, now: float) -> bool:
    return share.expires_at is None or _moment(share.expires_at) > now


def _moment(at: datetime) -> float:
    return at.timestamp()


def account_of(quota: ResourceQuota) -> Account:
    status = quota.status
    return Account(
        namespace=quota.metadata.namespace,
        hard=_read(quota.spec.hard),
        ledger=ledger_of(quota),
        enforced=_read(status.hard) if status.hard else None,
        used=_read(status.used) if status.used else None,
        version=quota.metadata.resource_version,
    )


def ledger_of(quota: ResourceQuota) -> Mapping[str, dict[str, int]]:
    written = quota.metadata.annotations.get(LEDGER, "")
    return _ledger(written) if written else {}


# A plan asks for it once for each child: read each time, a thousand children would be read a
# million times.
@lru_cache(maxsize=64)
def _ledger(written: str) -> Mapping[str, dict[str, int]]:
    try:
        entries = msgspec.json.decode(written, type=dict[str, dict[str, str]])
    except UNREADABLE_JSON:
        return {}  # no tenant can write it; an administrator who broke it gives all to the parent
    return {child: _read(entry) for child, entry in entries.items()}


def _read(written: Mapping[str, str]) -> dict[str, int]:
    try:
        return amounts(written)
    except NotAQuantity:
        return {}


def new_quota(write: NewAccount) -> ResourceQuota:
    return ResourceQuota(
        api_version=ResourceQuota.KIND.api_version,
        kind=ResourceQuota.KIND.kind,
        metadata=ObjectMeta(
            name=KEPT,
            namespace=write.namespace,
            labels={MANAGED: "true"},
            annotations={LEDGER: "{}"},
        ),
        spec=ResourceQuotaSpec(hard=texts(write.hard)),
    )


def hard_patch(write: SetHard, before: ResourceQuota) -> dict[str, Any]:
    """In one write, and only if nobody wrote since: hard and ledger are never seen apart."""
    ledger = {child: texts(entry) for child, entry in sorted(write.ledger.items())}
    removed: dict[str, None] = {name: None for name in before.spec.hard if name not in write.hard}
    return {
        "metadata": {
            "resourceVersion": write.version,
            "annotations": {LEDGER: msgspec.json.encode(ledger).decode()},
        },
        "spec": {"hard": {**removed, **texts(write.hard)}},
    }


def enforced_patch(write: SetEnforced) -> dict[str, Any]:
    used = {"used": texts(write.used)} if write.used else {}
    return {
        "metadata": {"resourceVersion": write.version},
        "status": {"hard": texts(write.enforced), **used},
    }
