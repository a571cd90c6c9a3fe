"""What can be done with sessions through the API, and who may do it."""

from __future__ import annotations

from edgewise.server.identity.permissions import Action, Reach
from edgewise.server.identity.principal import Role

_A, _O, _S = Reach.ALL, Reach.OWN, Reach.SELF

_ALL_BUT_CLIENTS = {Role.ADMIN: _A, Role.APP: _A, Role.READER: _A}
_READ = {Role.ADMIN: _A, Role.APP: _O, Role.READER: _A}
_WRITE = {Role.ADMIN: _A, Role.APP: _O}
_READ_ITSELF = {**_READ, Role.CLIENT: _S}
_WRITE_ITSELF = {**_WRITE, Role.CLIENT: _S}

READ_TEMPLATES = Action("read templates", _ALL_BUT_CLIENTS)
# A client has to measure the locations before it can join.
READ_LOCATIONS = Action("read locations", {**_ALL_BUT_CLIENTS, Role.CLIENT: _A})
CORDON = Action("cordon a location", {Role.ADMIN: _A})
WATCH_ALL = Action("watch everything", {Role.ADMIN: _A, Role.READER: _A})
# A client may not read its session: who else is there is for the application to tell.
LIST_SESSIONS = Action("list sessions", _READ)
READ_SESSION = Action("read a session", _READ)
WATCH_SESSION = Action("watch a session", _READ)
CREATE_SESSION = Action("create a session", _WRITE)
DELETE_SESSION = Action("delete a session", _WRITE)
ISSUE_CLIENT_TOKEN = Action("issue a client token", _WRITE)
READ_CLIENT = Action("read a client", _READ_ITSELF)
WATCH_CLIENT = Action("watch a client", _READ_ITSELF)
JOIN = Action("join", _WRITE_ITSELF)
MOVE = Action("move to another location", _WRITE_ITSELF)
HEARTBEAT = Action("send a heartbeat", _WRITE_ITSELF)
DISCONNECT = Action("report a client as disconnected", _WRITE_ITSELF)
LEAVE = Action("leave", _WRITE_ITSELF)

ACTIONS = (
    READ_TEMPLATES,
    READ_LOCATIONS,
    CORDON,
    WATCH_ALL,
    LIST_SESSIONS,
    READ_SESSION,
    WATCH_SESSION,
    CREATE_SESSION,
    DELETE_SESSION,
    ISSUE_CLIENT_TOKEN,
    READ_CLIENT,
    WATCH_CLIENT,
    JOIN,
    MOVE,
    HEARTBEAT,
    DISCONNECT,
    LEAVE,
)
