"""What tenancy adds to the command line."""

from edgewise.cli.entry import Entry
from edgewise.cli.lazy import LazyCommand

TENANCY = Entry(
    domain="tenancy",
    commands={
        "tenant": LazyCommand(
            "edgewise.cli.tenant.commands",
            "Tenants, their namespaces and their quota.",
            also={
                "request": LazyCommand(
                    "edgewise.cli.tenant.request", "Ask for a tenant, or for a role.", single=True
                ),
                "approve": LazyCommand(
                    "edgewise.cli.tenant.approve", "Give what a request asks for.", single=True
                ),
                "doctor": LazyCommand(
                    "edgewise.cli.tenant.doctor.command",
                    "Find out what a cluster lacks to keep tenants apart.",
                    single=True,
                ),
                "deny": LazyCommand("edgewise.cli.tenant.deny", "Refuse a request.", single=True),
            },
        ),
        "slice": LazyCommand("edgewise.cli.tenant.slices", "Nodes for one tenant alone."),
    },
    demo=LazyCommand(
        "edgewise.cli.demo.tenancy.commands",
        "Two tenants that do not trust each other, and what each has.",
        single=True,
    ),
    bench={
        "tenancy": LazyCommand(
            "edgewise.cli.tenant.bench",
            "Tenants, beside the same objects without an operator.",
            single=True,
        )
    },
)
