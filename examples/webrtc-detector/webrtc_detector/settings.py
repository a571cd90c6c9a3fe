"""The server's settings, from its environment."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from webrtc_detector.ice import Turn


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it."""


class Settings(msgspec.Struct, frozen=True):
    host: str
    port: int
    max_clients: int
    turn: Turn | None
    # With TURN_URLS alone, each client brings its own credentials in its offer.
    turn_urls: list[str]


def from_environment(environment: Mapping[str, str]) -> Settings:
    urls = environment.get("TURN_URLS", "").replace(",", " ").split()
    user, password = environment.get("TURN_USERNAME", ""), environment.get("TURN_PASSWORD", "")
    if bool(user) != bool(password):
        raise SettingsError("TURN_USERNAME and TURN_PASSWORD belong together; one is missing")
    if user and not urls:
        raise SettingsError("TURN_USERNAME is set, but TURN_URLS is not")
    try:
        checked = Turn(urls, user, password) if urls else None
    except ValueError as error:
        raise SettingsError(f"TURN_URLS: {error}") from error
    return Settings(
        host=environment.get("HOST", "0.0.0.0"),  # noqa: S104 — a pod's address is known to no one
        port=_number(environment, "PORT", 8080, 65535),
        max_clients=_number(environment, "MAX_CLIENTS", 1, 1000),
        turn=checked if user else None,
        turn_urls=urls,
    )


def _number(environment: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = environment.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise SettingsError(f"{name} must be a whole number from 1 to {most}, not {text!r}")
    return int(text)
