"""Kubernetes' quantities as exact whole numbers, so that sums are exact too."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from edgewise.errors import ReadableError

# Whole numbers of this fraction of a unit: the smallest that Kubernetes keeps.
NANO = 10**9
MILLI = NANO // 1000
_FORM = re.compile(r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 64
# Kubernetes keeps nothing above what 64 bits can count.
_MOST = (2**63 - 1) * NANO
_WHOLE = frozenset(
    (
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets"),
        *("configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    )
)

# A name of a resource to so many nano units of it.
Amounts = Mapping[str, int]


class NotAQuantity(ReadableError, ValueError):
    """What a person wrote is no amount of anything."""


# Every pod that comes or goes has the quota of its namespace read again, mostly the same texts.
@lru_cache(maxsize=4096)
def parse(text: int | str) -> int:
    if isinstance(text, int):
        return min(text * NANO, _MOST)
    found = _FORM.match(text) if len(text) <= _LONGEST else None
    if found is None:
        raise NotAQuantity(f"{text[:_LONGEST]!r} is no quantity: write it like 10, 500m or 2Gi")
    number, suffix = Fraction(found[1]), found[2] or ""
    if suffix in _BINARY:
        number *= 2 ** _BINARY[suffix]
    elif suffix:
        power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        number *= Fraction(10) ** max(-30, min(30, power))
    # As Kubernetes does: what is smaller than the smallest is rounded up.
    return min(math.ceil(number * NANO), _MOST)


def text(amount: int) -> str:
    """The shortest exact form."""
    for divisor, suffix in ((NANO, ""), (10**6, "m"), (10**3, "u")):
        if amount % divisor == 0:
            return f"{amount // divisor}{suffix}"
    return f"{amount}n"


def amounts(written: Mapping[str, int | str]) -> dict[str, int]:
    """What a person wrote; NotAQuantity names the field."""
    found = {}
    for name, each in written.items():
        try:
            found[name] = parse(each)
        except NotAQuantity as error:
            raise NotAQuantity(f"{name}: {error}") from error
        if found[name] < 0:
            raise NotAQuantity(f"{name}: {each} is negative: say 0 or more")
    return found


def wanted(written: Mapping[str, int | str]) -> dict[str, int]:
    """The same of what becomes a part of a ResourceQuota, in which some are whole numbers: with a
    fraction the API server would refuse the quota of the parent, and with it all that wait."""
    # The API server rounds what it stores in a quota up to a thousandth: what it would change is
    # never seen as it was written, and would be written again for ever.
    found = {name: -(-amount // MILLI) * MILLI for name, amount in amounts(written).items()}
    for name, amount in found.items():
        if is_whole(name) and amount % NANO:
            raise NotAQuantity(f"{name}: {written[name]} is no whole number")
    return found


def is_whole(name: str) -> bool:
    """As Kubernetes sees it: objects that are counted, and extended resources."""
    return name in _WHOLE or ("/" in name and not name.startswith("requests."))


def texts(found: Amounts) -> dict[str, str]:
    return {name: text(amount) for name, amount in sorted(found.items())}


def total(many: Iterable[Amounts], names: Iterable[str]) -> dict[str, int]:
    held = list(many)
    return {name: min(_MOST, sum(each.get(name, 0) for each in held)) for name in names}
