"""Nobody gets out of a tenant: every attempt is refused by the rule that it names, in a sentence,
and what is like it and allowed passes."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError
from edgewise.local.clusters import LocalCluster
from tests.e2e.tenancy.escape.requests import ATTEMPTS
from tests.e2e.tenancy.escape.sending import Attempt, Request
from tests.e2e.tenancy.scene import as_user

TALLY = {"attempts": 0, "through": 0, "wrong_rule": 0}


async def send(client: Client, request: Request, *, rehearse: bool = False) -> None:
    body = None if request.body is None else msgspec.json.encode(request.body)
    params = {"dryRun": "All"} if rehearse and request.method != "GET" else None
    await client.request(
        request.method, request.path, body=body, content_type=request.content_type, params=params
    )


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
async def test_an_attempt_is_refused_and_its_twin_passes(
    tenants: LocalCluster, attempt: Attempt
) -> None:
    wrong: list[str] = []
    for who, by in attempt.who.items():
        TALLY["attempts"] += 1
        async with as_user(tenants.kubeconfig, who) as client:
            try:
                await send(client, attempt.request)
            except ApiError as error:
                if by not in str(error):
                    TALLY["wrong_rule"] += 1
                    wrong.append(
                        f"{who or 'admin'} was to be refused by {by}, and was told: {error}"
                    )
            else:
                TALLY["through"] += 1
                wrong.append(f"{who or 'admin'} came through")
    assert not wrong, "\n".join(wrong)
    async with as_user(tenants.kubeconfig, attempt.twin.user) as client:
        await send(client, attempt.twin, rehearse=True)


def test_there_are_a_hundred_pairs_of_a_person_and_a_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The last one: it says what became of those that ran."""
    with capsys.disabled():
        print("", *(f"{name} {number}" for name, number in TALLY.items()))  # noqa: T201
    pairs = sum(len(attempt.who) for attempt in ATTEMPTS)
    people = {who for attempt in ATTEMPTS for who in attempt.who}
    assert pairs >= 100
    assert len(people) >= 5
