"""What can go wrong between Edgewise and an API server, each as a type of its own.

Every message is a sentence that can be shown to a person as it is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.errors import ReadableError

# What is no JSON, not of its type, or nested deeper than anybody means it. msgspec lets the
# error of broken UTF-8 through as it is.
UNREADABLE_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class KubeError(ReadableError):
    """The base of everything that this layer raises on purpose."""


class ConfigError(KubeError):
    """The kubeconfig, a certificate or a credential plugin cannot be used as it is."""


class Unreachable(KubeError):
    """No answer came: nobody knows whether the request was carried out."""


class Silent(Unreachable):
    """A watch had nothing to say for so long that its connection may be dead.

    It may as well be alive: whether a kind that never changes gets bookmarks depends on how
    etcd is set up. So this is a reason to watch anew, not to worry.
    """


class TooLarge(Unreachable):
    """More came than anything that was asked for can have; it was not read to its end."""


class Untrusted(Unreachable):
    """The server showed a certificate that the configured CA does not vouch for."""


class Undecodable(KubeError):
    """The answer is not what its type says it should be."""


class ApiError(KubeError):
    """The API server answered, and said no."""

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"the API server answered with HTTP {status}")
        self.status = status
        self.reason = reason
        self.message = str(self)
        self.details = details or {}
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the object cannot even be read, such as a text where a list belongs."""


class Unauthorized(ApiError):
    """401: the API server does not know who is asking."""


class Forbidden(ApiError):
    """403: the API server knows who is asking, and refuses."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: the object changed since it was read, or another field manager owns a field."""


class AlreadyExists(ApiError):
    """409 on create. Not a `Conflict`: reading again and repeating would not help."""


class Gone(ApiError):
    """410: the resource version or the continue token is too old; list again."""


class Invalid(ApiError):
    """422: the object breaks a rule of its schema or of an admission policy."""


class TooManyRequests(ApiError):
    """429: come back after `retry_after` seconds; for an eviction, a disruption budget."""


class ServerError(ApiError):
    """5xx."""


class Status(msgspec.Struct, rename="camel"):
    """The API server's own form of an error."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None
    status: str = ""
    kind: str = ""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_BY_REASON: dict[str, type[ApiError]] = {"AlreadyExists": AlreadyExists, "Expired": Gone}
# To an object that it cannot read, server-side apply answers 500, as if that were its own fault.
_UNREADABLE = "failed to create typed patch object"
_status_decoder = msgspec.json.Decoder(Status)


def error_from_status(status: Status, retry_after: float | None = None) -> ApiError:
    """The typed error for a Status object."""
    details = status.details or {}
    if retry_after is None:
        seconds = details.get("retryAfterSeconds")
        # The API server leaves the field out, or writes 0, where it has no advice.
        retry_after = float(seconds) if isinstance(seconds, int) and seconds > 0 else None
    error = _BY_REASON.get(status.reason) or _BY_STATUS.get(status.code)
    if status.code == 500 and status.message.startswith(_UNREADABLE):
        error = BadRequest
    if error is None:
        error = ServerError if status.code >= 500 else ApiError
    return error(status.code, status.reason, status.message, details, retry_after)


NOT_KUBERNETES = "this is not how an API server answers: check its address, and proxies on the way"


def error_from_response(code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The typed error for an HTTP answer, also where a proxy on the way wrote the body."""
    try:
        status = _status_decoder.decode(body)
    except UNREADABLE_JSON:
        status = Status()
    if status.kind != "Status":
        text = " ".join(body[:300].decode(errors="replace").split())
        status = Status(message=f"HTTP {code}: {text} ({NOT_KUBERNETES})" if text else "")
    status.code = code
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
    # Zero is no advice: obeyed to the letter, it would be asked again without any pause.
    return error_from_status(status, seconds if 0 < seconds < float("inf") else None)
