"""Who may not do what a case needs is told so before anything is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from edgewise.bench.evaluation.evaluation import CaseName
from edgewise.bench.evaluation.rights import MayNot, check_rights, needed


class Reviewer:
    """An API server that allows all but some resources."""

    access = SimpleNamespace(server="https://edge.example")

    def __init__(self, *refused: str) -> None:
        self._refused = refused
        self.asked: list[dict[str, str]] = []

    async def request(self, method: str, path: str, *, body: bytes) -> bytes:
        assert (method, path.rpartition("/")[2]) == ("POST", "selfsubjectaccessreviews")
        wanted = msgspec.json.decode(body)["spec"]["resourceAttributes"]
        self.asked.append(wanted)
        allowed = wanted["resource"] not in self._refused
        return msgspec.json.encode({"status": {"allowed": allowed}})


@pytest.mark.parametrize("case", CaseName)
async def test_every_case_says_what_it_needs(case: CaseName) -> None:
    server: Any = Reviewer()
    await check_rights(server, case)
    assert len(server.asked) == len(list(needed(case)))
    proxies = [each for each in server.asked if each.get("subresource") == "proxy"]
    assert proxies == [{"verb": "get", "resource": "nodes", "subresource": "proxy"}]


async def test_what_is_missing_is_named_in_one_sentence() -> None:
    server: Any = Reviewer("sessions", "sessiontemplates")
    await check_rights(server, CaseName.BARE)
    with pytest.raises(MayNot, match=r"https://edge.example may not create sessiontemplates, "):
        await check_rights(server, CaseName.EDGEWISE)
