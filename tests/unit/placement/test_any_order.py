"""Whatever happens in whatever order: a search ends, R replicas stay ready, and no node is
visited twice in one search."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.placement.observed import Role
from tests.unit.placement.world import World

NODES = [f"n{number}" for number in range(6)]
EVENTS = st.one_of(
    st.tuples(st.just("crash after"), st.integers(0, 4)),
    st.tuples(st.just("pass unseen"), st.integers(1, 40)),
    st.tuples(st.just("silence"), st.integers(0, 5)),
    st.tuples(st.just("talk"), st.integers(0, 5)),
    st.tuples(st.just("stop reports"), st.just(0)),
    st.tuples(st.just("start reports"), st.just(0)),
    st.tuples(st.just("cordon"), st.integers(0, 5)),
    st.tuples(st.just("uncordon"), st.integers(0, 5)),
    st.tuples(st.just("lose sentinel"), st.just(0)),
    st.tuples(st.just("lose replica"), st.just(0)),
    st.tuples(st.just("node down"), st.integers(0, 5)),
    st.tuples(st.just("node up"), st.integers(0, 5)),
    st.tuples(st.just("rtt"), st.tuples(st.integers(0, 5), st.integers(1, 400))),
    st.tuples(st.just("unready"), st.just(0)),
    st.tuples(st.just("ready"), st.just(0)),
)


# So many quarters of a second after the one before, or between a decision and its last write.
DECIDED = -1
WHEN = st.one_of(st.just(DECIDED), st.integers(0, 8))


def goes_on(world: World, quarters: int) -> None:
    for _ in range(60 if quarters == DECIDED else quarters):
        world.step()
        if quarters == DECIDED and world.status.decision is not None:
            return
        world.tick()


def happen(world: World, event: str, value: object) -> None:  # noqa: PLR0912 - a table
    node = NODES[value] if isinstance(value, int) and value < len(NODES) else ""
    match event, value:
        case "crash after", int(writes):
            world.step(writes)
        case "pass unseen", int(count):
            world.tick(count / 10)
        case "silence", _:
            world.silent.add(node)
        case "talk", _:
            world.silent.discard(node)
        case "stop reports", _:
            world.reports = False
        case "start reports", _:
            world.reports = True
        case "cordon", _:
            world.cordoned.add(node)
        case "uncordon", _:
            world.cordoned.discard(node)
        case "lose sentinel", _:
            world.step()  # one that came and went unseen may come again
            for box in world.pods:
                if box.role is Role.SENTINEL:
                    box.deleting_at = box.deleting_at or world.now
        case "lose replica", _:
            # Deleted by hand, or by an eviction: the ReplicaSet makes another one.
            for box in [box for box in world.pods if box.role is Role.REPLICA][:1]:
                box.deleting_at = box.deleting_at or world.now
        case "node down", _:
            world.down.add(node)
        case "node up", _:
            world.down.discard(node)
        case "rtt", (int(number), int(rtt)):
            world.rtts[NODES[number]] = float(rtt)
        case "unready", _:
            world.pods[0].unready = True
        case "ready", _:
            for box in world.pods:
                box.unready = False
        case _:
            pass


@settings(max_examples=70)
@given(
    mode=st.sampled_from(("Sentinel", "Sentinel", "Probe")),
    rtts=st.lists(st.integers(1, 400), min_size=6, max_size=6),
    replicas=st.integers(1, 3),
    sentinels=st.integers(1, 3),
    events=st.lists(st.tuples(WHEN, EVENTS), max_size=30),
)
def test_it_ends_keeps_r_ready_and_visits_no_node_twice(
    mode: str,
    rtts: list[int],
    replicas: int,
    sentinels: int,
    events: list[tuple[int, tuple[str, object]]],
) -> None:
    named = {name: float(rtt) for name, rtt in zip(NODES, rtts, strict=True)}
    spec = {"sentinels": sentinels, "mode": mode}
    world = World(named, replicas, spec=spec, probes=mode == "Probe")
    for quarters, (event, value) in events:
        goes_on(world, quarters)
        happen(world, event, value)
    assert world.risks == []
    world.silent, world.reports, world.down, world.cordoned = set(), True, set(), set()
    for box in world.pods:
        box.unready = False
    world.run(600)
    assert world.status.search.ended_at is not None, world.status.message
    world.step()
    world.tick(3)
    world.step()
    assert not [box for box in world.pods if box.role is Role.SENTINEL and not box.deleting_at]
    assert not [box for box in world.pods if box.cost and not box.deleting_at]
    visits = Counter(world.visits)
    assert max(visits.values(), default=0) <= 1, visits


NEAR_AND_FAR = {"n0": 1.0, "n1": 20.0, "n2": 40.0, "n3": 80.0}
MASKS = st.integers(0, 2**30 - 1)


@settings(max_examples=40)
@given(
    first=st.sampled_from(sorted(NEAR_AND_FAR)),
    probes=st.fixed_dictionaries(dict.fromkeys(NEAR_AND_FAR, MASKS)),
    reports=st.fixed_dictionaries(dict.fromkeys(NEAR_AND_FAR, MASKS)),
    ms=st.integers(1, 900),
)
def test_a_probe_moves_at_most_once_whichever_votes_are_late(
    first: str, probes: dict[str, int], reports: dict[str, int], ms: int
) -> None:
    """As long as not two in a row are, about the same node."""
    world = World(NEAR_AND_FAR, on=[first], probes=True, spec={"mode": "Probe"})
    masks, began = {"probe": probes, "report": reports}, int(world.now)

    def late(kind: str, node: str, second: int) -> float:
        mask = masks[kind][node] << 1
        now = second - began + 1
        return ms if mask >> now & 1 and not mask >> (now - 1) & 1 else 0.0

    world.late = late
    world.run(60)
    assert world.status.search.ended_at is not None, world.status.message
    assert world.moves == ["n0"] * (first != "n0")
