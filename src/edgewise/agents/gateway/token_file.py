"""The token for pushes, in a file that Kubernetes may replace at any time."""

from __future__ import annotations

import logging
from pathlib import Path

from edgewise.agents.gateway.settings import SettingsError

log = logging.getLogger(__name__)

SHORTEST = 16


class TokenFile:
    """Reads the token again whenever the file has changed. A file that cannot be read, or
    holds nothing sensible, changes nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed_at = file.stat().st_mtime_ns
        self._token = read(file)

    def current(self) -> str:
        try:
            changed_at = self._file.stat().st_mtime_ns
            if changed_at != self._changed_at:
                self._token, self._changed_at = read(self._file), changed_at
        except (OSError, ValueError, SettingsError) as error:
            log.warning("the control token is not read again: %s", error)
        return self._token


def read(file: Path) -> str:
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < SHORTEST:
        raise SettingsError(
            f"the token in {file} has less than {SHORTEST} characters; write a longer one"
        )
    return token
