"""Answers of the API server, or of something on the way to it, as typed errors."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.kube import errors


def status(code: int, reason: str = "", **more: object) -> bytes:
    return msgspec.json.encode(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, **more}
    )


TYPES = {
    "unknown user": (401, "Unauthorized", errors.Unauthorized),
    "not allowed": (403, "Forbidden", errors.Forbidden),
    "not there": (404, "NotFound", errors.NotFound),
    "changed meanwhile": (409, "Conflict", errors.Conflict),
    "already there": (409, "AlreadyExists", errors.AlreadyExists),
    "a list that is too old": (410, "Expired", errors.Gone),
    "a watch that is too old": (410, "Gone", errors.Gone),
    "against the schema": (422, "Invalid", errors.Invalid),
    "too fast": (429, "TooManyRequests", errors.TooManyRequests),
    "broken server": (500, "InternalError", errors.ServerError),
    "starting server": (503, "ServiceUnavailable", errors.ServerError),
    "bad request": (400, "BadRequest", errors.BadRequest),
    "unreadable teapot": (418, "Teapot", errors.ApiError),
}


@pytest.mark.parametrize("case", TYPES)
def test_each_answer_has_its_type(case: str) -> None:
    code, reason, expected = TYPES[case]
    error = errors.error_from_response(code, status(code, reason, message="because"))
    assert type(error) is expected
    assert (error.status, error.reason, str(error)) == (code, reason, "because")


def test_already_exists_is_not_a_conflict() -> None:
    assert not issubclass(errors.AlreadyExists, errors.Conflict)


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ("7", None, 7.0),
        (None, {"retryAfterSeconds": 3}, 3.0),
        ("7", {"retryAfterSeconds": 3}, 7.0),
        (None, {"retryAfterSeconds": 0}, None),
        ("0", None, None),
        ("0", {"retryAfterSeconds": 3}, 3.0),
        ("-1", None, None),
        ("nan", None, None),
        ("9" * 400, None, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, None),
        (None, None, None),
    ],
)
def test_the_advice_when_to_come_back_is_carried(
    header: str | None, details: dict[str, int] | None, expected: float | None
) -> None:
    error = errors.error_from_response(429, status(429, details=details), header)
    assert error.retry_after == expected


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"\xff\xfe", b"[]", b'{"kind":"x"}'])
def test_a_body_that_is_no_status_is_quoted(body: bytes) -> None:
    error = errors.error_from_response(502, body)
    assert type(error) is errors.ServerError
    assert str(error).startswith("HTTP 502: ")


def test_an_empty_body_still_makes_a_sentence() -> None:
    assert str(errors.error_from_response(502, b"")) == "the API server answered with HTTP 502"
