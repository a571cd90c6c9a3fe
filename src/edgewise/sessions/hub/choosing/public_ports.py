"""Public ports are a capacity, too: counted from what clusters have and who sits there.

The operator of a cluster says in the status of a template how many its gateways have. What this
cannot know (ports that others in the cluster took, or two replicas that give away the last one) is
learned from the client that gets none, which then goes elsewhere: see `degraded`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from edgewise.api.sessions import SessionTemplate
from edgewise.sessions.hub.choosing.ledger import Ledger
from edgewise.sessions.hub.members import Member
from edgewise.sessions.hub.records import Hub
from edgewise.sessions.pods import public_ports_of


class PublicPorts:
    def __init__(self, hub: Hub, ledger: Ledger) -> None:
        self._hub = hub
        self._ledger = ledger

    def needs(self, template: SessionTemplate | None) -> Mapping[str, int]:
        """Of one client, by protocol."""
        return public_ports_of(template.spec) if template is not None else {}

    def needs_in(self, session: str) -> Mapping[str, int]:
        found = self._hub.session(session)
        return self.needs(self._hub.template(found.spec.template)) if found is not None else {}

    def free(self, member: Member | None) -> Mapping[str, int] | None:
        """By protocol; None where the cluster does not say how many it has."""
        if member is None:
            return None
        said = [each.status.public_ports for each in member.templates]
        most = max((each for each in said if each is not None), default=None)
        if most is None:
            return None
        left = Counter({"TCP": most, "UDP": most})
        for session, clients in self._ledger.sessions_in(member.name).items():
            for protocol, number in self.needs_in(session).items():
                left[protocol] -= clients * number
        return left
