"""How the parts of a session are named and labelled.

Names are derived, never drawn: two operators that plan the same pod name it alike, and the
API server lets only one of them create it. Numbers in names only grow, so the name of a pod
that is gone is never given to another one.
"""

from __future__ import annotations

from edgewise.api.sessions import GROUP, SessionTemplate
from edgewise.exposure.route import Owner
from edgewise.kube.objects import Key
from edgewise.workloads.names import cut_name, short_hash

DOMAIN = "sessions"

SESSION = f"{GROUP}/session"  # the name of the session a pod was made for
SESSION_UID = f"{GROUP}/session-uid"
TEMPLATE = f"{GROUP}/template"  # the SessionTemplate that a shared pod belongs to
TEMPLATE_UID = f"{GROUP}/template-uid"
POD_TEMPLATE = f"{GROUP}/pod-template"
POD = f"{GROUP}/pod"  # lets a Service select one pod
REVISION = f"{GROUP}/revision"
BOUND = f"{GROUP}/bound"  # narrows the selectors of bound resources
# Annotations.
ORDINAL = f"{GROUP}/ordinal"
POD_UID = f"{GROUP}/pod-uid"
RESTARTS = f"{GROUP}/restarts"
CONFIRMED = f"{GROUP}/confirmed"

TEMPLATE_KIND = SessionTemplate.KIND
TEMPLATE_FINALIZER = f"{GROUP}/in-use"

_BOUND_NAME = 52  # a StatefulSet adds a number and a hash to it


def owner_of_routes(session: Key) -> Owner:
    return Owner(DOMAIN, str(session))


def bound_name(owner: str, resource: str, scope: str) -> str:
    """The name of a bound resource: foreseeable, because other pods look it up by DNS, and
    never that of another one. Dashes of the resource's own name are doubled, so the last odd
    number of dashes is what divides: one after a session, three after a template."""
    divider = "-" if scope == "Session" else "---"
    name = f"{owner}{divider}{resource.replace('-', '--')}"
    if len(name) <= _BOUND_NAME and "." not in owner:
        return name
    mark = short_hash(owner, resource, scope, length=5)
    return f"{cut_name(owner, _BOUND_NAME - len(resource) - len(mark) - 2)}-{mark}-{resource}"


def bound_label(owner: str, scope: str) -> str:
    """The value of a label that narrows selectors: the name, cut where it is too long. A
    session may have the name of its template, but no name has an underscore."""
    end = "" if scope == "Session" else f"_{scope.lower()}"
    if len(owner) + len(end) <= 63:
        return owner + end
    return f"{cut_name(owner, 57 - len(end))}-{short_hash(owner, length=5)}{end}"


def seat_service_name(seat: str) -> str:
    return f"seat-{seat}"
