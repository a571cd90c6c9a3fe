"""Options that many commands have: said once, and handed to each as one value."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Kubeconfig = Annotated[
    Path | None, typer.Option(help="The kubeconfig to use instead of the usual one.")
]
Context = Annotated[str | None, typer.Option(help="The context in it.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="The namespace, if not the context's.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Command = Callable[..., None]


@dataclasses.dataclass(frozen=True)
class InNamespace:
    """Which namespace of which cluster is meant."""

    kubeconfig: Kubeconfig = None
    context: Context = None
    namespace: Namespace = None


def with_options(name: str, options: type[Any]) -> Callable[[Command], Command]:
    """A command has the fields of a dataclass in place of its keyword-only parameter `name`."""
    fields = [field.name for field in dataclasses.fields(options)]

    def spread(command: Command) -> Iterator[inspect.Parameter]:
        for own in parameters_of(command):
            if own.name != name:
                yield own
                continue
            for field in parameters_of(options):
                yield field.replace(kind=inspect.Parameter.KEYWORD_ONLY)

    def decorated(command: Command) -> Command:
        def run(**values: Any) -> None:
            made = options(**{field: values.pop(field) for field in fields})
            command(**values, **{name: made})

        return shown_as(command, run, spread(command))

    return decorated


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """With annotations as typer wants them."""
    hints = get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters.values()
    return [each.replace(annotation=hints[each.name]) for each in found]


def shown_as(command: Command, run: Command, parameters: Iterable[inspect.Parameter]) -> Command:
    """`run`, which typer takes for `command` with these parameters."""
    made: Any = run
    made.__signature__ = signature = inspect.Signature(list(parameters))
    made.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    made.__name__, made.__doc__ = command.__name__, command.__doc__
    return run
