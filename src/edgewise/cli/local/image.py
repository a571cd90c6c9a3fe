"""`edgewise local image`: build images from Debian packages and wheels, and put them on nodes."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from edgewise.cli.progress import Progress, shown_progress
from edgewise.local.engine.finding import find_engine
from edgewise.local.images import building as images
from edgewise.local.images.building import App, Image, ImageError
from edgewise.local.images.oci import Settings

app = typer.Typer(help="Build, load and list images without a registry.")

OWN = ("python", "pause", "edgewise")


@app.command()
def build(
    name: Annotated[
        str,
        typer.Argument(
            help="What to build: python, pause, edgewise, or the full name of an image of your "
            "own, such as edgewise.local/hello:1"
        ),
    ],
    add: Annotated[
        list[str] | None, typer.Option(help="Put a file or folder into it, as HERE:THERE.")
    ] = None,
    requirements: Annotated[
        Path | None, typer.Option("--requirements", "-r", help="Install these Python packages.")
    ] = None,
    package: Annotated[list[str] | None, typer.Option(help="Add a Debian package.")] = None,
    command: Annotated[
        str | None, typer.Option(help='What it starts, such as "python3 /app/main.py".')
    ] = None,
    env: Annotated[list[str] | None, typer.Option(help="Set NAME=VALUE.")] = None,
    user: Annotated[
        str | None, typer.Option(help="Run as this user id, or USER:GROUP, as numbers.")
    ] = None,
    workdir: Annotated[str, typer.Option(help="The folder it starts in.")] = "/",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the archive to this file.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Take newer Debian packages even if it is built.")
    ] = False,
    put: Annotated[bool, typer.Option("--load", help="Load it into all running clusters.")] = False,
) -> None:
    """Build an image on top of a small Debian with Python. It is kept in the cache."""
    settings = Settings(
        command=split_command(command),
        environment=dict(split_env(text) for text in env or ()),
        user=check_user(user),
        folder=check_folder(workdir),
    )
    if output and not output.parent.is_dir():
        raise ImageError(f"there is no folder {output.parent} for --output: make it first")
    with shown_progress() as progress:
        if name in OWN:
            if add or requirements or package or settings != Settings():
                raise ImageError(f"{name} is made by edgewise itself: give yours a full name")
            made = build_own(name, again, progress)
        else:
            made = images.build_app(
                App(
                    name=name,
                    add=[split_add(text) for text in add or ()],
                    requirements=requirements,
                    debian=package or (),
                    settings=settings,
                ),
                progress,
            )
        if output:
            shutil.copyfile(made.archive, output)
        if put:
            load_into(made.archive, [], "", progress)
    print(f"{made.name}  {made.digest}  {made.size / 1e6:.0f} MB  {made.archive}")


def build_own(name: str, again: bool, progress: Progress) -> Image:
    if name == "python" or again:
        made = images.python_image(progress, again=again)
    if name == "pause":
        made = images.pause_image(find_engine(progress, programs=["init"]).path("init"), progress)
    if name == "edgewise":
        made = images.edgewise_image(progress)
    return made


def split_add(text: str) -> tuple[Path, str]:
    here, colon, there = text.rpartition(":")
    if not colon or not here or not there.startswith("/"):
        raise ImageError(f"--add {text} should be HERE:THERE, such as ./app:/app")
    return Path(here), there


def split_env(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ImageError(f"--env {text} should be NAME=VALUE")
    return name, value


def split_command(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ImageError(
            f"--command {text} is not a command ({error}): end what is quoted in it"
        ) from error
    if not words or not words[0]:
        raise ImageError("--command is empty: name a program, or leave the option out")
    return tuple(words)


def check_user(text: str | None) -> str:
    # A name would be looked up in the image, which has hardly any.
    if text is not None and not re.fullmatch(r"\d{1,10}(:\d{1,10})?", text, re.ASCII):
        raise ImageError(f"--user {text!r} should be a number, or two as USER:GROUP")
    return text or ""


def check_folder(text: str) -> str:
    if not text.startswith("/"):
        raise ImageError(f"--workdir {text!r} should be an absolute path, such as /app")
    return text


@app.command()
def load(
    archive: Annotated[
        str, typer.Argument(help="An OCI or docker archive, or the name of an image built here.")
    ],
    cluster: Annotated[
        list[str] | None, typer.Option(help="Into this cluster. [default: all that run]")
    ] = None,
    name: Annotated[str, typer.Option(help="Call it this instead of what the archive says.")] = "",
) -> None:
    """Put an image on the nodes of running clusters."""
    built = {image.name: image.archive for image in images.images()}
    with shown_progress() as progress:
        names = load_into(built.get(archive, Path(archive)), cluster or [], name, progress)
    for each in names:
        print(each)


def load_into(archive: Path, clusters: list[str], name: str, progress: Progress) -> tuple[str, ...]:
    from edgewise.local import clusters as local  # noqa: PLC0415 - building needs no client
    from edgewise.local.images.load import load as load_archive  # noqa: PLC0415
    from edgewise.local.images.load import nodes_of  # noqa: PLC0415

    chosen = [local.get(each) for each in clusters] if clusters else local.list_clusters()
    return load_archive(archive, nodes_of(chosen), name=name, progress=progress)


@app.command("list")
def show(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The images that were built here."""
    found = images.images()
    if as_json:
        rows = [
            {"name": i.name, "digest": i.digest, "size": i.size, "archive": str(i.archive)}
            for i in found
        ]
        print(json.dumps(rows))
        return
    width = max([len(image.name) for image in found], default=0)
    for image in found:
        print(f"{image.name:{width}}  {image.digest[:19]}  {image.size / 1e6:6.1f} MB")
