"""What is begun is finished, whoever asks us to end meanwhile."""

import signal

import pytest

from edgewise.cli.interruption import uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_has_to_wait_and_counts_again_afterwards(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    done = False
    with uninterrupted():
        signal.raise_signal(number)
        done = True
    assert done
    assert signal.getsignal(number) is before
