"""One page for all stored results: readable without a network, and without scripts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from edgewise.bench.evaluation.report.chapters import Chapter, Section, Table
from edgewise.bench.evaluation.results import About

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1b1b1b; background: #fff; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ddd;
       padding-top: 1rem; }
svg { max-width: 100%; height: auto; } figure { margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; display: block; overflow-x: auto; }
th, td { padding: 0.2rem 0.7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
code { background: #f3f3f3; padding: 0.1rem 0.3rem; } .about { color: #555; font-size: 0.9rem; }
"""


def page(parts: Iterable[tuple[str, Sequence[Chapter]]]) -> str:
    """Parts with a heading each, in this order; one without chapters is left out."""
    kept = [(heading, chapters) for heading, chapters in parts if chapters]
    body = "\n".join(
        f'<h2 id="{_anchor(heading)}">{html.escape(heading)}</h2>\n'
        + "\n".join(map(_chapter, chapters))
        for heading, chapters in kept
    )
    links = " · ".join(
        f'<a href="#{_anchor(heading)}">{html.escape(heading)}</a>' for heading, _ in kept
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Edgewise, measured</title><style>{STYLE}</style></head><body>\n"
        "<h1>Edgewise, measured</h1>\n"
        "<p>Every figure is from a stored run; below each heading is the command that makes it "
        "again. <i>The text</i> is the research behind sessions, and Figures 5.1 to 5.7 are its "
        "own: it ran in a cloud, so its seconds cannot be compared with these, but the shapes "
        "can.</p>"
        f"<p>{links}</p>\n{body}\n</body></html>\n"
    )


def _chapter(chapter: Chapter) -> str:
    sections = "\n".join(map(_section, chapter.sections))
    about = _about(chapter.about) if chapter.about is not None else ""
    return f"<h3>{html.escape(chapter.title)}</h3>\n{about}\n{sections}"


def _about(about: About) -> str:
    machine = about.machine
    facts = (
        f"{machine.cores} cores, {machine.memory_gb:g} GB, {machine.processor or machine.system}",
        f"Edgewise {about.version}" + (f", commit {about.commit}" if about.commit else ""),
        about.began,
    )
    told = "; ".join(html.escape(fact) for fact in facts)
    return f'<p class="about"><code>{html.escape(about.command)}</code><br>{told}</p>'


def _section(section: Section) -> str:
    parts = [f"<h4>{html.escape(section.title)}</h4>"]
    if section.text:
        parts.append(f"<p>{html.escape(section.text)}</p>")
    if section.points:
        parts.append(
            "<ul>" + "".join(f"<li>{html.escape(p)}</li>" for p in section.points) + "</ul>"
        )
    if section.svg:
        parts.append(f"<figure>{section.svg}</figure>")
    if section.table is not None:
        parts.append(_table(section.table))
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(each)}</th>" for each in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(each)}</td>" for each in row) + "</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _anchor(heading: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in heading.lower())
