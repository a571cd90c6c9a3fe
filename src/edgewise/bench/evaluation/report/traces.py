"""The loads that can be run, drawn from the presets themselves: nothing of it was measured."""

from __future__ import annotations

from edgewise.bench.evaluation.generating import PRESETS, generated
from edgewise.bench.evaluation.report.chapters import Chapter, Section
from edgewise.bench.evaluation.report.run_chapter import load_picture
from edgewise.bench.evaluation.report.the_text import TRACE

SEED = 1


def traces() -> Chapter:
    sections = [
        Section(
            title=f"Trace {name}: {preset.about}",
            text=f"edgewise bench trace show {name} --seed {SEED}",
            svg=load_picture(generated(name, SEED)),
            name=name,
        )
        for name, preset in PRESETS.items()
    ]
    return Chapter(
        title="Clients and sessions at the same time",
        about=None,
        sections=[Section(title="Presets", text=TRACE), *sections],
        name="trace",
    )
