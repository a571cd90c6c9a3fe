"""The rules: a board with coins, and players who walk on it. Pure but for its dice."""

from dataclasses import dataclass, field
from random import Random

SIZE = 12
COINS = 6
STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}

Place = tuple[int, int]


@dataclass
class World:
    dice: Random = field(default_factory=Random)
    coins: set[Place] = field(default_factory=set)
    players: dict[str, Place] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scatter()

    def scatter(self) -> None:
        while len(self.coins) < COINS:
            self.coins.add((self.dice.randrange(SIZE), self.dice.randrange(SIZE)))

    def join(self, name: str) -> None:
        self.players.setdefault(name, (self.dice.randrange(SIZE), self.dice.randrange(SIZE)))
        self.scores.setdefault(name, 0)

    def leave(self, name: str) -> None:
        self.players.pop(name, None)
        self.scores.pop(name, None)

    def move(self, name: str, way: str) -> None:
        if name not in self.players or way not in STEPS:
            return
        (x, y), (right, down) = self.players[name], STEPS[way]
        place = (min(SIZE - 1, max(0, x + right)), min(SIZE - 1, max(0, y + down)))
        self.players[name] = place
        if place in self.coins:
            self.coins.remove(place)
            self.scores[name] += 1
            self.scatter()


def way_to(here: Place, coins: list[Place]) -> str:
    """The next step of a player who wants the nearest coin."""
    if not coins:
        return "up"
    x, y = here
    goal = min(coins, key=lambda coin: (abs(coin[0] - x) + abs(coin[1] - y), coin))
    if goal[0] != x:
        return "right" if goal[0] > x else "left"
    return "down" if goal[1] > y else "up"
