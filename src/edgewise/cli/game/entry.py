"""What game servers add to the command line."""

from edgewise.cli.entry import Entry
from edgewise.cli.lazy import LazyCommand

GAMES = Entry(
    domain="games",
    commands={"game": LazyCommand("edgewise.cli.game.commands", "Work with games and servers.")},
    demo=LazyCommand(
        "edgewise.cli.demo.games.commands",
        "A match, a new version in the middle of it, a drained server.",
        single=True,
    ),
    bench={
        "allocate": LazyCommand(
            "edgewise.cli.bench.game_allocations",
            "Servers given to matches, beside patches of the same servers.",
            single=True,
        ),
        "fleet": LazyCommand(
            "edgewise.cli.bench.fleet", "Fleets of game servers, beside bare pods.", single=True
        ),
    },
)
