"""The copy button of a console block copies its commands, without prompts and output.

A hook of MkDocs (mkdocs.yml). The theme copies what `data-copy` around the code says, if there
is one.
"""

import html
import re
from typing import Any

_BLOCK = re.compile(r'<div class="language-console highlight">(?P<code>.*?)</div>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


def on_page_content(content: str, **_: Any) -> str:
    return _BLOCK.sub(_with_commands, content)


def _with_commands(block: re.Match[str]) -> str:
    shown = html.unescape(_TAG.sub("", block["code"]))
    copied = html.escape(commands(shown), quote=True).replace("\n", "&#10;")
    return f'<div class="language-console highlight" data-copy="{copied}">{block["code"]}</div>'


def commands(block: str) -> str:
    """What a person would type: `$ ` begins a command, `> ` goes on with it until its output."""
    typed: list[str] = []
    under_way = False
    for line in block.splitlines():
        if line.startswith("$ ") or (under_way and (line + " ").startswith("> ")):
            typed.append(line[2:])
            under_way = True
        else:
            under_way = False
    return "\n".join(typed)
