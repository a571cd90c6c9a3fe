"""What repair does about a session, as a table of sentences."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.api.global_sessions import (
    HUB_LABEL,
    SESSION_UID_LABEL,
    BindingState,
    ClientBinding,
    GlobalSession,
)
from edgewise.api.sessions import Session, SessionSpec, TemplateRef
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.repair.plan import Part, Seen, plan_repair
from tests.unit.sessions.hub.bindings import binding, global_session

HUB_ID = "f-1"
IN, LOST, OUT = True, False, None


def part(
    clients: dict[str, Any] | None = None,
    *,
    uid: str = "u-1",
    hub_id: str = HUB_ID,
    deleting: bool = False,
    **fields: Any,
) -> Part:
    entries = {
        client: {"connected": value} if isinstance(value, bool) else value
        for client, value in (clients or {}).items()
    }
    found = Session(
        metadata=ObjectMeta(
            name="room-1",
            labels={HUB_LABEL: hub_id, SESSION_UID_LABEL: uid} if hub_id else {},
            deletion_timestamp="2030-01-01T00:00:00Z" if deleting else None,
        ),
        spec=SessionSpec(template_ref=TemplateRef(name="demo"), clients=entries),
    )
    return Part(found=found, **fields)


NOTHING = Part()
UNSEEN = Part(visible=False)
LIVE = global_session()


def going() -> GlobalSession:
    session = global_session()
    session.metadata.deletion_timestamp = "2030-01-01T00:00:00Z"
    return session


def lost(client: str, cluster: str) -> ClientBinding:
    return binding(client, cluster, state=BindingState.DISCONNECTED)


Expected = dict[str, Any]
CASES: dict[str, tuple[GlobalSession | None, list[ClientBinding], dict[str, Part], Expected]] = {
    "a session is made where it is missing": (
        LIVE, [], {"a": NOTHING, "b": part()}, {"open": ["a"]},
    ),
    "a cluster that does not answer is waited for": (
        LIVE, [], {"a": UNSEEN, "b": part()}, {"waiting": ["a"]},
    ),
    "a session is not made where it is not allowed": (
        LIVE, [], {"a": Part(allowed=False)}, {},
    ),
    "but it is, while somebody sits there": (
        LIVE, [binding("x", "a")], {"a": Part(allowed=False)}, {"open": ["a"]},
    ),
    "an empty session goes from where it is no longer allowed": (
        LIVE, [], {"a": part(allowed=False)}, {"close": ["a"]},
    ),
    "a client that its cluster does not know is put there": (
        LIVE, [binding("x", "a")], {"a": part()}, {"put": {"a": {"x": IN}}},
    ),
    "a disconnected client is put there as lost": (
        LIVE, [lost("x", "a")], {"a": part()}, {"put": {"a": {"x": LOST}}},
    ),
    "a client that is lost for the hub and connected for the cluster is lost": (
        LIVE, [lost("x", "a")], {"a": part({"x": IN})}, {"put": {"a": {"x": LOST}}},
    ),
    "a client that is back for the hub and lost for the cluster is back": (
        LIVE, [binding("x", "a")], {"a": part({"x": LOST})}, {"put": {"a": {"x": IN}}},
    ),
    "an entry that says nothing usable is written anew": (
        LIVE,
        [binding("x", "a"), binding("y", "a")],
        {"a": part({"x": "yes", "y": {"connected": 1}})},
        {"put": {"a": {"x": IN, "y": IN}}},
    ),
    "a client without a binding is removed": (
        LIVE, [], {"a": part({"x": IN})}, {"put": {"a": {"x": OUT}}},
    ),
    "a client that sits in another cluster is removed": (
        LIVE,
        [binding("x", "b")],
        {"a": part({"x": IN}), "b": part({"x": IN})},
        {"put": {"a": {"x": OUT}}},
    ),
    "a client whose cluster does not answer is left alone there": (
        LIVE, [binding("x", "a")], {"a": UNSEEN, "b": part()}, {"waiting": ["a"]},
    ),
    "a queued client sits nowhere": (
        LIVE, [binding("x")], {"a": part({"x": IN})}, {"put": {"a": {"x": OUT}}},
    ),
    "when all is well nothing is done": (
        LIVE, [binding("x", "a"), lost("y", "a")], {"a": part({"x": IN, "y": LOST})}, {},
    ),
    "a Session that is being deleted is waited for": (
        LIVE, [], {"a": part(deleting=True)}, {"waiting": ["a"]},
    ),
    "a Session that somebody else made is not touched": (
        LIVE, [binding("x", "a")], {"a": part({"y": IN}, hub_id="")}, {"waiting": ["a"]},
    ),
    "an empty Session of an older namesake is removed": (
        LIVE, [], {"a": part(uid="u-0")}, {"close": ["a"]},
    ),
    "a Session of an older namesake with clients in it is kept and shown": (
        LIVE, [], {"a": part({"x": IN}, uid="u-0")}, {"waiting": ["a"]},
    ),
    "bindings of an older namesake are dropped": (
        LIVE, [binding("x", "a", session_uid="u-0")], {"a": part()}, {"drop": ["x"]},
    ),
    "a session that is to go is removed everywhere, with its bindings": (
        going(),
        [binding("x", "a")],
        {"a": part({"x": IN}), "b": part()},
        {"close": ["a", "b"], "drop": ["x"], "waiting": ["a", "b"]},
    ),
    "a Session that is being deleted already is not deleted again": (
        going(), [], {"a": part(deleting=True)}, {"waiting": ["a"]},
    ),
    "a session goes when nobody has it any more": (
        going(), [], {"a": NOTHING, "b": NOTHING}, {"release": True},
    ),
    "a session does not go while a cluster does not answer": (
        going(), [], {"a": NOTHING, "b": UNSEEN}, {"waiting": ["b"]},
    ),
    "a session does not go while it has bindings": (
        going(), [binding("x", "a")], {"a": NOTHING}, {"drop": ["x"]},
    ),
    "somebody else's Session does not keep a session from going": (
        going(), [], {"a": part(hub_id="")}, {"release": True},
    ),
    "a session without any cluster goes at once": (going(), [], {}, {"release": True}),
    "an empty Session that nobody wants is removed": (
        None, [], {"a": part(), "b": NOTHING}, {"close": ["a"]},
    ),
    "one with clients in it is kept: perhaps the hub was set back": (
        None, [], {"a": part({"x": IN})}, {"waiting": ["a"]},
    ),
    "one of another hub is not touched": (None, [], {"a": part(hub_id="f-2")}, {"waiting": ["a"]}),
    "bindings without a session are dropped": (None, [binding("x", "a")], {}, {"drop": ["x"]}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_that(sentence: str) -> None:
    session, bindings, parts, expected = CASES[sentence]
    plan = plan_repair(Seen(hub_id=HUB_ID, session=session, bindings=bindings, parts=parts))
    done = {
        "open": plan.open,
        "close": sorted(plan.close),
        "put": plan.put,
        "drop": [dropped.spec.client for dropped in plan.drop],
        "release": plan.release,
        "waiting": sorted(plan.waiting),
    }
    assert {name: value for name, value in done.items() if value} == expected
    assert plan.idle is (not expected.keys() - {"waiting"})


def test_what_was_repaired_needs_no_repair() -> None:
    """Carrying out a plan leads to a state whose plan is empty."""
    bindings = [binding("x", "a"), lost("y", "b"), binding("z")]
    parts = {"a": part({"old": IN, "y": IN}), "b": part({"x": IN})}
    plan = plan_repair(Seen(hub_id=HUB_ID, session=LIVE, bindings=bindings, parts=parts))
    for cluster, changes in plan.put.items():
        found = parts[cluster].found
        assert found is not None
        for client, connected in changes.items():
            if connected is None:
                del found.spec.clients[client]
            else:
                found.spec.clients[client] = {"connected": connected}
    again = plan_repair(Seen(hub_id=HUB_ID, session=LIVE, bindings=bindings, parts=parts))
    assert again.idle
