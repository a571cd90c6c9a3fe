"""The number of file descriptors that this process may have."""

from __future__ import annotations

import contextlib
import sys

# More than that is never wanted, and some systems call "no limit" a number that they refuse.
MOST = 1 << 20


def raise_descriptor_limit() -> int:
    """Take all that the system allows; answers how many that are."""
    if sys.platform == "win32":  # no such limit
        return MOST
    import resource  # noqa: PLC0415 - not everywhere

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if soft == resource.RLIM_INFINITY else min(soft, MOST)
