"""A user who reports: measures the Service from a place with the SDK, and publishes what it took.

python -m edgewise.bench.placement.reporter <url> < key.json
"""

from __future__ import annotations

import asyncio
import sys

import msgspec

from edgewise.client.placement import Reporter, ReportKey


async def main() -> None:
    key = msgspec.json.decode(sys.stdin.buffer.readline(), type=ReportKey)

    async def given() -> ReportKey:
        return key

    # Until the input ends.
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    # From here on the user is there.
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    reporting = asyncio.create_task(Reporter(given, sys.argv[1]).run())
    await asyncio.wait([reporting, ended], return_when=asyncio.FIRST_COMPLETED)
    if reporting.done():
        reporting.result()
    reporting.cancel()


if __name__ == "__main__":
    asyncio.run(main())
