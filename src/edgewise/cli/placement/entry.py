"""What placement adds to the command line."""

from edgewise.cli.entry import Entry
from edgewise.cli.lazy import LazyCommand

PLACEMENT = Entry(
    domain="placement",
    commands={
        "placement": LazyCommand(
            "edgewise.cli.placement.commands", "See where services run, and why there."
        )
    },
    demo=LazyCommand(
        "edgewise.cli.demo.placement",
        "A web service that follows its user from place to place.",
        single=True,
    ),
    bench={
        "placement": LazyCommand(
            "edgewise.cli.bench.placement",
            "Searches for the nearest node, beside bare pods and a paper.",
            single=True,
        )
    },
)
