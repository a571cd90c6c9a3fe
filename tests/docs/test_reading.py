"""The reader of pages itself: it must not pass what is not so."""

import pytest

from tests.docs.pages import blocks_of, commands_of, mismatch

PAGE = """\
# Title

<!-- test: root -->
```console
$ one --flag
said ... things
$ two \\
> more
>
> and more
```

```console
$ unmarked
```

<!-- not tested: it costs money -->
```console
$ three
```
"""


def test_blocks_and_commands() -> None:
    first, second, third = blocks_of(PAGE)
    assert (first.line, first.tested, first.needs_root) == (4, True, True)
    assert [command.text for command in first.commands] == [
        "one --flag",
        "two \\\nmore\n\nand more",
    ]
    assert first.commands[0].expected == ["said ... things"]
    assert not second.explained
    assert third.explained
    assert not third.tested


@pytest.mark.parametrize(
    ("expected", "output", "fits"),
    [
        ([], "whatever", True),
        (["a"], "a\n", True),
        (["a"], "b\n", False),
        (["a"], "a\nb\n", False),
        (["a", "..."], "a\nb\nc\n", True),
        (["...", "c"], "a\nb\nc\n", True),
        (["...", "d"], "a\nb\nc\n", False),
        (["took ... s"], "took 3.2 s\n", True),
        (["took ... s"], "took 3.2 m\n", False),
        (["a", "b"], "b\na\n", False),
        (["..."], "", True),
    ],
)
def test_expected_output(expected: list[str], output: str, fits: bool) -> None:
    assert (mismatch(expected, output) == "") is fits


def test_output_before_any_command_is_ignored() -> None:
    assert commands_of("stray\n$ x\n") == commands_of("$ x\n")
