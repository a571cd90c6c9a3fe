"""What attacks by callers without a token cost the listeners of ours.

Memory is bounded for each of them, and a newcomer is served meanwhile, from the attacker's own
address even. docs/threat-model.md has the figures of all; some of them are left to `make chaos`.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.integration.listeners.scene import ATTACKS, attacking, measure, victim

MOST_GROWTH = 32.0  # MiB
# A machine that runs other tests beside this one is late by that much now and then.
NOISE_SECONDS = 0.25

LONG = os.environ.get("EDGEWISE_CHAOS", "") not in ("", "0")
SHORT = [
    ("server", "header-lines"),
    ("server", "pipelined"),
    ("server-tls", "half-handshakes"),
    ("webhooks", "half-handshakes"),
    ("control", "header-lines"),
    ("health", "half-headers"),
    ("ping", "one-header"),
]


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("listener", "attack"), [pytest.param(*e, id="-".join(e)) for e in (ATTACKS if LONG else SHORT)]
)
def test_an_attack_without_a_token_costs_little(listener: str, attack: str) -> None:
    row = (
        measure(listener, attack)
        if LONG
        else measure(listener, attack, 1.5, number=800, idle_seconds=0.7)
    )
    print(row)  # noqa: T201 - seen with -s
    assert row.growth <= MOST_GROWTH, row
    # A short run has too few probes for a percentile on a machine that others use, too.
    waited = row.attacked_p99 if LONG else row.attacked_median
    assert waited <= max(3 * row.idle_p99, NOISE_SECONDS), row
    assert row.failures <= row.probes // 20, row


def test_without_descriptors_the_server_says_so_once_and_answers() -> None:
    with victim("server", descriptors=300) as at:
        at.probe()
        with attacking(at, "idle", 4.0, 400):
            time.sleep(1)
            assert [at.probe() < 2 for _ in range(20)] == [True] * 20
        lines = at.log.read_text().splitlines()
    assert len(lines) < 40, lines[:50]
