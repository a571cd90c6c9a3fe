"""`edgewise session`: sessions and their clients, as a person at a shell works with them."""

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def session() -> None:
    """Work with sessions and their clients."""
