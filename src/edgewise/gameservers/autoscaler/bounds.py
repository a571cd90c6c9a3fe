"""What becomes of a wish: how far it is followed, and why no further."""

from __future__ import annotations

import msgspec

from edgewise.api.durations import seconds_of
from edgewise.api.games import GameAutoscalerSpec
from edgewise.gameservers.autoscaler.observed import Counts, Wished

# More no game can have: a number above it would be refused, and again at the next look.
MOST_REPLICAS = 10_000


class Bounded(msgspec.Struct, frozen=True):
    number: int
    limit: str = ""  # one word for what held it back
    words: str = ""


def bounded(
    spec: GameAutoscalerSpec,
    counts: Counts,
    wish: int | None,
    wishes: tuple[Wished, ...],
    now: float,
) -> Bounded:
    """The number that the game gets. Without a wish it is only raised to what is in use."""
    found = _steady(spec, counts.replicas, wish, wishes, now)
    found = _within(spec, found, wished=wish is not None)
    found = _in_use(spec, counts, found)
    return _step(spec, counts.replicas, found)


def remembered(
    spec: GameAutoscalerSpec, wishes: tuple[Wished, ...], wish: int, now: float
) -> tuple[Wished, ...]:
    """The wishes that a window of stabilization can still see. At most a few hundred: of wishes
    that are alike only the newest and the oldest say anything."""
    longest = max(seconds_of(spec.stabilization.up), seconds_of(spec.stabilization.down))
    kept = [each for each in wishes if now - longest <= each.at <= now]
    if len(kept) > 1 and kept[-1].number == kept[-2].number == wish:
        kept.pop()
    return (*kept[-500:], Wished(now, wish))


def _steady(
    spec: GameAutoscalerSpec,
    current: int,
    wish: int | None,
    wishes: tuple[Wished, ...],
    now: float,
) -> Bounded:
    """Up only to the least, down only to the most that was wished for in the window."""
    if wish is None or wish == current:
        return Bounded(current)
    up = wish > current
    window = spec.stabilization.up if up else spec.stabilization.down
    seconds = seconds_of(window)
    recent = [each.number for each in wishes if now - seconds < each.at <= now] if seconds else []
    held = min([wish, *recent]) if up else max([wish, *recent])
    # Never beyond where it stands: a window holds back, it does not turn round.
    number = max(current, held) if up else min(current, held)
    if number == wish:
        return Bounded(wish)
    name = "up" if up else "down"
    return Bounded(
        number, "Stabilizing", f"{wish} are wished for; stabilization.{name} is {window}"
    )


def _within(spec: GameAutoscalerSpec, found: Bounded, *, wished: bool) -> Bounded:
    if found.number < spec.min:
        return Bounded(spec.min, "Min", f"min is {spec.min}")
    if spec.max is not None and found.number > spec.max and wished:
        return Bounded(spec.max, "Max", f"max is {spec.max}, {found.number} are wished for")
    if found.number > MOST_REPLICAS:
        words = f"{found.number} are wished for, and no game has more than {MOST_REPLICAS}"
        return Bounded(MOST_REPLICAS, "Max", words)
    return found


def _in_use(spec: GameAutoscalerSpec, counts: Counts, found: Bounded) -> Bounded:
    """Callers that wait are served up to `max`; who has a server keeps it, whatever `max` is."""
    most = MOST_REPLICAS if spec.max is None else spec.max
    floor = min(MOST_REPLICAS, max(counts.allocated, min(counts.in_use, most)))
    if found.number >= floor:
        return found
    waiting = f" and {counts.queued} are waited for" if counts.queued else ""
    return Bounded(floor, "InUse", f"{counts.allocated} servers are allocated{waiting}")


def _step(spec: GameAutoscalerSpec, current: int, found: Bounded) -> Bounded:
    step = spec.max_step
    if step is None or abs(found.number - current) <= step:
        return found
    number = current + step if found.number > current else current - step
    return Bounded(number, "MaxStep", f"maxStep is {step}, on the way to {found.number}")
