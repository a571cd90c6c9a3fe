"""Reads a ruleset's text as the kernel would, and says what it does to a packet.

It knows the few kinds of rules that rulesets are made of, and fails on any other.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from edgewise.local.network.policies.compiler import Address

_SET = re.compile(r"^  (?:set|map) (\S+) \{ [^{]*?(?:elements = \{ (.*) \} )?\}$", re.MULTILINE)
_CHAIN = re.compile(r"^  chain (\S+) \{\n(.*?)^  \}", re.MULTILINE | re.DOTALL)
_ALL = re.compile(r"ip6? [sd]addr @(\S+) return")
_PORTS = re.compile(r"ip6? [sd]addr \. meta l4proto \. th dport @(\S+) return")


class Ruleset:
    def __init__(self, text: str) -> None:
        self.sets = {name: (held.split(", ") if held else []) for name, held in _SET.findall(text)}
        self.chains = {
            name: [line.strip() for line in body.splitlines()]
            for name, body in _CHAIN.findall(text)
        }
        self.jumps = {
            name: dict(element.split(" : jump ") for element in held)
            for name, held in self.sets.items()
            if name in ("ingress4", "ingress6", "egress4", "egress6")
        }

    def allows(
        self, direction: str, subject: Address, peer: Address, protocol: str, port: int
    ) -> bool:
        chain = self.jumps[f"{direction}{subject.version}"].get(str(subject))
        if chain is None:
            return True
        for rule in self.chains[chain]:
            if rule == "drop":
                return False
            if found := _ALL.fullmatch(rule):
                if self._of_family(found[1], peer) and self._holds(found[1], peer):
                    return True
            elif found := _PORTS.fullmatch(rule):
                if self._of_family(found[1], peer) and self._opens(found[1], peer, protocol, port):
                    return True
            else:
                raise AssertionError(f"a rule that nobody knows: {rule}")
        raise AssertionError(f"chain {chain} does not say what happens in the end")

    @staticmethod
    def _of_family(name: str, peer: Address) -> bool:
        return name.endswith(str(peer.version))

    def _holds(self, name: str, peer: Address) -> bool:
        return any(_within(element, peer) for element in self.sets[name])

    def _opens(self, name: str, peer: Address, protocol: str, port: int) -> bool:
        for element in self.sets[name]:
            place, which, ports = element.split(" . ")
            first, _, last = ports.partition("-")
            if (
                which == protocol.lower()
                and int(first) <= port <= int(last or first)
                and _within(place, peer)
            ):
                return True
        return False


def _within(text: str, address: Address) -> bool:
    first, _, last = text.partition("-")
    return int(ip_address(first)) <= int(address) <= int(ip_address(last or first))
