"""A domain is one record: what it adds to Kubernetes, and how the programs come to serve it.

Each program has one explicit tuple of domains and takes another one as an argument; nothing is
discovered, and nothing registers itself. Begin at `Domain`; `edgewise.sessions.domain` is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec

from edgewise.api.installation import install
from edgewise.errors import ReadableError
from edgewise.exposure.publishing import RoutePublisher
from edgewise.exposure.site import Site
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.admission import MutatingAdmissionPolicy
from edgewise.kube.kinds.rbac import PolicyRule
from edgewise.kube.objects import Kind, Object
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.controller import Controller
from edgewise.runtime.health_server import Handler
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.tasks import Task
from edgewise.runtime.webhooks.serving import Webhook

Flag = str | bool | int | float


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A flag of the operator that a domain reads. Its type is that of its default."""

    name: str  # without the dashes in front
    default: Flag
    help: str


# One switch for all: what an author may have made is the same question in each domain.
CHECK_AUTHORS = Option(
    name="check-authors",
    default=True,
    help="Ask whether who writes an object may create the pods and else that it describes.",
)
# Which any domain may have among its options; every other one belongs to one domain.
SHARED_OPTIONS = (CHECK_AUTHORS,)
SEVERAL = "several domains"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator gives every domain that it runs."""

    client: Client
    caches: SharedCaches  # of the manager: whatever is asked for in `build` is kept up to date
    metrics: Metrics
    http: aiohttp.ClientSession
    namespace: str  # the operator's own
    site: Site
    publisher: RoutePublisher
    options: Mapping[str, Flag]  # the domain's own, by name; every one of them is there


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """A domain's part of one operator."""

    controllers: Sequence[Controller[Any]] = ()
    webhooks: Sequence[Webhook[Any]] = ()  # served by every replica
    leader_tasks: Sequence[Task] = ()  # run while this replica leads
    replica_tasks: Sequence[Task] = ()  # run in every replica
    # Below /<domain>/ on the operator's listener, in every replica. Who calls is their concern.
    handlers: Sequence[Handler] = ()


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """What a program may do because of this domain, as the chart grants it."""

    program: str  # operator, gateway, uninstall, or one of the domain's own
    cluster: tuple[PolicyRule, ...] = ()  # in all namespaces
    namespace: tuple[PolicyRule, ...] = ()  # in the namespace of the installation
    # The values of the chart that must be set for it, such as operator.gatewayApi; with ! in
    # front, not set.
    when: tuple[str, ...] = ()


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program beside operator, gateway and server."""

    name: str
    command: tuple[str, ...]  # what follows `edgewise`; it has to take --kubeconfig
    chart: str  # its file in deploy/chart/templates/<domain>


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that the domain's controllers make, for who has to find them without these.

    They have the label, and an owner of a kind of the domain or the annotation: a label can be
    put on anything.
    """

    kind: Kind
    label: str
    annotation: str = ""


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the house has to know of a domain.

    `cluster_objects` are cluster-wide and the same everywhere: policies, ClusterRoles,
    PriorityClasses. The chart and `edgewise local` install them; the operator writes none, so
    it needs no right to.
    """

    name: str
    kinds: tuple[type[Object], ...]  # that the operator needs in a cluster
    build: Callable[[Context], Built]
    hub_kinds: tuple[type[Object], ...] = ()  # that the server needs in the hub
    # Which of its kinds it holds back with a finalizer, that only its programs take off.
    finalizers: Mapping[type[Object], str] = {}
    made: tuple[Made, ...] = ()
    options: tuple[Option, ...] = ()
    cluster_objects: tuple[Object, ...] = ()
    # MutatingAdmissionPolicies and their bindings, which not every API server has: they are
    # installed where it has them.
    mutating_policies: tuple[Object, ...] = ()
    # What values of the chart say, as it is by default: the chart has a template for each.
    settings: tuple[Object, ...] = ()
    programs: tuple[Program, ...] = ()
    rights: tuple[Rights, ...] = ()


class DomainMistake(ReadableError):
    """The domains of a program do not fit together."""


def check_domains(domains: Iterable[Domain], flags: Iterable[str] = ()) -> None:
    """Raise, in one sentence, for what would otherwise be found by chance; `flags` are taken."""
    names: set[str] = set()
    taken = dict.fromkeys(flags, "the operator")
    programs: dict[str, str] = {}
    for domain in domains:
        if domain.name in names:
            raise DomainMistake(f"there are two domains {domain.name}")
        names.add(domain.name)
        for option in domain.options:
            shared, owner = option in SHARED_OPTIONS, taken.get(option.name)
            if owner and not (shared and owner == SEVERAL):
                raise DomainMistake(f"--{option.name} of {domain.name} belongs to {owner} already")
            taken[option.name] = SEVERAL if shared else domain.name
        for program in domain.programs:
            if owner := programs.get(program.name):
                raise DomainMistake(f"both {owner} and {domain.name} have a program {program.name}")
            programs[program.name] = domain.name


def check_built(domain: Domain, built: Built) -> Built:
    for handler in built.handlers:
        if not handler.path.startswith(f"/{domain.name}/"):
            raise DomainMistake(
                f"the handler {handler.path} of {domain.name} is not below /{domain.name}/"
            )
    return built


def cluster_kinds(domains: Iterable[Domain]) -> tuple[type[Object], ...]:
    """What a cluster that runs workloads needs, ordered by group and plural."""
    return _ordered(kind for domain in domains for kind in domain.kinds)


def hub_kinds(domains: Iterable[Domain]) -> tuple[type[Object], ...]:
    """What a hub needs, ordered by group and plural."""
    return _ordered(kind for domain in domains for kind in domain.hub_kinds)


def all_kinds(domains: Iterable[Domain]) -> tuple[type[Object], ...]:
    """Of hub and clusters, ordered by group and plural."""
    known = tuple(domains)
    return _ordered((*cluster_kinds(known), *hub_kinds(known)))


def program_commands(domains: Iterable[Domain]) -> dict[str, tuple[str, ...]]:
    """The programs of the domains that run beside operator and gateway, and their arguments."""
    return {each.name: each.command for domain in domains for each in domain.programs}


async def install_domains(
    client: Client, domains: Sequence[Domain], kinds: Iterable[type[Object]]
) -> None:
    """The CRDs of these kinds and the cluster objects of the domains. Safe to repeat."""
    await install(client, kinds)
    for domain in domains:
        for each in (*domain.settings, *domain.cluster_objects):
            await client.apply(each)
    if await mutates_by_policy(client):
        for domain in domains:
            for each in domain.mutating_policies:
                await client.apply(each)


async def mutates_by_policy(client: Client) -> bool:
    """Whether the API server has MutatingAdmissionPolicies."""
    kind = MutatingAdmissionPolicy.KIND
    try:
        await client.kind_of(kind.api_version, kind.kind)
    except NotFound:
        return False
    return True


def _ordered(kinds: Iterable[type[Object]]) -> tuple[type[Object], ...]:
    return tuple(sorted(set(kinds), key=lambda kind: (kind.KIND.group, kind.KIND.plural)))
