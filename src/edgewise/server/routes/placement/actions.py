"""What can be done with placements through the API, and who may do it."""

from __future__ import annotations

from edgewise.server.identity.permissions import Action, Reach
from edgewise.server.identity.principal import Role

_WRITE = {Role.ADMIN: Reach.ALL, Role.APP: Reach.OWN}

# Client tokens do not fit: they name a session.
ISSUE_REPORT_KEY = Action("issue a report key", _WRITE)
REPORT = Action("report what clients measured", _WRITE)

ACTIONS = (ISSUE_REPORT_KEY, REPORT)
