"""A controller runtime: write `reconcile`, and leave the rest to it.

    from edgewise.runtime import Controller, Manager, Requeue, owned

Begin with `controller` and `manager`; docs/how-to/write-a-controller.md shows both at work.
A name is imported when it is asked for: all of them together take 300 ms and 49 MB.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.runtime.api import Api
    from edgewise.runtime.backoff import Backoff
    from edgewise.runtime.caching.cache import Cache
    from edgewise.runtime.caching.selection import Selection
    from edgewise.runtime.caching.shared_caches import SharedCaches
    from edgewise.runtime.conditions import ConditionSet, Finding
    from edgewise.runtime.controller import Controller
    from edgewise.runtime.events import EventRecorder
    from edgewise.runtime.leading.leadership import Leadership, Timing
    from edgewise.runtime.logs import set_up_logs
    from edgewise.runtime.manager import Election, Listen, Manager
    from edgewise.runtime.metrics import Metrics
    from edgewise.runtime.requeue import Requeue
    from edgewise.runtime.retry import NotUntilItChanges, TryAgainAfter, TryAgainNow
    from edgewise.runtime.watches import CacheView, Watch, mapped, owned, read

__all__ = [
    "Api",
    "Backoff",
    "Cache",
    "CacheView",
    "ConditionSet",
    "Controller",
    "Election",
    "EventRecorder",
    "Finding",
    "Leadership",
    "Listen",
    "Manager",
    "Metrics",
    "NotUntilItChanges",
    "Requeue",
    "Selection",
    "SharedCaches",
    "Timing",
    "TryAgainAfter",
    "TryAgainNow",
    "Watch",
    "mapped",
    "owned",
    "read",
    "set_up_logs",
]

_MODULES = {
    "api": ("Api",),
    "backoff": ("Backoff",),
    "caching.cache": ("Cache",),
    "caching.selection": ("Selection",),
    "caching.shared_caches": ("SharedCaches",),
    "conditions": ("ConditionSet", "Finding"),
    "controller": ("Controller",),
    "events": ("EventRecorder",),
    "leading.leadership": ("Leadership", "Timing"),
    "logs": ("set_up_logs",),
    "manager": ("Election", "Listen", "Manager"),
    "metrics": ("Metrics",),
    "requeue": ("Requeue",),
    "retry": ("NotUntilItChanges", "TryAgainAfter", "TryAgainNow"),
    "watches": ("CacheView", "Watch", "mapped", "owned", "read"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
