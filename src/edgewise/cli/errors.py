"""What a person reads when something goes wrong: one sentence, no traceback.

What Edgewise raises on purpose is written for its reader, so its text is the
sentence. The same goes for what the operating system says. Any other exception
is a mistake of ours, and says so.
"""

import errno
import os

from edgewise.errors import ReadableError

DEBUG = "EDGEWISE_DEBUG"
# Its errors have a root of their own, which is not worth importing it.
SDK = "edgewise.client."

_ADVICE = {
    errno.ENOSPC: "free some disk space and try again",
    errno.EDQUOT: "your disk quota is used up; free some space and try again",
    errno.EACCES: "check who owns it, or run this as root",
    errno.EPERM: "it is not permitted for this user; run this as root",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n 65536`",
    errno.ENFILE: "too many files are open on this machine; close some programs",
}


# Packages that only some commands need, and the extra that brings each of them.
_EXTRAS = {
    "litestar": "server",
    "uvicorn": "server",
    "jwt": "server",
    "envoy": "gateway",
    "grpc": "gateway",
    "google": "gateway",
    "aiortc": "webrtc",
    "numpy": "webrtc",
    "cv2": "webrtc",
    "aiomqtt": "mqtt",
    "matplotlib": "report",
}


def sentence(error: BaseException) -> str:
    """The one sentence for `error`."""
    error = innermost(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in _EXTRAS:
            return f"this needs the package {package}: install edgewise[{_EXTRAS[package]}]"
    if isinstance(error, ReadableError) or type(error).__module__.startswith(SDK):
        return one_line(str(error)) or type(error).__name__
    if isinstance(error, OSError):
        return of_system(error)
    return (
        f"internal error: {type(error).__name__}: {one_line(str(error))} "
        f"(run again with {DEBUG}=1 to see where)"
    )


def innermost(error: BaseException) -> BaseException:
    """The first real error in a group of tasks that failed together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def of_system(error: OSError) -> str:
    what = error.strerror or one_line(str(error)) or type(error).__name__
    text = f"{error.filename}: {what}" if error.filename else what
    advice = _ADVICE.get(error.errno or 0)
    return f"{text}: {advice}" if advice else text


def one_line(text: str) -> str:
    return " ".join(text.split())


def wants_traceback() -> bool:
    return os.environ.get(DEBUG, "") not in ("", "0")
