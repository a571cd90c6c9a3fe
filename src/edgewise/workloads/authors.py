"""The author of an object must be allowed to create what it describes.

The operator makes pods and further objects with its own rights, so without this anybody who may
write an object that describes pods could have any pod made, with any service account of the
namespace. What is asked of the author is the domain's to say; the parts that are the same for
every pod are here:

- `create pods`;
- `impersonate` of each service account that a pod names, but for `default`. In Kubernetes whoever
  may create pods may use every service account of the namespace; but policies that say otherwise
  look at who creates the pod, and that is the operator. The usual roles `edit` and `admin` include
  this right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

DEFAULT_ACCOUNT = "default"


class Right(msgspec.Struct, frozen=True):
    """Something that somebody may do in a namespace."""

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {what}{f' {self.name}' if self.name else ''}"


PODS = Right("create", "", "pods")


def exemption(group: str) -> Right:
    """Who holds it is asked nothing else.

    It is no verb of the kinds of the group, so that a role with all verbs on them does not
    include it.
    """
    return Right("escalate", group, "authors")


def accounts(pod: Mapping[str, Any], at: str) -> Iterator[tuple[Right, str]]:
    """Of a PodSpec. The older name of the field still works, so it counts too."""
    for field in ("serviceAccountName", "serviceAccount"):
        name = pod.get(field)
        if name and name != DEFAULT_ACCOUNT:
            yield Right("impersonate", "", "serviceaccounts", str(name)), f"{at}.{field}"


def refusal(user: str, namespace: str, right: Right, at: str) -> str:
    return (
        f"{at}: {user} may not {right} in the namespace {namespace}, and so may not have that "
        f"done by the operator: ask for that right, or let somebody who has it write this"
    )
