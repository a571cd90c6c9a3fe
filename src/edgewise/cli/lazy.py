"""Commands that are imported only when they are asked for.

`edgewise --help` and shell completion have to answer at once, so a group knows
the name and one line of help of each command, and nothing else, until one of
them is really run.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


@dataclass(frozen=True)
class LazyCommand:
    """Where a command lives: a module with a typer `app`."""

    module: str
    help: str
    # The app is one command rather than a group of them. With others in `also` it is what runs
    # when none of them is named.
    single: bool = False
    also: Mapping[str, "LazyCommand"] = field(default_factory=dict)  # mounted into the group

    def exists(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


def placeholder(name: str, entry: LazyCommand) -> TyperCommand:
    return TyperCommand(name, help=entry.help, rich_markup_mode=None)


class LazyGroup(TyperGroup):
    """A group whose commands are placeholders until one is resolved."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.entries: dict[str, LazyCommand] = {}

    def hold(self, entries: Mapping[str, LazyCommand]) -> None:
        self.entries = {
            name: entry
            for name, entry in entries.items()
            if entry.exists() or any(inner.exists() for inner in entry.also.values())
        }
        for name, entry in self.entries.items():
            self.add_command(placeholder(name, entry), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        entry = self.entries.pop(name, None)
        if entry is not None:
            self.add_command(load(name, entry), name)
        return super().resolve_command(ctx, args)


class AloneOrNamed(LazyGroup):
    """One command as long as none of the others is named: `demo`, and `demo sessions`."""

    def __init__(self, alone: Any, others: Mapping[str, LazyCommand]) -> None:
        super().__init__(
            help=alone.help,
            params=alone.params,
            callback=alone.callback,
            invoke_without_command=True,
            subcommand_metavar="[COMMAND] [ARGS]...",
            rich_markup_mode=None,
        )
        self.hold(others)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found = super().resolve_command(ctx, args)
        for option in self.params:
            if ctx.get_parameter_source(option.name).name == "COMMANDLINE":
                ctx.fail(f"write {option.opts[0]} behind {args[0]!r}, not in front of it")
        self.callback = None  # the named one runs instead
        return found


def load(name: str, entry: LazyCommand) -> Any:
    app = typer.Typer(help=entry.help)
    if entry.exists():
        app = importlib.import_module(entry.module).app
    # Plain help: drawing it with rich costs half a second of imports.
    app.rich_markup_mode = None
    # Completion is installed for the program, not once more for each command.
    app._add_completion = False
    if entry.single:
        command: Any = get_command(app)
        if entry.also:
            command = AloneOrNamed(command, entry.also)
    else:
        if entry.also:
            app.info.cls = LazyGroup
        app.info.no_args_is_help = True
        command = get_group(app)
        if isinstance(command, LazyGroup):
            command.hold(entry.also)
        command.help = command.help or entry.help
    command.name = name
    return command
