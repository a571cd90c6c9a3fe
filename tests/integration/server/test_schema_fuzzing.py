"""The API against its own description: thousands of calls, well and badly formed."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import aiohttp

from edgewise.server.http.guard import Rates
from edgewise.server.identity.api_tokens import token_id
from edgewise.server.identity.principal import Role
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from tests.integration.server.http_client import Caller

# A stream has no end to wait for, and a wait has one that takes too long for thousands of calls.
CONFIG = """
[parameters]
"path.session" = "room-1"
"path.client" = "alice"
"path.location" = "porto"
"query.wait" = 0

[[operations]]
include-path-regex = "events$"
enabled = false

# Or else there would be nothing left to try the others on.
[[operations]]
include-path = "/v1/sessions/{session}"
include-method = "DELETE"
parameters = { "path.session" = "room-2" }
"""
# Whether a template or a location exists cannot be said by a schema, so well-formed requests may
# be refused; and numbers and booleans may be sent as strings.
EXCLUDED = "positive_data_acceptance,negative_data_rejection"


async def test_no_call_finds_a_mistake_of_ours(rig: HubRig, tmp_path: Path) -> None:
    replica = await rig.add_replica()
    url = await rig.add_server(replica, rates=Rates(client=1e6, application=1e6, stranger=1e6))
    token = await rig.add_token(Role.ADMIN, "ops")
    await eventually(lambda: replica.credentials.api_token(token_id(token)) is not None)
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    async with aiohttp.ClientSession() as http:
        admin = Caller(http, url, token)
        for name in ("room-1", "room-2"):
            await admin("POST", "/v1/sessions", {"template": "demo", "name": name})
        await admin("PUT", "/v1/sessions/room-1/clients/alice?wait=10", {"leaseSeconds": 0})
        done = await asyncio.to_thread(
            subprocess.run,
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
                *(f"{url}/v1/openapi.json", "--checks", "all", "--exclude-checks", EXCLUDED),
                *("--phases", "coverage,fuzzing", "--max-examples", "20", "--seed", "7"),
                *("--header", f"Authorization: Bearer {token}", "--request-timeout", "30"),
                *("--continue-on-failure", "--no-color"),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=240,
            check=False,
        )
        output = done.stdout
        assert done.returncode == 0, output[-8000:]
        tried = re.search(r"(\d+) generated", output)
        assert tried is not None
        assert int(tried[1]) > 200
        assert token not in output
        assert (await admin("GET", "/v1/locations")).status == 200
