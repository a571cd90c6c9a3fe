"""The author of a workload must be allowed to create what it describes.

Why, and what is asked for every pod, is in `edgewise.workloads.authors`. What is asked of the
author of a session or template follows from the workload:

- `create pods`, where it has pod templates;
- `create` of each kind in `resources`;
- `create services`, where seats get Services that open ports or names of their own;
- `impersonate` of each service account that a pod names.

Who holds `escalate` on `authors` in the API group of sessions is asked nothing else. It is no
verb of sessions themselves, so that a role with all verbs on them does not include it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgewise.api.sessions import GROUP, Workload
from edgewise.sessions.bound import WITH_PODS, complaint
from edgewise.sessions.shapes import mapping
from edgewise.workloads.authors import PODS, Right, accounts, exemption
from edgewise.workloads.children import CHILD_KINDS

# With the other exposures clients come by an entry that whoever runs the cluster has set up.
OPENING = frozenset(("NodePort", "LoadBalancer"))

SERVICES = Right("create", "", "services")
ESCALATE = exemption(GROUP)


def described(workload: Workload) -> tuple[Any, ...]:
    """The parts of a workload that are made into objects: what is asked when they change."""
    return workload.pod_templates, workload.resources, workload.exposure


def needed(workload: Workload, at: str) -> dict[Right, str]:
    """What the author must be allowed, and the field for which."""
    found: dict[Right, str] = {}
    for right, where in _needed(workload, at):
        found.setdefault(right, where)
    return found


def _needed(workload: Workload, at: str) -> Iterator[tuple[Right, str]]:
    for number, pod_template in enumerate(workload.pod_templates):
        where = f"{at}.podTemplates[{number}]"
        yield PODS, where
        yield from _accounts(pod_template.template, f"{where}.template")
        if pod_template.service:
            yield SERVICES, f"{where}.service"
    if workload.pod_templates and workload.exposure in OPENING:
        yield SERVICES, f"{at}.exposure"
    for number, resource in enumerate(workload.resources):
        where = f"{at}.resources[{number}].manifest"
        if complaint(resource):
            continue  # nothing is made of it
        kind = CHILD_KINDS[resource.manifest["kind"]].KIND
        yield Right("create", kind.group, kind.plural), where
        if kind.kind in WITH_PODS:
            template = mapping(mapping(resource.manifest.get("spec")).get("template"))
            yield from _accounts(template, f"{where}.spec.template")


def _accounts(template: dict[str, Any], at: str) -> Iterator[tuple[Right, str]]:
    yield from accounts(mapping(template.get("spec")), f"{at}.spec")
