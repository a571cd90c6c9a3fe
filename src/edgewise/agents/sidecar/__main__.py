"""Starts the sidecar, and ends it when the game has ended."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgewise.agents.sidecar.health import Health, watch_health
from edgewise.agents.sidecar.operator_link import OperatorLink
from edgewise.agents.sidecar.said import SaidBook
from edgewise.agents.sidecar.sdk import serve_sdk
from edgewise.agents.sidecar.told import Told

# The game has ended by then: its last words get so long to reach the operator.
LAST_WORDS_SECONDS = 3.0


def health_of(environment: Mapping[str, str]) -> Health | None:
    if "EDGEWISE_HEALTH_PERIOD" not in environment:
        return None
    return Health(
        period=float(environment["EDGEWISE_HEALTH_PERIOD"]),
        failures=int(environment.get("EDGEWISE_HEALTH_FAILURES", "3")),
        delay=float(environment.get("EDGEWISE_HEALTH_DELAY", "5")),
    )


def settings_of(words: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """NAME=value, as words or in the environment."""
    return {**environment, **{name: value for name, _, value in (w.partition("=") for w in words)}}


def main(environment: Mapping[str, str]) -> int:
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    book = SaidBook(Path(environment.get("EDGEWISE_STATE_FILE", "said.json")))
    told = Told(environment.get("SERVER_NAME", ""))
    link = OperatorLink(
        environment.get("EDGEWISE_OPERATOR", ""),
        Path(environment.get("EDGEWISE_TOKEN_FILE", "")),
        book,
        told,
    )
    server = serve_sdk(int(environment.get("EDGEWISE_PORT", "8080")), book, told)
    for work in (
        server.serve_forever,
        link.report_for_ever,
        link.listen_for_ever,
        lambda: watch_health(book, health_of(environment)),
    ):
        threading.Thread(target=work, daemon=True).start()
    ending.wait()
    book.wait_reported(LAST_WORDS_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main(settings_of(sys.argv[1:], os.environ)))
