"""A listener takes all the descriptors that the system allows, whatever it was started with."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: a limit that is lowered for good cannot be raised again by all.
TRY = """
import asyncio
import resource
import sys

from aiohttp import web

from edgewise.runtime.listening.web_app import listening

soft, hard = (int(each) for each in sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def listen() -> None:
    async with listening(web.Application(), "127.0.0.1", 0):
        print(*resource.getrlimit(resource.RLIMIT_NOFILE))


asyncio.run(listen())
"""


def limits_of_a_listener_that_began_with(soft: int, hard: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(soft), str(hard)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_limit_is_raised_to_what_the_system_allows() -> None:
    assert limits_of_a_listener_that_began_with(128, 400) == "400 400"


def test_a_limit_that_cannot_be_raised_is_left_as_it_is() -> None:
    assert limits_of_a_listener_that_began_with(128, 128) == "128 128"
