"""Says with every answer which pod gave it, and closes connections of a pod that ends.

app = PodHeader(app)  # any ASGI application
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from types import FrameType
from typing import Any

HEADER = "edgewise-pod"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def pod_header() -> tuple[str, str]:
    """The header and its value, for applications that write their headers themselves.

    The name of a pod is its host name, unless the environment says it in POD_NAME.
    """
    return HEADER, os.environ.get("POD_NAME") or socket.gethostname()


class PodHeader:
    """With `close_when_ending`, kept-alive connections are told to end from SIGTERM on, so that
    no client waits for a pod that goes. The handler that was there before is called after it."""

    def __init__(self, app: Application, *, close_when_ending: bool = True) -> None:
        self._app = app
        name, value = pod_header()
        self._header = (name.encode(), value.encode())
        self._ending = False
        if close_when_ending and threading.current_thread() is threading.main_thread():
            self._follow_sigterm()

    def _follow_sigterm(self) -> None:
        before = signal.getsignal(signal.SIGTERM)

        def ends(number: int, frame: FrameType | None) -> None:
            self._ending = True
            if callable(before):
                before(number, frame)
            elif before is signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, ends)

    def end(self) -> None:
        """From now on, every answer closes its connection."""
        self._ending = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), self._header]
                if self._ending:
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, with_header)
