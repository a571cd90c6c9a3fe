"""Stamping, and one undecided request a person."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.tenancy_requests import Decision, RoleRequest
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.admission import (
    AdmissionRequest,
    Allowed,
    Denied,
    Mutated,
    UserInfo,
)
from edgewise.tenancy.requests.webhooks import Reviewing, stamp


def request(who: str = "", decision: Decision | None = None) -> RoleRequest:
    role = {"kind": "ClusterRole", "name": "edgewise:tenant-viewer"}
    made: dict[str, Any] = {"metadata": {"name": "a" * 26, "namespace": "acme"}}
    made["spec"] = {"roleRef": role, "requester": who}
    found = msgspec.convert(made, RoleRequest)
    found.spec.decision = decision
    return found


def question(
    new: RoleRequest, old: RoleRequest | None = None, who: str = "alice", dry_run: bool = False
) -> AdmissionRequest[RoleRequest]:
    return AdmissionRequest(
        uid="1",
        operation="UPDATE" if old is not None else "CREATE",
        name=new.metadata.name,
        namespace="acme",
        subresource="",
        user=UserInfo(username=who),
        object=new,
        old_object=old,
        dry_run=dry_run,
        raw_object=msgspec.json.encode(new),
    )


def stamped(asked: AdmissionRequest[RoleRequest]) -> dict[str, Any]:
    answer = stamp(asked)
    assert isinstance(answer, Mutated)
    spec: dict[str, Any] = answer.document["spec"]
    return spec


def test_the_requester_is_who_asks_whatever_was_written() -> None:
    assert stamped(question(request(who="mallory")))["requester"] == "alice"


def test_the_decider_is_who_decides_whatever_was_written() -> None:
    decided = request("alice", Decision(approved=True, by="the-queen"))
    spec = stamped(question(decided, request("alice"), who="olga"))
    assert spec["decision"]["by"] == "olga"


def test_a_decision_that_is_there_is_left_alone() -> None:
    decided = request("alice", Decision(approved=True, by="olga"))
    assert isinstance(stamp(question(decided, decided, who="mallory")), Allowed)


def reviewing(*known: RoleRequest, now: Any = lambda: 0.0) -> Reviewing:
    caches = SharedCaches(None)  # type: ignore[arg-type]
    made = Reviewing(None, caches, now)  # type: ignore[arg-type]
    caches.of(RoleRequest).replace(known, "1")
    return made


async def test_a_second_one_waits_for_the_first() -> None:
    review = reviewing(request("alice")).review
    assert isinstance(await review(question(request())), Denied)
    assert isinstance(await review(question(request(), who="bob")), Allowed)


async def test_a_decided_one_is_in_nobodys_way() -> None:
    review = reviewing(request("alice", Decision(approved=False))).review
    assert isinstance(await review(question(request())), Allowed)


async def test_one_that_the_caches_do_not_have_yet_counts() -> None:
    now = [0.0]
    review = reviewing(now=lambda: now[0]).review
    assert isinstance(await review(question(request(), dry_run=True)), Allowed)
    assert isinstance(await review(question(request())), Allowed)
    assert isinstance(await review(question(request())), Denied)
    now[0] = 11.0
    assert isinstance(await review(question(request())), Allowed)


async def test_a_denial_asks_nobody() -> None:
    denied = request("alice", Decision(approved=False))
    answer = await reviewing().review(question(denied, request("alice"), who="olga"))
    assert isinstance(answer, Allowed)
