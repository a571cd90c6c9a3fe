"""Log lines for people, or as JSON for machines; both name the reconcile they belong to."""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from edgewise.runtime.reconciling import CURRENT

# What every record has; anything else was put there by `extra=`. With `color_message`, uvicorn
# says a line of its own once more, in the escape codes of terminals.
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}

# Names and messages of others are in lines: none of them begins a line of its own, and none moves
# the cursor of who reads along.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    reconciling = CURRENT.get()
    if reconciling is not None:
        fields["controller"] = reconciling.controller
        fields["key"] = str(reconciling.key)
    return fields


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        # A field that JSON does not know must not cost us the line.
        return msgspec.json.encode(line, enc_hook=str).decode()


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname:<7} {record.getMessage()}"
        if fields:
            text = f"{text}  [{fields}]"
        text = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return text


def set_up_logs(
    *, json: bool = False, level: int | str = logging.INFO, stream: TextIO | None = None
) -> None:
    """Send everything from `level` up to `stream` (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json else PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
