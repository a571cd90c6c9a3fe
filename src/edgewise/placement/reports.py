"""Reports as they come in: which of them count, and what they come to.

All state is bounded: by the placements, pods and nodes that there are, and by the number of
clients of a placement. Time is passed in. What is refused is counted by its reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from edgewise.placement.report_keys import (
    CLIENT,
    GROUP,
    LIFETIME_SECONDS,
    holds,
    report_key,
    split,
)
from edgewise.placement.votes import Ballot

TOPIC = "edgewise/latency"
LARGEST = 1024
# Reports a second of one client, and how many may come at once.
RATE = 10.0
BURST = 20.0
MOST_CLIENTS = 10_000
# Clients that are counted for one pod or node: the median of so many is that of all of them.
MOST_VOTERS = 2_000
# Of all votes together, and after how many more they are counted again.
MOST_VOTES = 500_000
COUNTED_EVERY = 20_000
# Pods and nodes of which it is remembered when a client last reported them. Of all others its
# reports must be newer than what was forgotten, as those of an honest client are.
MOST_REMEMBERED = 32
# Pods and nodes in one summary; what is left over is in the next one.
MOST_TOLD = 10_000
# Clocks of those who make and check keys may differ by so much.
SKEW = 30.0
# How often clients are forgotten whose keys are over.
FORGOTTEN_EVERY = 60.0
# A client whose reports are all late for so long is not behind, but has another clock.
FORGIVEN_SECONDS = 60.0


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    TOO_LARGE = "too-large"
    UNREADABLE = "unreadable"
    RETAINED = "retained"  # the broker kept it: nobody knows how old it is
    UNKNOWN_PLACEMENT = "unknown-placement"
    WRONG_MAC = "wrong-mac"
    EXPIRED = "expired"
    TOO_FAST = "too-fast"
    REPLAYED = "replayed"
    STALE = "stale"
    BAD_RTT = "bad-rtt"
    UNKNOWN_POD = "unknown-pod"  # or node
    TOO_MANY_CLIENTS = "too-many-clients"
    DROPPED = "dropped"  # more came than could be looked at


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sends: `{app, timestamp, rtt}` as in the paper, and who says it of what."""

    client: str
    expires: int
    timestamp: float  # seconds, by the client's clock
    rtt: float  # milliseconds
    app: str = ""
    pod: str = ""
    node: str = ""
    group: str = ""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What of a placement decides about its reports."""

    uid: str
    observation: float
    half_life: float
    max_rtt_ms: float
    min_clients: int = 1


class PodKnown(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    node: str
    placement: str


class Heard(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was heard of one pod or node, as it is told to the operator: ages, because clocks
    of two machines differ."""

    subject: str  # uid of a pod, or name of a node
    rtt_ms: float
    p95_ms: float
    newest_ms: float = 0.0
    least_ms: float = 0.0
    settled: bool = True
    clients: int
    last_age: float


class PlacementHeard(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    uid: str
    pods: list[Heard] = []
    nodes: list[Heard] = []


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`boot` is another one after each start: then everything is told again."""

    boot: str
    version: int
    placements: list[PlacementHeard] = []


_decoder = msgspec.json.Decoder(Report)


class _Last(msgspec.Struct):
    """The timestamp of a client's last report about something, and the end of its key: after that
    no report from before can be repeated, and a clock that was set back is believed again."""

    timestamp: float = -math.inf
    expires: int = 0


class _Client:
    __slots__ = ("counted_at", "expires", "filled", "floor", "last", "least", "tokens")

    def __init__(self, now: float) -> None:
        self.expires = 0
        self.tokens = BURST
        self.filled = now
        self.least = math.inf  # arrival − timestamp
        self.counted_at = now
        self.last: dict[str, _Last] = {}  # by subject
        self.floor = _Last()  # of subjects that were forgotten

    def takes(self, now: float) -> bool:
        """Whether one more report is within the rate."""
        self.tokens = min(BURST, self.tokens + max(0.0, now - self.filled) * RATE)
        self.filled = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def timely(self, subject: str, report: Report, now: float) -> bool:
        """Whether it is later than the last report about the same pod or node."""
        last = self.last.get(subject, self.floor)
        repeated = report.timestamp <= last.timestamp and now <= last.expires + SKEW
        if repeated or not math.isfinite(report.timestamp):
            return False
        if subject not in self.last and len(self.last) >= MOST_REMEMBERED:
            self._forget_half()
        expires = max(report.expires, last.expires if now <= last.expires + SKEW else 0)
        self.last[subject] = _Last(report.timestamp, expires)
        return True

    def on_time(self, timestamp: float, now: float, slack: float) -> bool:
        """Whether it took no longer than the client's fastest report and `slack`. A client that
        was not counted for a while may have set its clock: it is compared with itself again."""
        if now > self.counted_at + FORGIVEN_SECONDS:
            self.least = math.inf
        late = now - timestamp
        self.least = min(self.least, late)
        if late > self.least + slack:
            return False
        self.counted_at = now
        return True

    def _forget_half(self) -> None:
        oldest = sorted(self.last, key=lambda each: self.last[each].timestamp)
        for subject in oldest[: MOST_REMEMBERED // 2]:
            gone = self.last.pop(subject)
            self.floor.timestamp = max(self.floor.timestamp, gone.timestamp)
            self.floor.expires = max(self.floor.expires, gone.expires)


class _Refused(Exception):
    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.verdict = verdict


class _Placement:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.clients: dict[str, _Client] = {}
        self.pods: dict[str, Ballot] = {}
        self.nodes: dict[str, Ballot] = {}
        self.version = 0
        self._forgotten_at = 0.0

    def client(self, report: Report, now: float) -> _Client | None:
        known = self.clients.get(report.client)
        if known is None:
            if now >= self._forgotten_at + FORGOTTEN_EVERY:
                self._forgotten_at = now
                self._forget(now)
            if len(self.clients) >= MOST_CLIENTS:
                return None
            known = self.clients[report.client] = _Client(now)
        known.expires = max(known.expires, report.expires)
        return known

    def _forget(self, now: float) -> None:
        """Only those whose key is over: of all others a report could be repeated."""
        over = [name for name, each in self.clients.items() if each.expires + SKEW < now]
        for name in over:
            del self.clients[name]

    def forget_subject(self, subject: str) -> None:
        for each in self.clients.values():
            each.last.pop(subject, None)


class Reports:
    """Everything that was reported in one cluster."""

    def __init__(self, secret: bytes, *, boot: str = "") -> None:
        self._secret = secret
        self._boot = boot
        self._placements: dict[tuple[str, str], _Placement] = {}
        self._pods: dict[tuple[str, str], PodKnown] = {}
        self._nodes: set[str] = set()
        self.version = 0
        self.verdicts: Counter[Verdict] = Counter()
        self._votes = 0
        self._counted_at = 0

    # What there is ------------------------------------------------------------------

    def set_placement(self, namespace: str, name: str, rules: Rules | None) -> None:
        """None: it is gone, and what was reported for it too."""
        key = (namespace, name)
        known = self._placements.get(key)
        if rules is None:
            self._placements.pop(key, None)
        elif known is None or known.rules.uid != rules.uid:
            self._placements[key] = _Placement(rules)
        else:
            known.rules = rules

    def set_pod(self, namespace: str, name: str, pod: PodKnown | None) -> None:
        key = (namespace, name)
        known = self._pods.get(key)
        if known is not None and (
            pod is None or (pod.uid, pod.placement) != (known.uid, known.placement)
        ):
            placement = self._placements.get((namespace, known.placement))
            if placement is not None:
                placement.pods.pop(known.uid, None)
                placement.forget_subject(known.uid)
        if pod is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = pod

    def set_node(self, name: str, there: bool) -> None:
        if there:
            self._nodes.add(name)
            return
        self._nodes.discard(name)
        for placement in self._placements.values():
            placement.nodes.pop(name, None)
            placement.forget_subject(name)

    # What is said -------------------------------------------------------------------

    def receive(self, topic: str, payload: bytes, *, retained: bool, now: float) -> Verdict:
        verdict = Verdict.ACCEPTED
        try:
            if retained:
                raise _Refused(Verdict.RETAINED)
            namespace, name, place = self._addressed(topic)
            report = self._proved(place, payload, now)
            self._count(namespace, name, place, report, now)
        except _Refused as refused:
            verdict = refused.verdict
        self.verdicts[verdict] += 1
        return verdict

    def _addressed(self, topic: str) -> tuple[str, str, _Placement]:
        # edgewise/latency/<cluster>/<namespace>/<name>; the broker belongs to one cluster.
        parts = topic.split("/")
        place = self._placements.get((parts[-2], parts[-1])) if len(parts) == 5 else None
        if place is None:
            raise _Refused(Verdict.UNKNOWN_PLACEMENT)
        return parts[-2], parts[-1], place

    def _proved(self, place: _Placement, payload: bytes, now: float) -> Report:
        """The report, if it is one and really is its client's."""
        if len(payload) > LARGEST:
            raise _Refused(Verdict.TOO_LARGE)
        sent = split(payload)
        try:
            report = _decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _Refused(Verdict.UNREADABLE) from None
        named = CLIENT.fullmatch(report.client) and GROUP.fullmatch(report.group)
        if sent is None or not named or bool(report.pod) == bool(report.node):
            raise _Refused(Verdict.UNREADABLE)
        if not now <= report.expires <= now + LIFETIME_SECONDS + SKEW:
            raise _Refused(Verdict.EXPIRED)
        uid, secret = place.rules.uid, self._secret
        key = report_key(secret, uid, report.client, report.group, report.expires)
        if not holds(*sent, key):
            raise _Refused(Verdict.WRONG_MAC)
        return report

    def _count(
        self, namespace: str, name: str, place: _Placement, report: Report, now: float
    ) -> None:
        client, rules = place.client(report, now), place.rules
        if client is None:
            raise _Refused(Verdict.TOO_MANY_CLIENTS)
        if not client.takes(now):
            raise _Refused(Verdict.TOO_FAST)
        if not (math.isfinite(report.rtt) and 0 < report.rtt <= rules.max_rtt_ms):
            raise _Refused(Verdict.BAD_RTT)
        ballot, subject = self._ballot(namespace, name, place, report)
        if not client.timely(subject, report, now):
            raise _Refused(Verdict.REPLAYED)
        if not client.on_time(report.timestamp, now, 2 * rules.observation):
            raise _Refused(Verdict.STALE)
        if not ballot.knows(report.client) and (len(ballot) >= MOST_VOTERS or self._full()):
            raise _Refused(Verdict.TOO_MANY_CLIENTS)
        ballot.cast(report.client, report.rtt, at=now, period=rules.observation)
        self.version += 1
        place.version = self.version

    def _full(self) -> bool:
        """Whether there are as many votes as may be, by the last count."""
        if self.version >= self._counted_at + COUNTED_EVERY:
            self._counted_at = self.version
            self._votes = sum(
                ballot.size()
                for place in self._placements.values()
                for ballot in (*place.pods.values(), *place.nodes.values())
            )
        return self._votes >= MOST_VOTES

    def _ballot(
        self, namespace: str, name: str, place: _Placement, report: Report
    ) -> tuple[Ballot, str]:
        if report.node:
            if report.node not in self._nodes:
                raise _Refused(Verdict.UNKNOWN_POD)
            return place.nodes.setdefault(report.node, Ballot()), report.node
        pod = self._pods.get((namespace, report.pod))
        if pod is None or pod.placement != name:
            raise _Refused(Verdict.UNKNOWN_POD)
        return place.pods.setdefault(pod.uid, Ballot()), pod.uid

    # What it comes to ---------------------------------------------------------------

    def summary(self, after: int, now: float) -> Summary:
        """What is known of the placements that were reported on since version `after`, oldest
        news first. Where that is too much for one answer, its version is that of the last one."""
        news = sorted(
            (place.version, key, place)
            for key, place in self._placements.items()
            if place.version > after
        )
        found: list[PlacementHeard] = []
        told = 0
        for version, (namespace, name), place in news:
            pods = list(_heard(place.pods, place.rules, now))
            nodes = list(_heard(place.nodes, place.rules, now))
            uid = place.rules.uid
            found.append(
                PlacementHeard(namespace=namespace, name=name, uid=uid, pods=pods, nodes=nodes)
            )
            told += len(pods) + len(nodes)
            if told >= MOST_TOLD:
                return Summary(boot=self._boot, version=version, placements=found)
        return Summary(boot=self._boot, version=self.version, placements=found)

    def clients(self) -> int:
        return sum(len(place.clients) for place in self._placements.values())


def _heard(ballots: dict[str, Ballot], rules: Rules, now: float) -> Iterable[Heard]:
    for subject, ballot in ballots.items():
        tally = ballot.tally(now, half_life=rules.half_life, min_clients=rules.min_clients)
        if tally is not None:
            yield Heard(
                subject=subject,
                rtt_ms=tally.rtt_ms,
                p95_ms=tally.p95_ms,
                newest_ms=tally.newest_ms,
                least_ms=tally.least_ms,
                settled=tally.settled,
                clients=tally.clients,
                last_age=now - tally.last,
            )
