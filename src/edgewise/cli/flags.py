"""Flags of a command that are known only as values: those of the domains that it serves."""

import inspect
from collections.abc import Collection
from functools import partial
from typing import Annotated, Any

import typer

from edgewise.cli.options import Command, parameters_of, shown_as
from edgewise.domain import Option


def flags_of(function: Command) -> set[str]:
    return {name.replace("_", "-") for name in inspect.signature(function).parameters}


def with_flags(function: partial[None], options: Collection[Option]) -> Command:
    """A function for typer, whose parameters are those of `function` and the options.

    It is called with `flags`, the values of the options by name.
    """
    given = {"flags", *function.keywords}
    own = [each for each in parameters_of(function.func) if each.name not in given]
    names = {option.name.replace("-", "_"): option.name for option in options}
    more = [
        inspect.Parameter(
            option.name.replace("-", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=Annotated[type(option.default), typer.Option(help=option.help)],
        )
        for option in options
    ]

    def run(**values: Any) -> None:
        flags = {name: values.pop(parameter) for parameter, name in names.items()}
        function(**values, flags=flags)

    return shown_as(function.func, run, [*own, *more])
