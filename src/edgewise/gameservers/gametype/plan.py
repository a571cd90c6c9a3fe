"""What a game needs next: which fleet is the newest, where allocations go, what ends.

Three roles: the *newest* fleet is the one of the version that the game says, and the only one that
grows. The *current* fleet is where new allocations go: an older one, until enough of the newest is
ready. All others are *outgoing*. Nothing here remembers what was done before: a crash between
any two writes leads to the same next step.
"""

from __future__ import annotations

import math

import msgspec

from edgewise.api.durations import seconds_of
from edgewise.api.games import RolloutPhase, StrategyType
from edgewise.gameservers.gametype.observed import FleetSeen, GameSeen
from edgewise.gameservers.outgoing import Outgoing
from edgewise.runtime.conditions import ConditionSet, Finding
from edgewise.workloads.deadlines import moment

AVAILABLE, PROGRESSING, DELETING = "Available", "Progressing", "Deleting"
GAME_CONDITIONS = ConditionSet(needs=(AVAILABLE, PROGRESSING), tells=(DELETING,))

_ATTEMPTS = range(1, 10)
_LONGEST_SHARE = 9  # digits
# Further than here no fleet goes back, unless it is the newest again.
_ORDER = tuple(Outgoing)
_DONE = (RolloutPhase.STEADY, RolloutPhase.DRAINING)


class CreateFleet(msgspec.Struct, frozen=True):
    name: str
    replicas: int


class ChangeFleet(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet becomes; None leaves a thing as it is."""

    name: str
    replicas: int | None = None
    outgoing: Outgoing | None = None
    spec: bool = False  # make all but the number what the game says


class GamePlan(msgspec.Struct, frozen=True, kw_only=True):
    create: CreateFleet | None = None
    change: tuple[ChangeFleet, ...] = ()
    delete: tuple[str, ...] = ()
    end: tuple[str, ...] = ()  # fleets whose servers are ended without being asked
    current: str = ""
    newest: str = ""
    since: float | None = None  # of the roll-out
    phase: RolloutPhase = RolloutPhase.STEADY
    findings: tuple[Finding, ...] = ()
    deadline: float | None = None
    # What a person should hear once: reason and sentence.
    tell: tuple[str, str] | None = None


def plan_game(seen: GameSeen, now: float) -> GamePlan:
    return _Rollout(seen, now).plan()


def plan_removal(seen: GameSeen) -> GamePlan:
    """A game that is deleted goes when its fleets have gone, which go when their servers have."""
    left = sum(fleet.servers for fleet in seen.fleets)
    words = f"{_count(left, 'server')} in {_count(len(seen.fleets), 'fleet')} must end first"
    return GamePlan(
        delete=tuple(fleet.name for fleet in seen.fleets if not fleet.deleting),
        current=seen.game.status.current_fleet_name,
        phase=RolloutPhase.DRAINING,
        findings=(Finding(DELETING, True, "WaitsForServers", words),) if seen.fleets else (),
    )


class _Rollout:
    """The plan while it is made."""

    def __init__(self, seen: GameSeen, now: float) -> None:
        self._seen, self._now = seen, now
        self._game = seen.game
        self._rollout = seen.game.spec.rollout
        self._wanted = seen.game.spec.fleet_spec.scaling.replicas
        self._alive = tuple(fleet for fleet in seen.fleets if not fleet.deleting)
        self._newest = self._find_newest()
        self._before = self._find_current()
        self._paused = self._rollout.paused and self._unfinished()
        status = seen.game.status
        # A fleet that was ready once and then grows, or loses a server, is no roll-out.
        self._done = status.version == seen.version and status.phase in _DONE
        self._changes: list[ChangeFleet] = []
        self._deadlines: list[float] = []

    def plan(self) -> GamePlan:
        create = self._missing()
        current = self._serving()
        since = self._since(create)
        stopped = self._is_stopped(current, since)
        old = tuple(fleet for fleet in self._alive if fleet not in (self._newest, current))
        self._number(current, stopped=stopped)
        ended = () if self._paused else self._let_go(old, current)
        newest = create.name if create else self._newest.name if self._newest else ""
        phase = self._phase(create, current, old, stopped=stopped)
        return GamePlan(
            create=create,
            change=tuple(self._changes),
            delete=tuple(fleet.name for fleet in old if self._is_empty(fleet)),
            end=ended,
            current=current.name if current else newest,
            newest=newest,
            since=since,
            phase=phase,
            findings=(self._available(current), self._progress(phase)),
            deadline=min(self._deadlines, default=None),
            tell=self._tell(phase, newest),
        )

    # Roles --------------------------------------------------------------------------

    def _find_newest(self) -> FleetSeen | None:
        """Of the version that the game says: the one not on its way out, else the oldest."""
        fitting = [fleet for fleet in self._alive if fleet.version == self._seen.version]
        return min(fitting, key=lambda f: (bool(f.outgoing), f.created, f.name), default=None)

    def _find_current(self) -> FleetSeen | None:
        """As the status says; if that is lost, where most servers can be had."""
        named = self._game.status.current_fleet_name
        for fleet in self._alive:
            if fleet.name == named:
                return fleet
        staying = [fleet for fleet in self._alive if not fleet.outgoing]
        return max(staying, key=lambda f: (f.ready + f.busy, -f.created), default=self._newest)

    def _serving(self) -> FleetSeen | None:
        """Where new allocations go from now on."""
        if self._before is None or self._newest is None or self._paused:
            return self._before
        if self._before is self._newest or self._recreates or self._has_enough(self._newest):
            return self._newest
        return self._before

    def _unfinished(self) -> bool:
        """Whether there is a roll-out that could be paused."""
        if not self._alive:
            return False
        return self._newest is None or len(self._alive) > 1

    @property
    def _recreates(self) -> bool:
        return self._game.spec.fleet_spec.strategy.type == StrategyType.RECREATE

    def _has_enough(self, fleet: FleetSeen) -> bool:
        goal = self._goal()
        share = math.ceil(goal * self._rollout.ready_percent / 100)
        # Those that players have already were ready once.
        return fleet.settled and fleet.ready + fleet.busy >= share

    # Numbers ------------------------------------------------------------------------

    def _missing(self) -> CreateFleet | None:
        if self._newest is not None or self._paused:
            return None
        free = self._free_name()
        return CreateFleet(free, self._goal()) if free else None

    def _free_name(self) -> str | None:
        return next((name for name in self._names() if name not in self._seen.taken), None)

    def _names(self) -> list[str]:
        return fleet_names(self._game.metadata.name, self._seen.version)

    def _others(self) -> list[FleetSeen]:
        return [fleet for fleet in self._alive if fleet is not self._newest]

    def _goal(self) -> int:
        """How many servers the newest fleet may have now.

        Servers of old versions that are in use count towards the number of the game, and so do
        idle ones while they are there; what may come on top of it is the surge. Were those in
        use to use the surge up as well, a game whose servers are all in use could never move on.
        """
        others = self._others()
        if not others:
            return self._wanted
        if self._recreates:
            return max(0, self._wanted - sum(fleet.servers for fleet in others))
        surge = self._surge()
        room = self._wanted - sum(fleet.busy + fleet.idle for fleet in others)
        return min(self._wanted, max(0, room) + surge)

    def _surge(self) -> int:
        strategy = self._game.spec.fleet_spec.strategy
        # Without any there would be nothing that allocations could move to.
        return share_of(strategy.max_surge, self._wanted, up=True) or 1

    def _unavailable(self) -> int:
        strategy = self._game.spec.fleet_spec.strategy
        return share_of(strategy.max_unavailable, self._wanted, up=False)

    def _number(self, current: FleetSeen | None, *, stopped: bool) -> None:
        newest = self._newest
        if newest is not None:
            # Never taken back in the middle: what it was given, its servers are being made for.
            goal = max(self._goal(), min(newest.wanted, self._wanted))
            if self._paused or stopped:
                goal = newest.wanted if newest is not current else self._wanted
            self._become(newest, goal)
        if current is not None and current is not newest:
            # It stays as it is; only who cannot have the newest needs it to grow.
            grows = stopped or self._paused
            self._become(current, self._wanted if grows else min(current.wanted, self._wanted))

    def _become(self, fleet: FleetSeen, replicas: int) -> None:
        back = fleet.outgoing is not Outgoing.NO
        # What an older fleet is, its version says; the newest is what the game says.
        differs = fleet is self._newest and not fleet.alike
        if fleet.wanted == replicas and not back and not differs:
            return
        self._changes.append(
            ChangeFleet(
                name=fleet.name,
                replicas=replicas if fleet.wanted != replicas else None,
                outgoing=Outgoing.NO if back else None,
                spec=differs,
            )
        )

    # Old fleets ---------------------------------------------------------------------

    def _let_go(self, old: tuple[FleetSeen, ...], current: FleetSeen | None) -> tuple[str, ...]:
        kept = self._idle_to_keep(current)
        ended = []
        for fleet in sorted(old, key=lambda each: (-each.created, each.name)):
            idle = min(kept, fleet.idle)
            kept -= idle
            how = self._how(fleet, idle)
            if how is Outgoing.NOW and fleet.servers:
                ended.append(fleet.name)
            replicas = 0 if how in (Outgoing.ALL, Outgoing.NOW) else fleet.busy + idle
            # It never grows: whoever it loses, the newest makes up for.
            self._lower(fleet, min(replicas, fleet.wanted), how)
        return tuple(ended)

    def _lower(self, fleet: FleetSeen, replicas: int, how: Outgoing) -> None:
        how = max(how, fleet.outgoing, key=_ORDER.index)
        if fleet.wanted == replicas and fleet.outgoing is how:
            return
        self._changes.append(
            ChangeFleet(
                name=fleet.name,
                replicas=replicas if fleet.wanted != replicas else None,
                outgoing=how if fleet.outgoing is not how else None,
            )
        )

    def _idle_to_keep(self, current: FleetSeen | None) -> int:
        """How many idle servers of old versions are needed until the newest has enough."""
        if self._newest is None or self._recreates:
            return 0
        busy = sum(fleet.busy for fleet in self._alive)
        needed = self._wanted - busy - self._unavailable()
        if current is not None and current is not self._newest:
            needed -= current.idle
        return max(0, needed - self._newest.ready)

    def _how(self, fleet: FleetSeen, idle: int) -> Outgoing:
        since = fleet.since if fleet.since is not None else self._now
        hard, soft = self._rollout.hard_deadline, self._rollout.soft_deadline
        if hard is not None and self._passed(since + seconds_of(hard)):
            return Outgoing.NOW
        if soft is not None and not self._passed(since + seconds_of(soft)):
            return Outgoing.IDLE
        return Outgoing.IDLE if idle else Outgoing.ALL

    def _passed(self, deadline: float) -> bool:
        if deadline > self._now:
            self._deadlines.append(deadline)
        return deadline <= self._now

    def _is_empty(self, fleet: FleetSeen) -> bool:
        told = fleet.outgoing in (Outgoing.ALL, Outgoing.NOW) and fleet.wanted == 0
        return told and fleet.settled and fleet.servers == 0

    # What is said of it -------------------------------------------------------------

    def _since(self, create: CreateFleet | None) -> float | None:
        """When the roll-out of this version began; another version begins anew."""
        if self._newest is None and create is None:
            return None
        status = self._game.status
        known = moment(status.progress_since)
        if status.version == self._seen.version and known is not None:
            return min(known, self._now)
        return self._now

    def _is_stopped(self, current: FleetSeen | None, since: float | None) -> bool:
        if self._paused or since is None or self._newest is None:
            return False
        if current is self._newest and (
            self._done or len(self._alive) > 1 or self._has_enough(self._newest)
        ):
            return False
        return self._passed(since + seconds_of(self._rollout.progress_deadline))

    def _phase(
        self,
        create: CreateFleet | None,
        current: FleetSeen | None,
        old: tuple[FleetSeen, ...],
        *,
        stopped: bool,
    ) -> RolloutPhase:
        if self._paused:
            return RolloutPhase.PAUSED
        if stopped:
            return RolloutPhase.STOPPED
        if create or current is not self._newest or self._newest is None:
            return RolloutPhase.PROGRESSING
        if old:
            return RolloutPhase.DRAINING
        ready = self._done or self._has_enough(self._newest)
        return RolloutPhase.STEADY if ready else RolloutPhase.PROGRESSING

    def _available(self, current: FleetSeen | None) -> Finding:
        there = sum(fleet.ready + fleet.busy for fleet in self._alive if not fleet.outgoing)
        if self._wanted == 0:
            return Finding(AVAILABLE, True, "NoneWanted", "no server is wanted")
        if current is None:
            return Finding(AVAILABLE, False, "Starting", "its first fleet is being made")
        if there == 0:
            words = f"no server of {current.name} is ready"
            return Finding(AVAILABLE, False, "NoServer", _with(words, current.trouble))
        return Finding(AVAILABLE, True, "Available", "")

    def _progress(self, phase: RolloutPhase) -> Finding:
        newest = self._newest
        match phase:
            case RolloutPhase.PAUSED:
                words = "rollout.paused is set: the new version waits"
                return Finding(PROGRESSING, None, "Paused", words)
            case RolloutPhase.STOPPED if newest is not None:
                return Finding(
                    PROGRESSING, False, "ProgressDeadlineExceeded", self._why_stopped(newest)
                )
            case RolloutPhase.PROGRESSING if newest is not None:
                ready = newest.ready + newest.busy
                words = f"{ready} of {_count(self._goal(), 'server')} of {newest.name} are ready"
                return Finding(PROGRESSING, True, "Progressing", _with(words, newest.trouble))
            case RolloutPhase.PROGRESSING:
                return self._being_made()
            case RolloutPhase.DRAINING:
                left = sum(fleet.servers for fleet in self._others())
                words = f"{_count(left, 'server')} of older versions must end"
                return Finding(PROGRESSING, True, "Draining", words)
            case _:
                return Finding(PROGRESSING, True, "Complete", "")

    def _being_made(self) -> Finding:
        if self._free_name() is not None:
            return Finding(PROGRESSING, True, "Progressing", "its fleet is being made")
        first, *_, last = self._names()
        words = f"all names for its fleet are taken, {first} to {last}: delete one of them"
        return Finding(PROGRESSING, False, "NamesTaken", words)

    def _why_stopped(self, newest: FleetSeen) -> str:
        ready = newest.ready + newest.busy
        words = (
            f"{newest.name} has {ready} of {_count(newest.wanted, 'ready server')} after "
            f"{self._rollout.progress_deadline}; allocations stay where they are"
        )
        return _with(words, newest.trouble)

    def _tell(self, phase: RolloutPhase, newest: str) -> tuple[str, str] | None:
        before = self._game.status.phase
        if phase == before or not before:
            return None
        if phase is RolloutPhase.STOPPED and self._newest is not None:
            return ("RolloutStopped", self._why_stopped(self._newest))
        if phase is RolloutPhase.STEADY:
            return ("RolloutComplete", f"all servers are of {newest}")
        return None


def share_of(given: int | str, whole: int, *, up: bool) -> int:
    """A number, or so many percent of the whole. What cannot be read counts as nothing."""
    if isinstance(given, int):
        return max(0, given)
    text = given.strip().removesuffix("%")
    if not text.isascii() or not text.isdecimal() or len(text) > _LONGEST_SHARE:
        return 0
    if not given.strip().endswith("%"):
        return int(text)
    part = whole * int(text) / 100
    return math.ceil(part) if up else math.floor(part)


def fleet_names(game: str, version: str) -> list[str]:
    """What the fleet of a version can be called, the usual name first.

    A fleet that is being deleted keeps its name until its servers are gone: the next one of the
    same version has a number behind it.
    """
    return [f"{game}-{version}" + ("" if n == 1 else str(n)) for n in _ATTEMPTS]


def _with(words: str, trouble: str) -> str:
    return f"{words}: {trouble}" if trouble else words


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
