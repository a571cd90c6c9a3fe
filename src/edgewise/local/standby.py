"""Waits for the manager of a cluster to end, and then becomes the manager.

Run by path with nothing but the standard library, so that waiting costs little.
The kernel lets go of a lock when its holder dies, however it dies: that is the
whole mechanism. Starting one standby too many does no harm, it leaves at once.
"""

import fcntl
import os
import sys


def main() -> None:
    home = sys.argv[1]
    if sys.argv[2:] == ["detached"] and os.fork():
        os._exit(0)  # whoever started it has nothing to wait for
    try:
        waiting = os.open(f"{home}/standby.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another one waits already
    except FileNotFoundError:
        return  # the cluster is gone
    lock = os.open(f"{home}/manager.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.path.exists(f"{home}/going-down") or not os.path.exists(f"{home}/cluster.json"):
        return
    # The manager inherits the lock; the standby's own is let go of by the exec.
    os.set_inheritable(lock, True)
    command = [sys.executable, "-m", "edgewise.local.manager", home, str(lock)]
    os.execv(sys.executable, command)  # noqa: S606 - there is no shell to want


main()
