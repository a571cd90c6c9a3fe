"""Names for files that are not finished yet."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def unfinished(path: Path) -> Path:
    """A name beside `path` that neither another process nor another thread uses.

    Whoever brings up several clusters does so in one process.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
