"""Phases are one enumeration each, and words on the wire."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.api.sessions import ClientPhase, ClientStatus, IdlePod, PodPhase


@pytest.mark.parametrize("phase", list(ClientPhase))
def test_the_phase_of_a_client_is_written_as_its_word(phase: ClientPhase) -> None:
    record = ClientStatus(phase=phase)
    assert msgspec.to_builtins(record) == {"phase": phase.value}
    assert type(msgspec.to_builtins(record)["phase"]) is str
    # The operator goes on with what it wrote, and another one with what it reads.
    assert msgspec.json.decode(msgspec.json.encode(record), type=ClientStatus) == record


@pytest.mark.parametrize("phase", [PodPhase.RESETTING, PodPhase.WAIT_FOR_REUSE])
def test_the_phase_of_an_idle_pod_is_written_as_its_word(phase: PodPhase) -> None:
    assert msgspec.to_builtins(IdlePod(phase=phase)) == {"phase": phase.value}


def test_a_word_that_nobody_knows_yet_can_be_read() -> None:
    read = msgspec.json.decode(b'{"phase":"Teleporting","ready":true}', type=ClientStatus)
    assert read.phase == "Teleporting"
    assert read.ready


def test_a_phase_and_its_word_are_one_key() -> None:
    assert {"Ready": 1}[ClientPhase.READY] == 1
    assert "Refused" in frozenset((ClientPhase.REFUSED, ClientPhase.EXPIRED))
