"""`edgewise local engine`: which Kubernetes programs are used, and where they come from."""

import json
from pathlib import Path
from typing import Annotated

import typer

from edgewise.cli.progress import shown_progress
from edgewise.local.engine.finding import Engine, EngineError, find_engine

app = typer.Typer()


@app.command()
def engine(
    engine_dir: Annotated[
        Path | None,
        typer.Option(help="Take programs from this directory first. [env: EDGEWISE_ENGINE_DIR]"),
    ] = None,
    build: Annotated[
        bool, typer.Option("--build", help="Build what is missing, never download.")
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Download what is missing, never build.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the Kubernetes programs, or download or build them once, and say where they are.

    Looked for in this order: --engine-dir, $KUBEBUILDER_ASSETS, PATH (each only if the version
    fits), the cache, the projects' releases where the internet is reachable, and last a build
    from pinned Go modules.
    """
    if build and download:
        raise EngineError("choose --build or --download, not both")
    with shown_progress() as progress:
        found = find_engine(progress, directory=engine_dir, download=not build, build=not download)
    print(as_document(found) if as_json else as_table(found))


def as_document(engine: Engine) -> str:
    programs = [
        {"name": p.name, "version": p.version, "path": str(p.path), "source": p.source}
        for p in engine.programs.values()
    ]
    return json.dumps({"programs": programs, "refused": list(engine.refused)})


def as_table(engine: Engine) -> str:
    rows = [("PROGRAM", "VERSION", "PATH", "FROM")]
    rows += [(p.name, p.version or "-", str(p.path), p.source) for p in engine.programs.values()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    return "\n".join([*lines, *(f"not used: {why}" for why in engine.refused)])
