"""Where sessions come from: what every source of them can do.

A kubeconfig leads to one cluster. A server that knows many of them can be put beside it,
without a change to any command.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

from edgewise.cli.session.views import ClientView, SessionView, TemplateView
from edgewise.errors import ReadableError

Shown = Mapping[tuple[str, str], SessionView]  # by namespace and name


class SessionError(ReadableError):
    """A session command cannot do what it was asked, with what to do about it."""


class Sessions(Protocol):
    async def all(self, *, everywhere: bool = False) -> list[SessionView]:
        """The sessions of the namespace, or of all of them."""

    async def one(self, name: str) -> SessionView: ...

    async def templates(self, *, everywhere: bool = False) -> list[TemplateView]: ...

    async def create(self, name: str, spec: dict[str, Any]) -> bool:
        """Whether it is new; the same session once more is fine."""

    async def join(self, name: str, client: str) -> bool:
        """Whether it was not there before."""

    async def leave(self, name: str, client: str) -> bool:
        """Whether it was there before."""

    async def disconnect(self, name: str, client: str) -> None: ...

    async def delete(self, name: str) -> None: ...

    async def until_gone(self, session: SessionView, within: float) -> None:
        """Return when nothing is left of a deleted session."""

    def follow(
        self, name: str | None = None, *, everywhere: bool = False
    ) -> AsyncGenerator[Shown, None]:
        """What is there now, and again whenever it has changed."""

    async def tokens(self, client: ClientView) -> dict[str, str]:
        """Pod template to the token that the gateway asks for."""

    async def without_operator(self) -> str:
        """That no operator is at work, and what to do; empty while one is, or if unknown."""

    async def why_not_ready(self, session: SessionView, client: str) -> str:
        """The likeliest reason why a client is kept waiting."""
