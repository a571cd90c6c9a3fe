"""Flags of a command that are known only as values: those of the domains that it serves."""

import inspect
from collections.abc import Callable, Collection
from functools import partial
from typing import Annotated, Any, get_type_hints

import typer

from edgewise.domain import Option


def flags_of(function: Callable[..., None]) -> set[str]:
    return {name.replace("_", "-") for name in inspect.signature(function).parameters}


def with_flags(function: partial[None], options: Collection[Option]) -> Callable[..., None]:
    """A function for typer, whose parameters are those of `function` and the options.

    It is called with `flags`, the values of the options by name.
    """
    given = {"flags", *function.keywords}
    hints = get_type_hints(function.func, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(function.func).parameters.items()
        if name not in given
    ]
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

    made: Any = run
    made.__signature__ = inspect.Signature([*own, *more])
    made.__annotations__ = {each.name: each.annotation for each in (*own, *more)}
    made.__doc__ = function.func.__doc__
    return run
