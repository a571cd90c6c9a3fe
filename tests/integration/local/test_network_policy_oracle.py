"""Compiled NetworkPolicies do what cyclonus, which was written by others, says they do."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import pytest

from edgewise.local.network.policies.ruleset import ruleset
from tests.integration.local.packets import Room
from tests.oracles.network_policy import judge
from tests.oracles.network_policy.reading import Ruleset
from tests.oracles.network_policy.worlds import (
    NETWORKS,
    NODES,
    Case,
    random_case,
)

SHARES = ""
CASES = 500
POLICIES = 1000
# Real packets take a third of a second a case.
PACKET_CASES = 40
# What is built once a machine may take minutes; `make test` does it beforehand.
pytestmark = pytest.mark.timeout(1800)


def rulesets(case: Case) -> dict[str, str]:
    world = case.world()
    return {
        node: ruleset(world.verdicts(node), list(map(ip_network, NETWORKS[node])), "eth0")
        for node in NODES
    }


def test_a_thousand_random_policies_allow_what_the_judge_allows() -> None:
    cases = [random_case(seed) for seed in range(CASES)]
    assert sum(len(case.policies) for case in cases) >= POLICIES
    flows = [case.flows() for case in cases]
    verdicts = judge([case.question(these) for case, these in zip(cases, flows, strict=True)])
    wrong: list[str] = []
    passed = total = 0
    for seed, (case, these, answers) in enumerate(zip(cases, flows, verdicts, strict=True)):
        read = {node: Ruleset(text) for node, text in rulesets(case).items()}
        for flow, (ingress, egress) in zip(these, answers, strict=True):
            ends = {"egress": (flow.source, flow.destination, egress)}
            ends["ingress"] = (flow.destination, flow.source, ingress)
            for direction, (subject, peer, expected) in ends.items():
                pod = case.endpoints.get(subject)
                found = pod is None or read[pod.node].allows(
                    direction,
                    case.address(subject, flow.family),
                    case.address(peer, flow.family),
                    flow.protocol,
                    flow.port,
                )
                if found is not expected:
                    wrong.append(f"seed {seed}: {flow} {direction} is {found}")
            passed += ingress and egress
            total += 1
    assert not wrong, wrong[:5]
    # A judge that says the same to everything would agree with anything.
    assert 0.2 < passed / total < 0.9


@pytest.mark.root
async def test_packets_pass_where_the_judge_says_so() -> None:
    """A sample, with real packets of both families through a real filter."""
    tried = (("TCP", 80), ("TCP", 81), ("UDP", 5000))
    cases = [random_case(seed, nodes=NODES[:1], pods=4) for seed in range(PACKET_CASES)]
    flows = [case.flows(tried) for case in cases]
    verdicts = judge([case.question(these) for case, these in zip(cases, flows, strict=True)])
    passed = dropped = 0
    with Room(pods=4) as room:
        for seed, (case, these, answers) in enumerate(zip(cases, flows, verdicts, strict=True)):
            room.load(rulesets(case)[NODES[0]])
            arrived = await asyncio.to_thread(room.send, case, these)
            for flow, (ingress, egress) in zip(these, answers, strict=True):
                assert (flow in arrived) == (ingress and egress), f"seed {seed}: {flow}"
                passed, dropped = passed + (flow in arrived), dropped + (flow not in arrived)
    assert passed > 500
    assert dropped > 500


@pytest.mark.root
def test_a_pod_that_is_not_known_yet_waits_and_one_that_lies_is_not_heard() -> None:
    case = random_case(3, nodes=NODES[:1], pods=4)
    case.policies.clear()
    with Room(pods=4) as room:
        these = [f for f in case.flows((("UDP", 5000),)) if f.family == 4]
        room.load(rulesets(case)[NODES[0]])
        assert room.send(case, these) == set(these)
        known = {name: pod for name, pod in case.endpoints.items() if name != "pod-3"}
        room.load(rulesets(Case(case.namespaces, known, []))[NODES[0]])
        apart = {flow for flow in these if "pod-3" in (flow.source, flow.destination)}
        assert room.send(case, these) == set(these) - apart
        assert room.send_as(case, liar="pod-1", address="pod-2", to="pod-0") is False
        assert room.send_as(case, liar="pod-2", address="pod-2", to="pod-0") is True


@pytest.mark.root
def test_answers_pass_and_strangers_do_not() -> None:
    """Conntrack knows who began, for TCP as for UDP; a policy made later ends what it forbids."""
    case = random_case(3, nodes=NODES[:1], pods=4)
    case.policies[:] = [_isolated(case, "pod-0", ["Ingress"])]
    with Room(pods=4) as room:
        room.load(rulesets(case)[NODES[0]])
        with room.conversation(case, "pod-0", "pod-1") as talk:
            assert talk.ask()
            assert talk.answer()
        with room.conversation(case, "pod-1", "pod-0") as talk:
            assert not talk.ask()
        with room.conversation(case, "pod-0", "pod-1") as talk:
            assert talk.ask()
            case.policies[:] = [_isolated(case, "pod-0", ["Egress"])]
            room.load(rulesets(case)[NODES[0]])
            assert not talk.ask()


def _isolated(case: Case, pod: str, types: list[str]) -> dict[str, object]:
    own = case.endpoints[pod]
    selector = {"matchLabels": dict(own.labels)}
    for name, other in list(case.endpoints.items()):
        if name != pod:  # so that it selects one alone
            labels = {**other.labels, "tier": "z"}
            case.endpoints[name] = type(other)(
                namespace=other.namespace,
                name=other.name,
                node=other.node,
                labels=labels,
                addresses=other.addresses,
                ports=other.ports,
            )
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "isolated", "namespace": own.namespace},
        "spec": {"podSelector": selector, "policyTypes": types},
    }
