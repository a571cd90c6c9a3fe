"""How long somebody who was let in may stay."""

from __future__ import annotations

from edgewise.server.http.welcome import RECHECK_SECONDS, Welcome


class Guest:
    def __init__(self, expires: float | None = None) -> None:
        self.now = 1000.0
        self.version = 1
        self.known = True
        self.asked = 0
        self.welcome = Welcome(
            self._still_known,
            version=lambda: self.version,
            expires=expires,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )

    async def _still_known(self) -> bool:
        self.asked += 1
        return self.known


async def test_it_is_not_worked_out_at_every_turn() -> None:
    guest = Guest()
    for _ in range(1000):
        assert await guest.welcome.holds()
    assert guest.asked == 0


async def test_it_ends_with_the_token_that_was_taken_back() -> None:
    guest = Guest()
    guest.known = False
    guest.version += 1
    assert not await guest.welcome.holds()


async def test_what_changes_for_others_is_looked_at_once() -> None:
    guest = Guest()
    guest.version += 1
    assert await guest.welcome.holds()
    assert await guest.welcome.holds()
    assert guest.asked == 1


async def test_what_nobody_tells_us_of_is_noticed_after_a_while() -> None:
    guest = Guest()
    guest.known = False
    guest.now += RECHECK_SECONDS - 1
    assert await guest.welcome.holds()
    guest.now += 1
    assert not await guest.welcome.holds()


async def test_it_ends_when_the_token_does() -> None:
    guest = Guest(expires=1010.0)
    guest.now += 9
    assert guest.welcome.left == 1
    assert await guest.welcome.holds()
    guest.now += 1
    assert not await guest.welcome.holds()
