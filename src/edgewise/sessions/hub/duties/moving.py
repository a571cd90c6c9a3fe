"""Moves a client to the best of some places that takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from edgewise.api.global_sessions import BindingState, ClientBinding, GlobalSession
from edgewise.sessions.hub.bindings import Bindings, BindingTaken
from edgewise.sessions.hub.choosing.ranking import Choice
from edgewise.sessions.hub.joining import Joining, NotHere


async def move_on(
    joining: Joining,
    bindings: Bindings,
    session: GlobalSession,
    binding: ClientBinding,
    choices: Iterable[Choice],
    *,
    because: str,
    **fields: Any,
) -> str:
    """Where the client sits now; empty if it was not moved, or somebody else has seen to it.

    `fields` are written into the binding with the move.
    """
    left = binding.spec.location
    for choice in choices:
        told = msgspec.structs.replace(choice, why=f"{because}; {choice.why}")
        try:
            await joining.move(session, binding, told, **fields)
        except NotHere:
            current = await bindings.read(session, binding.spec.client)
            if current is None or current.spec.location != left:
                return ""
            if current.spec.state is not BindingState.SEATED:
                return ""
            binding = current
        except BindingTaken:
            return ""
        else:
            return choice.name
    return ""
