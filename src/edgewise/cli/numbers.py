"""Numbers that a person may give: `inf` and `nan` are floats too, but nobody can wait for them."""

import typer

MOST = 1e9


def countable(value: float | None) -> float | None:
    """For the `callback` of an option."""
    if value is not None and not -MOST <= value <= MOST:
        raise typer.BadParameter(f"{value:g} is not an amount: give a number of at most {MOST:g}")
    return value
