"""Reading the commands out of a page.

A block is ```console, with `$ ` before each command and `> ` before its further lines; what
follows is the output that is expected, in which `...` stands for anything. The remark before
the block says what is done with it: `<!-- test -->`, `<!-- test: root -->`, or
`<!-- not tested: why -->`.
"""

import re
from dataclasses import dataclass, field

_BLOCK = re.compile(
    r"(?:^<!-- *(?P<mark>.*?) *-->\n)?^```(?P<language>console|bash|sh|shell)\n(?P<body>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Command:
    text: str
    expected: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Block:
    line: int
    mark: str
    language: str
    commands: list[Command]

    @property
    def tested(self) -> bool:
        return self.mark in ("test", "test: root")

    @property
    def needs_root(self) -> bool:
        return self.mark == "test: root"

    @property
    def explained(self) -> bool:
        return self.tested or bool(re.fullmatch(r"not tested: \S.+", self.mark))


def blocks_of(page: str) -> list[Block]:
    return [
        Block(
            line=page.count("\n", 0, found.start("body")),
            mark=found["mark"] or "",
            language=found["language"],
            commands=commands_of(found["body"]),
        )
        for found in _BLOCK.finditer(page)
    ]


def commands_of(body: str) -> list[Command]:
    commands: list[Command] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif (line + " ").startswith("> ") and commands and not commands[-1].expected:
            commands[-1].text += "\n" + line[2:]
        elif commands and line:
            commands[-1].expected.append(line)
    return commands


def mismatch(expected: list[str], output: str) -> str:
    """Empty if the output is as expected, else the expected line that it lacks."""
    rest = output.splitlines()
    anything = False  # a line of `...` alone may be any number of lines
    for line in expected:
        if line.strip() == "...":
            anything = True
            continue
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        while rest and not pattern.fullmatch(rest[0].rstrip()) and anything:
            rest.pop(0)
        if not rest or not pattern.fullmatch(rest[0].rstrip()):
            return line
        rest.pop(0)
        anything = False
    return (
        "" if anything or not expected or not rest else f"(nothing more, but there is {rest[0]!r})"
    )
