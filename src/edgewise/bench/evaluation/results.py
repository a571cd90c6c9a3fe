"""The folder that results are stored in: of every bench, with the machine and the commit.

results/
  machine.json                     none of it is a figure of a bench
  run-a-1/                         one folder for each run of `bench run`
    about.json  trace.jsonl  edgewise.jsonl  bare.jsonl …
  join/2026-11-17T22-10-03.json    what another bench printed
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from edgewise import __version__
from edgewise.bench.evaluation.records import Kind, Record
from edgewise.errors import ReadableError
from edgewise.kube.errors import UNREADABLE_JSON

FORMAT = 1
ABOUT = "about.json"
TRACE = "trace.jsonl"
# Of a run that found no room on the disk when it began.
UNFINISHED = {TRACE, "about.part"}


class ResultsError(ReadableError):
    """A folder of results cannot be used, with what to do."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cores: int
    memory_gb: float
    system: str
    processor: str = ""

    @classmethod
    def this(cls) -> Machine:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return cls(
            cores=os.cpu_count() or 0,
            memory_gb=round(pages * size / 1e9, 1),
            system=f"{platform.system()} {platform.release()}",
            processor=_processor(),
        )


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured, where, and by which command."""

    format: int
    bench: str
    version: str
    commit: str
    machine: Machine
    command: str
    began: str
    options: dict[str, Any] = {}


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What a bench other than `run` printed."""

    about: About
    figures: dict[str, Any]


def about(bench: str, command: str, options: dict[str, Any]) -> About:
    return About(
        format=FORMAT,
        bench=bench,
        version=__version__,
        commit=commit(),
        machine=Machine.this(),
        command=command,
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        options=options,
    )


def commit() -> str:
    """Of the source tree this runs from, with + where it has changes; empty if there is none."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else ""


class RunFolder:
    """One run of several cases. A case that was finished is not run again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, told: About, trace: bytes) -> None:
        """Make it, or go on with one that was begun with the same options and trace."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if (self.path / ABOUT).exists():
                self._check_same(told, trace)
                return
            if {each.name for each in self.path.iterdir()} - UNFINISHED:
                raise ResultsError(f"{self.path} holds other files: name an empty folder")
            (self.path / TRACE).write_bytes(trace)
            _write(self.path / ABOUT, msgspec.json.format(msgspec.json.encode(told)))
        except OSError as error:
            raise ResultsError(f"{self.path} cannot be written: {error.strerror}") from None

    def _check_same(self, told: About, trace: bytes) -> None:
        before = read_about(self.path / ABOUT)
        if before.options != told.options or (self.path / TRACE).read_bytes() != trace:
            raise ResultsError(
                f"{self.path} is of another run ({before.command}): name another folder"
            )
        if (before.version, before.commit) != (told.version, told.commit):
            raise ResultsError(
                f"{self.path} was begun with Edgewise {before.version} {before.commit}, and this "
                f"is {told.version} {told.commit}: name another folder"
            )

    def about(self) -> About:
        return read_about(self.path / ABOUT)

    def is_done(self, case: str) -> bool:
        return any(each.kind is Kind.DONE for each in self.records(case))

    def cases(self) -> list[str]:
        names = sorted(each.stem for each in self.path.glob("*.jsonl"))
        return [name for name in names if name != "trace"]

    def records(self, case: str) -> list[Record]:
        path = self.path / f"{case}.jsonl"
        if not path.exists():
            return []
        found, decoder = [], msgspec.json.Decoder(Record)
        for line in path.read_bytes().split(b"\n"):
            try:
                found.append(decoder.decode(line))
            except UNREADABLE_JSON:
                break  # the end of a file whose writer was stopped
        return found

    def writer(self, case: str) -> Writer:
        return Writer(self.path / f"{case}.jsonl")


class Writer:
    """Appends as it goes. What the disk does not take ends the run with a sentence.

    What an unfinished run left there goes with the first record of the next: one that cannot even
    begin takes nothing away.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._encoder = msgspec.json.Encoder()
        try:
            self._file = path.open("ab", buffering=0)
            self._left = self._file.tell()
        except OSError as error:
            raise ResultsError(f"{path} cannot be written: {error.strerror}") from None

    def keep(self, record: Record) -> None:
        try:
            if self._left:
                self._file.truncate(0)
                self._left = 0
            self._file.write(self._encoder.encode(record) + b"\n")
        except OSError as error:
            raise ResultsError(
                f"{self._path} cannot be written any more: {error.strerror}; what is there is kept"
            ) from None

    def close(self) -> None:
        self._file.close()


def store(folder: Path, told: About, figures: dict[str, Any]) -> Path:
    """What a bench printed, as a file of its own."""
    stamp = told.began.partition("+")[0].replace(":", "-")
    path = folder / told.bench / f"{stamp}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = Stored(about=told, figures=figures)
        _write(path, msgspec.json.format(msgspec.json.encode(kept)))
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from None
    return path


def stored(folder: Path) -> Iterator[tuple[Path, Stored]]:
    """Of all benches but `run`, the oldest first."""
    for path in sorted(folder.glob("*/*.json")):
        if path.name == ABOUT:
            continue
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Stored)
        except UNREADABLE_JSON as error:
            raise ResultsError(f"{path} is no result of a bench: {error}") from None
        _check_format(found.about, path)
        yield path, found


def runs(folder: Path) -> list[RunFolder]:
    return [RunFolder(path.parent) for path in sorted(folder.glob(f"*/{ABOUT}"))]


def read_about(path: Path) -> About:
    try:
        told = msgspec.json.decode(path.read_bytes(), type=About)
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from None
    except UNREADABLE_JSON:
        raise ResultsError(
            f"{path} was not written by this version: measure into another folder"
        ) from None
    _check_format(told, path)
    return told


def _check_format(told: About, path: Path) -> None:
    if told.format != FORMAT:
        raise ResultsError(
            f"{path} has format {told.format}, and this version reads {FORMAT}: "
            "measure into another folder"
        )


def _write(path: Path, data: bytes) -> None:
    """All of it or nothing."""
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(data)
    unfinished.replace(path)
