"""Pictures as SVG text: the same figures are always the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

Series = Mapping[str, Sequence[float]]
Marks = Mapping[str, Sequence[tuple[float, float]]]
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]

# Told apart without colour too: each has its own dashes.
_STYLES = (
    ("#0b6e4f", "-"),
    ("#c1292e", "--"),
    ("#235789", "-."),
    ("#7f7f7f", ":"),
    ("#8f5fbf", (0, (5, 1, 1, 1))),
    ("#d98e04", (0, (3, 1))),
)
_SIZE = (6.4, 3.4)


@contextmanager
def picture(x: str, y: str, *, log_x: bool = False) -> Iterator[tuple[Any, io.StringIO]]:
    """Axes to draw on, and where the SVG is afterwards."""
    # Half a second, which only a report should take; without it the command names the extra.
    import matplotlib  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    with matplotlib.rc_context({"svg.hashsalt": "edgewise", "svg.fonttype": "none"}):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.subplots()
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(alpha=0.3)
        if log_x:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.tick_params(axis="x", which="minor", labelbottom=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        out = io.StringIO()
        yield axes, out
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8)
        figure.savefig(out, format="svg", metadata={"Date": None})


def svg(out: io.StringIO) -> str:
    """Without the head of a file, as it stands inside a page."""
    text = out.getvalue()
    return text[text.index("<svg") :]


def styles() -> Iterator[dict[str, Any]]:
    for colour, dashes in _STYLES:
        yield {"color": colour, "linestyle": dashes}
    while True:
        yield {"color": "#000000", "linestyle": "-"}


def distribution(series: Series, x: str, marks: Marks = MappingProxyType({})) -> str:
    """CDFs, one for each name; `marks` are points that others report, by the same names."""
    with picture(x, "share", log_x=True) as (axes, out):
        for (name, values), style in zip(series.items(), styles(), strict=False):
            ordered = sorted(values)
            if ordered:
                shares = [(place + 1) / len(ordered) for place in range(len(ordered))]
                axes.step([ordered[0], *ordered], [0, *shares], where="post", label=name, **style)
            for seconds, share in marks.get(name, ()):
                axes.plot([seconds], [share], marker="x", color=style["color"], clip_on=False)
        axes.set_ylim(0, 1)
    return svg(out)


def over_time(lines: Lines, y: str) -> str:
    return over("minutes", lines, y)


def over(x: str, lines: Lines, y: str) -> str:
    with picture(x, y) as (axes, out):
        for (name, (xs, ys)), style in zip(lines.items(), styles(), strict=False):
            if len(xs):
                axes.plot(xs, ys, label=name, **style)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
    return svg(out)


def exceeded(series: Series, x: str) -> str:
    """CCDFs: which share of the time a value is exceeded."""
    with picture(x, "share of the time above") as (axes, out):
        for (name, values), style in zip(series.items(), styles(), strict=False):
            ordered = sorted(values)
            if ordered:
                shares = [1 - place / len(ordered) for place in range(len(ordered))]
                axes.step(ordered, shares, where="post", label=name, **style)
        axes.axvline(0, color="#000000", linewidth=0.6)
        axes.set_ylim(0, 1)
    return svg(out)


def boxes(series: Series, x: str, y: str) -> str:
    with picture(x, y) as (axes, out):
        kept = {name: list(values) for name, values in series.items() if len(values)}
        if kept:
            axes.boxplot(list(kept.values()), tick_labels=list(kept))
    return svg(out)


def bars(figures: Mapping[str, float], y: str) -> str:
    with picture("", y) as (axes, out):
        axes.bar(list(figures), list(figures.values()), color=_STYLES[0][0])
    return svg(out)
