"""The live page, in a real browser."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from edgewise.server.identity.api_tokens import token_id
from edgewise.server.identity.principal import Role
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from tests.integration.server.browser import Page, browser_page
from tests.integration.server.http_client import Caller

ALICE = "/v1/sessions/room-1/clients/alice"


async def text(page: Page, selector: str) -> str:
    script = f"document.querySelector({selector!r})?.innerText ?? ''"
    return str(await page.run(script))


async def shows(page: Page, selector: str, *words: str) -> None:
    async def it_does() -> bool:
        seen = await text(page, selector)
        return all(word in seen for word in words)

    await eventually(it_does, within=20, every=0.1)


async def visible(page: Page) -> list[str]:
    """What of the page's parts a person can see."""
    ids = ["login", "forget", "overview"]
    return list(
        await page.run(f"{ids}.filter((id) => document.getElementById(id).getClientRects().length)")
    )


async def log_in(page: Page, token: str) -> None:
    await shows(page, "#login button:enabled", "Connect")
    await page.run(
        f"document.getElementById('token').value = {token!r};"
        "document.querySelector('#login button').click()"
    )


async def test_a_person_sees_all_clusters_live(rig: HubRig, tmp_path: Path) -> None:
    replica = await rig.add_replica()
    url = await rig.add_server(replica)
    admin_token = await rig.add_token(Role.ADMIN, "ops")
    app_token = await rig.add_token(Role.APP, "arena")
    for token in (admin_token, app_token):
        await eventually(lambda t=token: replica.credentials.api_token(token_id(t)) is not None)
    async with aiohttp.ClientSession() as http, browser_page(tmp_path) as page:
        app = Caller(http, url, app_token)
        await page.go(url)
        await shows(page, "#login", "API token")

        await log_in(page, "ewt_wrong")
        await shows(page, "#refusal", "not well formed")
        await log_in(page, app_token)
        await shows(page, "#refusal", "an app may not watch everything")

        await log_in(page, admin_token)
        await shows(page, "#connection", "live")
        assert await visible(page) == ["forget", "overview"], "who is in needs no form to log in"
        await shows(page, "#locations", "porto", "paris", "ready")
        await shows(page, "#no-sessions", "No sessions.")

        await app("POST", "/v1/sessions", {"template": "demo", "name": "room-1"})
        await shows(page, "#sessions", "room-1", "demo", "arena", "active")
        await page.run("document.querySelector('[data-choose=\"room-1\"]').click()")
        await shows(page, "#chosen", "Clients of room-1")
        await app("PUT", f"{ALICE}?wait=10", {"location": "porto"})
        await shows(page, "#clients", "alice", "ready", "porto", "porto.test/s/room-1-alice")

        rig.members["porto"].cut()
        await shows(page, "[data-location=porto]", "unhealthy")
        await shows(page, "#clients", "alice", "suspect")
        await shows(page, "#clients", "paris.test/s/room-1-alice")
        rig.members["porto"].heal()
        await shows(page, "[data-location=porto]", "ready")

        await app("DELETE", ALICE)

        async def nobody_left() -> bool:
            return "alice" not in await text(page, "#clients")

        await eventually(nobody_left)
        await app("DELETE", "/v1/sessions/room-1")
        await shows(page, "#no-sessions", "No sessions.")

        # The token stays in this tab, and goes when it is told to.
        await page.go(url)
        await shows(page, "#connection", "live")
        await page.run("document.getElementById('forget').click()")
        await shows(page, "#login", "API token")
        assert await page.run("sessionStorage.length") == 0
        assert [c for c in page.complaints if "401" not in c and "403" not in c] == []


async def test_a_link_logs_in_and_leaves_no_token_in_the_address(
    rig: HubRig, tmp_path: Path
) -> None:
    replica = await rig.add_replica()
    url = await rig.add_server(replica)
    token = await rig.add_token(Role.READER, "somebody")
    await eventually(lambda: replica.credentials.api_token(token_id(token)) is not None)
    async with browser_page(tmp_path) as page:
        await page.go(f"{url}/#token={token}")
        await shows(page, "#connection", "live")
        await shows(page, "#locations", "porto", "paris", "ready")
        assert await page.run("location.href") == f"{url}/"
        assert await visible(page) == ["forget", "overview"]
        # In a tab that is open already, a link changes only what is behind the #.
        await page.run("document.getElementById('forget').click()")
        await shows(page, "#login", "API token")
        assert await visible(page) == ["login"]
        await page.run(f"location.hash = 'token={token}'")
        await shows(page, "#connection", "live")
        assert await page.run("location.href") == f"{url}/"
        assert page.complaints == []


async def test_the_page_lets_nothing_else_run(rig: HubRig, tmp_path: Path) -> None:
    replica = await rig.add_replica()
    url = await rig.add_server(replica)
    async with aiohttp.ClientSession() as http, browser_page(tmp_path) as page:
        async with http.get(url) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "Set-Cookie" not in answer.headers
        async with http.get(f"{url}/v1/locations", headers={"Origin": "https://evil.test"}) as no:
            assert "Access-Control-Allow-Origin" not in no.headers
        await page.go(url)
        await shows(page, "#login", "API token")
        await page.run(
            "const made = document.createElement('script');"
            "made.textContent = 'window.broken = true'; document.body.append(made);"
            "const image = '<img src=x onerror=\"window.broken=1\">';"
            "document.body.insertAdjacentHTML('beforeend', image)"
        )
        assert await page.run("window.broken === undefined")
        await eventually(lambda: any("Content Security Policy" in c for c in page.complaints))
