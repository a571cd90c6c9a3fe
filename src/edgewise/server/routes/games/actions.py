"""What can be done with games through the API, and who may do it."""

from __future__ import annotations

from edgewise.server.identity.permissions import Action, Reach
from edgewise.server.identity.principal import Role

_A, _O = Reach.ALL, Reach.OWN

_READ = {Role.ADMIN: _A, Role.APP: _O, Role.READER: _A}
_WRITE = {Role.ADMIN: _A, Role.APP: _O}

ALLOCATE = Action("allocate a server", _WRITE)
LIST_ALLOCATIONS = Action("list allocations", _READ)
READ_ALLOCATION = Action("read an allocation", _READ)
RENEW_ALLOCATION = Action("send a heartbeat for a match", _WRITE)
RELEASE = Action("release a server", _WRITE)
READ_GAME_OBJECTS = Action("read game objects", {Role.ADMIN: _A, Role.READER: _A})
WRITE_GAME_OBJECTS = Action("write game objects", {Role.ADMIN: _A})
FORCE_DELETION = Action("delete servers without asking their games", {Role.ADMIN: _A})

ACTIONS = (
    ALLOCATE,
    LIST_ALLOCATIONS,
    READ_ALLOCATION,
    RENEW_ALLOCATION,
    RELEASE,
    READ_GAME_OBJECTS,
    WRITE_GAME_OBJECTS,
    FORCE_DELETION,
)
