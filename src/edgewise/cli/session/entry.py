"""What sessions add to the command line."""

from edgewise.cli.entry import Entry
from edgewise.cli.lazy import LazyCommand

SESSIONS = Entry(
    domain="sessions",
    commands={
        "session": LazyCommand(
            "edgewise.cli.session.commands", "Work with sessions and their clients."
        )
    },
    demo=LazyCommand(
        "edgewise.cli.demo.commands",
        "A session over two clusters, and what it lives through.",
        single=True,
    ),
    bench={
        "join": LazyCommand(
            "edgewise.cli.bench.join", "Joins, beside what a bare pod takes.", single=True
        ),
        "server": LazyCommand(
            "edgewise.cli.bench.server", "What going through the server costs.", single=True
        ),
        "trace": LazyCommand("edgewise.cli.bench.trace", "Loads: who comes and goes, and when."),
        "run": LazyCommand(
            "edgewise.cli.bench.run", "One load for several designs, side by side.", single=True
        ),
        "soak": LazyCommand(
            "edgewise.cli.bench.soak", "People and trouble for a while, then a check.", single=True
        ),
        "report": LazyCommand(
            "edgewise.cli.bench.report", "A page with pictures of all stored results.", single=True
        ),
    },
)
