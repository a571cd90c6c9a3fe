"""Work that is short, and worse half-done than late."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Whoever asks us to end meanwhile, perhaps by a second Ctrl-C, has to wait for it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals do not reach it anyway
        return
    numbers = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    before = {number: signal.signal(number, _go_on) for number in numbers if number is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _go_on(_number: int, _frame: FrameType | None) -> None:
    """A handler rather than SIG_IGN, which programs that we start would inherit."""
