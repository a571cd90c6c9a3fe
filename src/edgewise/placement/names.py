"""Names of sentinels: derived and numbered, so that two operators make the same one."""

from __future__ import annotations

from edgewise.workloads.names import pod_name


def sentinel_name(placement: str, uid: str, number: int) -> str:
    return pod_name(placement, uid, "sentinel", number)
