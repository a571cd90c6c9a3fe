"""How the parts of a session are named and labelled.

Names are derived, never drawn: two operators that plan the same pod name it alike, and the
API server lets only one of them create it. Numbers in names only grow, so the name of a pod
that is gone is never given to another one.
"""

from __future__ import annotations

import hashlib

from edgewise.api.sessions import GROUP, SessionTemplate

SESSION = f"{GROUP}/session"  # the name of the session a pod was made for
SESSION_UID = f"{GROUP}/session-uid"
TEMPLATE = f"{GROUP}/template"  # the SessionTemplate that a shared pod belongs to
TEMPLATE_UID = f"{GROUP}/template-uid"
POD_TEMPLATE = f"{GROUP}/pod-template"
POD = f"{GROUP}/pod"  # lets a Service select one pod
REVISION = f"{GROUP}/revision"
CHILD = f"{GROUP}/child"  # marks all objects that accompany a session or template
BOUND = f"{GROUP}/bound"  # narrows the selectors of bound resources
# Annotations.
ORDINAL = f"{GROUP}/ordinal"
DIGEST = f"{GROUP}/digest"
POD_UID = f"{GROUP}/pod-uid"
RESTARTS = f"{GROUP}/restarts"
CONFIRMED = f"{GROUP}/confirmed"

TEMPLATE_KIND = SessionTemplate.KIND
TEMPLATE_FINALIZER = f"{GROUP}/in-use"

_OWNER_PART = 24
_BOUND_NAME = 52  # a StatefulSet adds a number and a hash to it


def pod_name(owner: str, owner_uid: str, pod_template: str, ordinal: int) -> str:
    """At most 63 characters, so that it is also a host name and a label."""
    return f"{_stem(owner, owner_uid, pod_template)}-{ordinal}"


def bound_name(owner: str, resource: str, scope: str) -> str:
    """The name of a bound resource: foreseeable, because other pods look it up by DNS, and
    never that of another one. Dashes of the resource's own name are doubled, so the last odd
    number of dashes is what divides: one after a session, three after a template."""
    divider = "-" if scope == "Session" else "---"
    name = f"{owner}{divider}{resource.replace('-', '--')}"
    if len(name) <= _BOUND_NAME and "." not in owner:
        return name
    mark = _hash(owner, resource, scope, length=5)
    return f"{_cut(owner, _BOUND_NAME - len(resource) - len(mark) - 2)}-{mark}-{resource}"


def bound_label(owner: str, scope: str) -> str:
    """The value of a label that narrows selectors: the name, cut where it is too long. A
    session may have the name of its template, but no name has an underscore."""
    end = "" if scope == "Session" else f"_{scope.lower()}"
    if len(owner) + len(end) <= 63:
        return owner + end
    return f"{_cut(owner, 57 - len(end))}-{_hash(owner, length=5)}{end}"


def digest(content: bytes) -> str:
    """Tells whether something was made from this very content."""
    return hashlib.sha256(content).hexdigest()[:16]


def seat_service_name(seat: str) -> str:
    return f"seat-{seat}"


def port_claim_name(protocol: str, port: int) -> str:
    """HTTP never gets a port of its own, so TCP and UDP are all there is."""
    return f"{protocol.lower()}-{port}"


def _stem(owner: str, uid: str, part: str) -> str:
    return f"{_cut(owner, _OWNER_PART)}-{part}-{_hash(owner, uid, part, length=5)}"


def _cut(name: str, length: int) -> str:
    return name[:length].replace(".", "-").rstrip("-")


def _hash(*parts: str, length: int) -> str:
    digest = hashlib.sha256("/".join(parts).encode()).digest()
    # Letters and digits without vowels, as Kubernetes does it: no words come out of it.
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])
