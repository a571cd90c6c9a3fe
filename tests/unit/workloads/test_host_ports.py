"""Ports of nodes: known while a pod has them, and never given to two."""

import pytest

from edgewise.api.exposure import Port
from edgewise.kube.objects import Key
from edgewise.workloads.host_ports import HostPortIndex, pick_host_ports

ANN, BEN = Key("ns", "ann"), Key("ns", "ben")
NAMESAKE = Key("other", "ann")


def noted(**pods: tuple[int, ...]) -> HostPortIndex:
    index = HostPortIndex()
    for name, numbers in pods.items():
        index.note(Key("ns", name), numbers)
    return index


def test_a_port_is_taken_until_the_last_pod_that_has_it_is_gone() -> None:
    index = noted(ann=(20001, 20002), ben=(20002,))
    assert set(index.taken) == {20001, 20002}
    index.note(ANN, ())
    assert set(index.taken) == {20002}
    index.note(BEN, ())
    index.note(BEN, ())
    assert not index.taken


def test_a_successor_of_the_same_name_has_its_own_ports() -> None:
    index = noted(ann=(20001, 20002))
    index.note(ANN, (20002, 20003))
    assert set(index.taken) == {20002, 20003}
    index.note(ANN, ())
    assert not index._of_pod


def test_what_was_handed_out_follows_the_index() -> None:
    index = noted(ann=(20001,))
    view = index.taken
    index.note(BEN, (20002,))
    assert 20002 in view


TAKEN = {
    "free": ((), False),
    "by a pod that does not count": ((ANN,), False),
    "by a pod that counts": ((BEN,), True),
    "by both": ((ANN, BEN), True),
    "by a pod of that name in another namespace": ((NAMESAKE,), True),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_port_is_taken_by_others(case: str) -> None:
    pods, expected = TAKEN[case]
    index = HostPortIndex()
    for pod in pods:
        index.note(pod, (20001,))
    assert index.taken_by_others("ns", 20001, {"ann"}) is expected
    assert not index.taken_by_others("ns", 20009, set())


def test_a_pod_keeps_its_ports_and_gets_the_others_once_each() -> None:
    free = [20001, 20002, 20003]
    asked = []

    def pick(protocol: str, seed: str, also: set[int]) -> int | None:
        asked.append((protocol, seed))
        return next((number for number in free if number not in also), None)

    ports = [Port(name=name, port=80 + n, protocol="UDP") for n, name in enumerate("abcd")]
    found = pick_host_ports(ports, "pod", pick, {"b": 20001})
    assert found == {"a": 20002, "b": 20001, "c": 20003}, "there is none left for d"
    assert asked == [("UDP", "pod/a"), ("UDP", "pod/c"), ("UDP", "pod/d")]
