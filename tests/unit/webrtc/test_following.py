"""The sample's client as a program that is told whom to be, line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from webrtc_detector.client import UsageError, main, parse, targets
from webrtc_detector.following import Event, follow
from webrtc_detector.measure import Filming


async def lines(*texts: bytes) -> AsyncIterator[bytes]:
    for text in texts:
        yield text


async def test_each_line_is_a_client_and_a_bad_one_stops_nobody() -> None:
    told: list[Event] = []
    given = lines(b"nonsense\n", b'{"url": "http://127.0.0.1:1", "client": "alice"}\n')
    await follow(Filming(connect_deadline=5), given, told.append)
    assert [event.event for event in told] == ["following", "unreadable", "report"]
    assert told[1].message.startswith("this line is no target")
    report = told[2].report
    assert report is not None
    assert (told[2].client, report.ok, report.reason) == ("alice", False, "unreachable")


async def test_a_client_is_stopped_in_the_middle_and_one_that_is_not_there_is_no_trouble() -> None:
    told: list[Event] = []
    silent = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)  # it never answers
    port = silent.sockets[0].getsockname()[1]
    begun = f'{{"url": "http://127.0.0.1:{port}", "client": "alice"}}\n'.encode()
    given = lines(begun, b'{"stop": "nobody"}\n', b'{"stop": "alice"}\n')
    try:
        async with asyncio.timeout(60):  # and not the deadline of an hour
            await follow(Filming(connect_deadline=3600), given, told.append)
    finally:
        silent.close()
    assert [event.event for event in told] == ["following"]


@pytest.mark.parametrize("more", [["http://127.0.0.1"], ["--targets", "-"]])
def test_one_thing_at_a_time(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="or --follow"):
        targets(parse(["--follow", *more]))
    assert main(["--follow", *more]) == 2
    assert "or --follow" in capsys.readouterr().err
