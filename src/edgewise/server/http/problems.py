"""Errors as callers see them: RFC 9457 problem details, one sentence each."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.routes import HTTPRoute
from litestar.types import ExceptionHandlersMap

from edgewise.errors import ReadableError
from edgewise.runtime.errors import NotThere, Refused, ServiceError, Unacceptable, Unavailable
from edgewise.server.http.request_ids import request_id
from edgewise.server.identity.principal import IdentityUnavailable, Unauthenticated

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What went wrong. `type` is for programs, `detail` for people."""

    type: str
    title: str
    status: int
    detail: str = ""
    request_id: str = ""
    """Name it when you ask somebody about this."""
    location: str = ""
    """Only where a client sits in another location than the one asked for: that one."""


class NotAllowed(ReadableError):
    """Known, and not allowed."""


class TooMany(ReadableError):
    """Over the limit; `retry_after` seconds until it will do."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProblemKind(msgspec.Struct, frozen=True):
    """How an error is answered, and all that are below it and have no kind of their own."""

    error: type[Exception]
    status: int
    slug: str
    title: str


KINDS = (
    ProblemKind(Unavailable, 503, "unavailable", "Not possible now"),
    ProblemKind(NotThere, 404, "not-found", "Not found"),
    ProblemKind(Refused, 409, "conflict", "Not possible as things are"),
    ProblemKind(Unacceptable, 422, "unacceptable", "The request makes no sense"),
    ProblemKind(ServiceError, 409, "conflict", "Not possible as things are"),
    ProblemKind(Unauthenticated, 401, "unauthenticated", "Who are you?"),
    ProblemKind(
        IdentityUnavailable, 503, "identity-unavailable", "Your token cannot be checked now"
    ),
    ProblemKind(NotAllowed, 403, "forbidden", "Not allowed"),
    ProblemKind(TooMany, 429, "too-many-requests", "Slow down"),
)

_TITLES = {
    400: ("bad-request", "The request cannot be understood"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "This is not done here"),
    413: ("too-large", "The request is too large"),
    415: ("unsupported-media-type", "Send JSON"),
}


def handle_known(
    kind: ProblemKind, request: Request[Any, Any, Any], error: Exception
) -> Response[Problem]:
    """Everything that this server raises on purpose."""
    headers = {}
    retry_after = getattr(error, "retry_after", None)
    if retry_after is None and isinstance(error, IdentityUnavailable):
        retry_after = 5
    if retry_after is not None:
        headers["Retry-After"] = str(math.ceil(retry_after))
    if kind.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _answer(
        request,
        status=kind.status,
        slug=kind.slug,
        title=kind.title,
        detail=str(error),
        headers=headers,
        location=getattr(error, "location", ""),
    )


def handle_http(
    patterns: Mapping[str, str], request: Request[Any, Any, Any], error: HTTPException
) -> Response[Problem]:
    """What the framework refuses: unknown paths, bad parameters, bodies that do not fit."""
    status = error.status_code
    detail = error.detail
    if isinstance(error, ValidationException):
        status, detail = 400, _explained(error, patterns)
    if status >= 500:
        return handle_unknown(request, error)
    slug, title = _TITLES.get(status, ("bad-request", "The request cannot be understood"))
    headers = {"Allow": _allowed(request)} if status == 405 else None
    return _answer(request, status=status, slug=slug, title=title, detail=detail, headers=headers)


def handle_depth(request: Request[Any, Any, Any], _: RecursionError) -> Response[Problem]:
    """JSON that is nested deeper than anybody means it."""
    slug, title = _TITLES[400]
    return _answer(
        request, status=400, slug=slug, title=title, detail="the body is nested too deep"
    )


def handle_unknown(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """A mistake of ours: the caller gets an id, the log gets the rest."""
    _log.error("request %s failed", request_id(request.scope), exc_info=error)
    return _answer(
        request,
        status=500,
        slug="internal-error",
        title="A mistake of the server",
        detail="the server made a mistake; its log knows more under this request id",
    )


def _allowed(request: Request[Any, Any, Any]) -> str:
    """The methods that this path does know."""
    steps = [step for step in request.scope["path"].split("/") if step]
    methods: set[str] = set()
    for route in request.app.routes:
        parts = route.path_components
        if isinstance(route, HTTPRoute) and len(parts) == len(steps):
            fits = (
                not isinstance(part, str) or part == step
                for part, step in zip(parts, steps, strict=True)
            )
            if all(fits):
                methods |= set(route.methods)
    return ", ".join(sorted(methods))


def _answer(
    request: Request[Any, Any, Any],
    *,
    status: int,
    slug: str,
    title: str,
    detail: str,
    headers: dict[str, str] | None = None,
    location: str = "",
) -> Response[Problem]:
    problem = Problem(
        type=f"/problems/{slug}",
        title=title,
        status=status,
        detail=detail,
        request_id=request_id(request.scope),
        location=location,
    )
    return Response(problem, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _explained(error: ValidationException, patterns: Mapping[str, str]) -> str:
    extra: Any = error.extra
    for found in extra if isinstance(extra, list) else ():
        where, what = str(found.get("key", "")), str(found.get("message", ""))
        # A part that was left out, as it may be, is listed with nothing but its own name.
        if what != repr(where):
            for pattern, rule in patterns.items():
                if pattern in what:
                    return f"{where} {rule}"
            return f"{where}: {what}".strip(": ")
    return error.detail


def documented(*statuses: int, special: Sequence[ProblemKind] = ()) -> dict[int, ResponseSpec]:
    """For OpenAPI: what a route may answer besides success; `special` are kinds of its domain."""
    kinds: dict[int, dict[str, str]] = {}
    for kind in (*special, *KINDS):
        kinds.setdefault(kind.status, {})[kind.slug] = kind.title
    kinds.update({status: {slug: title} for status, (slug, title) in _TITLES.items()})
    return {
        status: ResponseSpec(
            Problem,
            generate_examples=False,
            description="; ".join(f"{slug}: {title}" for slug, title in kinds[status].items()),
            media_type=MEDIA_TYPE,
        )
        for status in statuses
    }


def handlers(
    special: Sequence[ProblemKind] = (), patterns: Mapping[str, str] | None = None
) -> ExceptionHandlersMap:
    """A handler for every error that is raised on purpose, and for all others.

    A pattern of a parameter says to a program what `patterns` says for it to a person.
    """
    return {
        **{kind.error: partial(handle_known, kind) for kind in (*special, *KINDS)},
        HTTPException: partial(handle_http, patterns or {}),
        RecursionError: handle_depth,
        Exception: handle_unknown,
    }
