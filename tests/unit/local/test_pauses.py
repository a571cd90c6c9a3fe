"""When a program that was told to stop has really stopped."""

import signal
import subprocess
import sys
import time

import pytest

from edgewise.local.machines import processes

PROGRAM = """
import threading, time
for _ in range(5):
    threading.Thread(target=time.sleep, args=(60,)).start()
print("ready", flush=True)
"""


def becomes(pid: int, *, running: bool) -> bool:
    deadline = time.monotonic() + 10
    while processes.runs(pid) is not running and time.monotonic() < deadline:
        time.sleep(0.01)
    return processes.runs(pid) is running


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel is asked")
def test_a_program_runs_until_all_of_its_threads_are_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            program.stdout.readline()
            assert processes.runs(program.pid)
            program.send_signal(signal.SIGSTOP)
            assert becomes(program.pid, running=False)
            program.send_signal(signal.SIGCONT)
            assert becomes(program.pid, running=True)
        finally:
            program.kill()
    assert not processes.runs(program.pid)
