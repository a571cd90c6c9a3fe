"""When measurements begin."""

from edgewise.bench.sessions.join import LOOP_SECONDS, moments


def test_rounds_begin_in_all_parts_of_the_kubelets_second() -> None:
    found = moments(20)
    parts = {int(moment / LOOP_SECONDS * 20) for moment in found}
    assert parts == set(range(20))
