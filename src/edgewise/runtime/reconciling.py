"""Which reconcile the running code belongs to, for log lines and for its own writes."""

from __future__ import annotations

from contextvars import ContextVar

import msgspec

from edgewise.kube.objects import Key


class Reconciling(msgspec.Struct, frozen=True):
    controller: str
    key: Key


CURRENT: ContextVar[Reconciling | None] = ContextVar("reconciling", default=None)
