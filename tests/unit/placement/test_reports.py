"""Reports by rows: what is sent, and what becomes of it."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from edgewise.client.placement.keys import ReportKey, sign
from edgewise.placement import reports as module
from edgewise.placement.report_keys import LIFETIME_SECONDS, report_key, signed
from edgewise.placement.reports import PodKnown, Reports, Rules, Verdict

SECRET = b"s" * 32
NOW = 1_800_000_000.0
TOPIC = "edgewise/latency/rome/default/web"
RULES = Rules(uid="p1", observation=1.0, half_life=2.0, max_rtt_ms=10_000)


def counting(**rules: Any) -> Reports:
    made = Reports(SECRET, boot="b")
    made.set_placement("default", "web", RULES)
    made.set_placement("default", "other", Rules(**{**_fields(RULES), "uid": "p2", **rules}))
    made.set_pod("default", "web-1", PodKnown(uid="u1", node="n1", placement="web"))
    made.set_pod("default", "api-1", PodKnown(uid="u2", node="n1", placement="other"))
    made.set_node("n1", True)
    return made


def _fields(rules: Rules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in rules.__struct_fields__}


def report(
    *, uid: str = "p1", secret: bytes = SECRET, expires: float = NOW + 600, **said: Any
) -> bytes:
    body = {
        "app": "shop",
        "timestamp": NOW,
        "rtt": 20.0,
        "client": "ann",
        "expires": int(expires),
        "pod": "web-1",
        **said,
    }
    body = {name: value for name, value in body.items() if value is not None}
    key = report_key(secret, uid, str(body["client"]), str(body.get("group", "")), int(expires))
    return signed(json.dumps(body, separators=(",", ":")).encode(), key)


ROWS: dict[str, tuple[bytes, Verdict]] = {
    "a report as it should be": (report(), Verdict.ACCEPTED),
    "of a node": (report(pod=None, node="n1"), Verdict.ACCEPTED),
    "signed with another cluster's secret": (report(secret=b"x" * 32), Verdict.WRONG_MAC),
    "signed with the key of another placement": (report(uid="p2"), Verdict.WRONG_MAC),
    "the key of another client": (
        report().replace(b'"client":"ann"', b'"client":"bob"'),
        Verdict.WRONG_MAC,
    ),
    "a changed round trip": (report().replace(b'"rtt":20.0', b'"rtt":10.0'), Verdict.WRONG_MAC),
    "a longer life": (
        report().replace(str(int(NOW + 600)).encode(), str(int(NOW + 700)).encode()),
        Verdict.WRONG_MAC,
    ),
    "an expired key": (report(expires=NOW - 1), Verdict.EXPIRED),
    "a key that would last for ever": (report(expires=NOW + 10**6), Verdict.EXPIRED),
    "a round trip of nothing": (report(rtt=0), Verdict.BAD_RTT),
    "a negative one": (report(rtt=-5), Verdict.BAD_RTT),
    "one that is too long": (report(rtt=10_001), Verdict.BAD_RTT),
    "one that is no number": (report().replace(b"20.0", b"NaN"), Verdict.UNREADABLE),
    "no mac": (b'{"rtt":1}', Verdict.UNREADABLE),
    "no JSON": (b"\xff\xfe", Verdict.UNREADABLE),
    "nested deep": (b"[" * 900, Verdict.UNREADABLE),
    "more than a kilobyte": (report(app="a" * 1024), Verdict.TOO_LARGE),
    "a pod that is not there": (report(pod="web-9"), Verdict.UNKNOWN_POD),
    "a pod of another placement": (report(pod="api-1"), Verdict.UNKNOWN_POD),
    "a node that is not there": (report(pod=None, node="n9"), Verdict.UNKNOWN_POD),
    "both a pod and a node": (report(node="n1"), Verdict.UNREADABLE),
    "a client with a line feed": (report(client="a\nb"), Verdict.UNREADABLE),
}


@pytest.mark.parametrize("sentence", ROWS)
def test_forged_and_bad_reports_are_counted_by_reason(sentence: str) -> None:
    payload, verdict = ROWS[sentence]
    made = counting()
    assert made.receive(TOPIC, payload, retained=False, now=NOW) is verdict
    assert made.verdicts == {verdict: 1}
    assert bool(made.summary(0, NOW).placements) is (verdict is Verdict.ACCEPTED)


def test_a_replayed_report_counts_once() -> None:
    made = counting()
    payload = report()
    assert made.receive(TOPIC, payload, retained=False, now=NOW) is Verdict.ACCEPTED
    assert made.receive(TOPIC, payload, retained=False, now=NOW + 1) is Verdict.REPLAYED
    older = report(timestamp=NOW - 1)
    assert made.receive(TOPIC, older, retained=False, now=NOW + 1) is Verdict.REPLAYED


def test_what_the_broker_kept_or_delayed_is_stale() -> None:
    made = counting()
    assert made.receive(TOPIC, report(), retained=True, now=NOW) is Verdict.RETAINED
    assert made.receive(TOPIC, report(), retained=False, now=NOW) is Verdict.ACCEPTED
    late = report(timestamp=NOW + 1)
    assert made.receive(TOPIC, late, retained=False, now=NOW + 3.5) is Verdict.STALE


def test_a_client_whose_clock_is_wrong_is_heard_all_the_same() -> None:
    made = counting()
    for number in range(3):
        payload = report(timestamp=NOW - 10_000 + number)
        assert made.receive(TOPIC, payload, retained=False, now=NOW + number) is Verdict.ACCEPTED


def test_more_than_ten_a_second_of_a_client_are_refused_and_others_are_not() -> None:
    made = counting()
    verdicts = [
        made.receive(TOPIC, report(timestamp=NOW + n / 1000), retained=False, now=NOW + n / 1000)
        for n in range(100)
    ]
    assert verdicts.count(Verdict.ACCEPTED) <= 21
    assert verdicts[-1] is Verdict.TOO_FAST
    bob = report(client="bob", timestamp=NOW)
    assert made.receive(TOPIC, bob, retained=False, now=NOW + 0.1) is Verdict.ACCEPTED


def test_a_pod_that_is_gone_takes_its_reports_with_it() -> None:
    made = counting()
    made.receive(TOPIC, report(), retained=False, now=NOW)
    made.set_pod("default", "web-1", None)
    assert made.summary(0, NOW).placements[0].pods == []
    again = report(timestamp=NOW + 1)
    assert made.receive(TOPIC, again, retained=False, now=NOW + 1) is Verdict.UNKNOWN_POD


def test_a_pod_that_changes_its_placement_takes_its_reports_with_it() -> None:
    made = counting()
    made.receive(TOPIC, report(), retained=False, now=NOW)
    made.set_pod("default", "web-1", PodKnown(uid="u1", node="n1", placement="other"))
    assert made.summary(0, NOW).placements[0].pods == []


def test_clients_whose_keys_are_over_are_forgotten_in_time() -> None:
    """So that the number of clients is that of those who report, and memory follows it."""
    made = counting()
    for number in range(100):
        made.receive(TOPIC, report(client=f"c{number}"), retained=False, now=NOW)
    assert made.clients() == 100
    later = NOW + LIFETIME_SECONDS + 120
    late = report(client="late", timestamp=later, expires=later + 600)
    assert made.receive(TOPIC, late, retained=False, now=later) is Verdict.ACCEPTED
    assert made.clients() == 1


def test_a_placement_made_again_begins_with_nothing() -> None:
    made = counting()
    made.receive(TOPIC, report(), retained=False, now=NOW)
    made.set_placement("default", "web", Rules(**{**_fields(RULES), "uid": "p9"}))
    assert made.summary(0, NOW).placements == []
    old = report(timestamp=NOW + 1)
    assert made.receive(TOPIC, old, retained=False, now=NOW + 1) is Verdict.WRONG_MAC


def test_a_flood_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 50)
    made = counting()
    tracemalloc.start()
    for number in range(2_000):
        payload = report(client=f"c{number}", timestamp=NOW)
        made.receive(TOPIC, payload, retained=False, now=NOW)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.verdicts[Verdict.TOO_MANY_CLIENTS] == 1_950
    assert made.clients() == 50
    assert peak < 2_000_000


def test_all_votes_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VOTES", 30)
    monkeypatch.setattr(module, "COUNTED_EVERY", 10)
    made = counting()
    verdicts = [
        made.receive(TOPIC, report(client=f"c{number}"), retained=False, now=NOW)
        for number in range(100)
    ]
    assert 30 <= verdicts.count(Verdict.ACCEPTED) <= 40
    assert verdicts[-1] is Verdict.TOO_MANY_CLIENTS
    known = report(client="c0", timestamp=NOW + 1)
    assert made.receive(TOPIC, known, retained=False, now=NOW + 1) is Verdict.ACCEPTED


def test_a_pod_has_a_bounded_number_of_voters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VOTERS", 10)
    made = counting()
    for number in range(20):
        made.receive(TOPIC, report(client=f"c{number}"), retained=False, now=NOW)
    assert made.verdicts == {Verdict.ACCEPTED: 10, Verdict.TOO_MANY_CLIENTS: 10}
    # Those that are not heard of any more make room.
    made.summary(0, NOW + 60)
    late = report(client="late", timestamp=NOW + 60)
    assert made.receive(TOPIC, late, retained=False, now=NOW + 60) is Verdict.ACCEPTED


def test_a_client_that_reports_about_very_much_is_bounded_and_nothing_counts_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 8)
    monkeypatch.setattr(module, "BURST", 1e6)
    made = counting()
    sent = []
    for number in range(40):
        made.set_pod(
            "default", f"p-{number}", PodKnown(uid=f"x{number}", node="n1", placement="web")
        )
        sent.append(report(pod=f"p-{number}", timestamp=NOW + number / 100))
        assert made.receive(TOPIC, sent[-1], retained=False, now=NOW + 1) is Verdict.ACCEPTED
    for payload in sent:
        assert made.receive(TOPIC, payload, retained=False, now=NOW + 1) is Verdict.REPLAYED


def test_a_clock_that_was_set_back_is_believed_when_nothing_can_be_repeated() -> None:
    made = counting()
    assert made.receive(TOPIC, report(), retained=False, now=NOW) is Verdict.ACCEPTED
    for later, verdict in (
        (10, Verdict.REPLAYED),
        (600, Verdict.REPLAYED),
        (700, Verdict.ACCEPTED),
    ):
        back = report(timestamp=NOW + later - 3600, expires=NOW + later + 600)
        assert made.receive(TOPIC, back, retained=False, now=NOW + later) is verdict, later


def test_a_client_that_is_late_for_a_minute_has_another_clock() -> None:
    made = counting()
    assert made.receive(TOPIC, report(), retained=False, now=NOW) is Verdict.ACCEPTED
    for later, verdict in ((10, Verdict.STALE), (50, Verdict.STALE), (61, Verdict.ACCEPTED)):
        slow = report(timestamp=NOW + later - 5)
        assert made.receive(TOPIC, slow, retained=False, now=NOW + later) is verdict, later


def test_a_summary_that_would_be_too_long_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOLD", 2)
    made = counting()
    for number in range(5):
        name, uid = f"w{number}", f"q{number}"
        made.set_placement("default", name, Rules(**{**_fields(RULES), "uid": uid}))
        made.set_pod("default", f"{name}-1", PodKnown(uid=f"v{number}", node="n1", placement=name))
        topic = f"edgewise/latency/rome/default/{name}"
        payload = report(uid=uid, pod=f"{name}-1")
        assert made.receive(topic, payload, retained=False, now=NOW) is Verdict.ACCEPTED
    told, after = [], 0
    for _ in range(3):
        part = made.summary(after, NOW)
        told.append([each.name for each in part.placements])
        after = part.version
    assert told == [["w0", "w1"], ["w2", "w3"], ["w4"]]
    assert made.summary(after, NOW).placements == []


def test_the_summary_has_what_changed_and_ages_instead_of_times() -> None:
    made = counting()
    made.receive(TOPIC, report(), retained=False, now=NOW)
    first = made.summary(0, NOW + 2)
    (placement,) = first.placements
    (heard,) = placement.pods
    assert (heard.subject, heard.rtt_ms, heard.clients) == ("u1", 20.0, 1)
    assert (heard.least_ms, heard.settled) == (20.0, False)
    assert heard.last_age == pytest.approx(2)
    assert made.summary(first.version, NOW).placements == []


def test_the_sdk_signs_what_the_program_accepts() -> None:
    expires = int(NOW + 600)
    key = report_key(SECRET, "p1", "ann", "g", expires).hex()
    given = ReportKey(client="ann", group="g", key=key, expires=expires, topic=TOPIC)
    payload = sign(given, 12.5, pod="web-1", app="shop")
    assert counting().receive(TOPIC, payload, retained=False, now=NOW) is Verdict.ACCEPTED
    assert key not in repr(given)
