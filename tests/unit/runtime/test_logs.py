"""Log lines for people and for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from edgewise.kube.objects import Key
from edgewise.runtime.logs import set_up_logs
from edgewise.runtime.reconciling import CURRENT, Reconciling

log = logging.getLogger("edgewise.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_name_the_reconcile_and_its_fields(stream: io.StringIO) -> None:
    set_up_logs(json=True, stream=stream)
    token = CURRENT.set(Reconciling("Sessions", Key("shop", "s-1")))
    try:
        log.info("made %d pods", 3, extra={"pods": 3, "odd": object})
    finally:
        CURRENT.reset(token)
    line = json.loads(stream.getvalue())
    assert line["message"] == "made 3 pods"
    assert line["level"] == "info"
    assert (line["controller"], line["key"], line["pods"]) == ("Sessions", "shop/s-1", 3)
    assert line["time"].endswith("+00:00")


def test_an_error_keeps_its_traceback_in_one_line(stream: io.StringIO) -> None:
    set_up_logs(json=True, stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("it failed")
    (text,) = stream.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(text)["error"]


def test_plain_lines_are_for_people(stream: io.StringIO) -> None:
    set_up_logs(stream=stream, level="WARNING")
    log.info("not this")
    token = CURRENT.set(Reconciling("Sessions", Key("shop", "s-1")))
    try:
        log.warning("this")
    finally:
        CURRENT.reset(token)
    (text,) = stream.getvalue().splitlines()
    assert "WARNING this  [controller=Sessions key=shop/s-1]" in text


def test_what_is_meant_for_terminals_is_not_logged_twice(stream: io.StringIO) -> None:
    set_up_logs(stream=stream)
    # As uvicorn does.
    log.info("Started", extra={"color_message": "\x1b[36mStarted\x1b[0m"})
    assert stream.getvalue().endswith("INFO    Started\n")


def test_what_others_write_begins_no_line_and_moves_no_cursor(stream: io.StringIO) -> None:
    set_up_logs(stream=stream)
    log.info("pod said %s", "hm\n2026-01-01 INFO all is well\x1b[2J", extra={"who": "a\r\x9bb"})
    (text,) = stream.getvalue().removesuffix("\n").split("\n")
    assert text.endswith(r"pod said hm\n2026-01-01 INFO all is well\x1b[2J  [who=a\r\x9bb]")
