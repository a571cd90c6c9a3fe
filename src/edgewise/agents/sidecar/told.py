"""What the operator has told about the server, and who waits for news of it."""

from __future__ import annotations

import threading
from typing import Any


class Told:
    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._view: dict[str, Any] = {"name": name, "state": "", "shutdown": {"shutdown": False}}
        self._version = 0

    def view(self) -> dict[str, Any]:
        with self._changed:
            return self._view

    def news(self, view: dict[str, Any]) -> None:
        with self._changed:
            if view != self._view:
                self._view = view
                self._version += 1
                self._changed.notify_all()

    def after(self, version: int, seconds: float) -> tuple[dict[str, Any], int]:
        """The view as soon as it is newer than `version`, or after so long as it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, seconds)
            return self._view, self._version

    @property
    def allocation(self) -> str:
        """The uid of the Allocation that is known; empty: none."""
        found = self.view().get("allocation")
        return str(found.get("uid", "")) if isinstance(found, dict) else ""
