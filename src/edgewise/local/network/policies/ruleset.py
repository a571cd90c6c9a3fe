"""A node's verdicts as one transaction of `nft`. Pure: text out.

The filter stands where the node forwards, so what the node itself says to its pods (probes of the
kubelet) and what pods say to their node pass, as Kubernetes wants it. It sees packets after a
Service's address has become a pod's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from edgewise.local.network.policies.compiler import FAMILIES, Address, Opening, Verdicts
from edgewise.local.network.policies.spans import Span

TABLE = "edgewise-policies"
_ADDRESS = {4: IPv4Address, 6: IPv6Address}
_WORD = {4: "ip", 6: "ip6"}
_TYPE = {4: "ipv4_addr", 6: "ipv6_addr"}
# Before kube-proxy's own filter, which is at the usual place.
_PRIORITY = -5
Network = IPv4Network | IPv6Network


def removal() -> str:
    """Also where there is none."""
    return f"table inet {TABLE}\ndelete table inet {TABLE}\n"


def closed(networks: Sequence[Network], uplink: str) -> str:
    """For a node of whose pods nothing is known yet."""
    return ruleset(Verdicts((), {}, {}), networks, uplink)


def ruleset(verdicts: Verdicts, networks: Sequence[Network], uplink: str) -> str:
    """All of the table, in the place of the one before.

    `networks` are those of the node's own pods: who has an address there and is not known yet
    has to wait, because policies may select it. `uplink` leads to everything else.
    """
    parts = [
        *_chains("ingress", "saddr", verdicts.ingress),
        *_chains("egress", "daddr", verdicts.egress),
        *(part for family in FAMILIES for part in _maps(verdicts, family)),
        _forward(networks, uplink),
    ]
    body = "\n".join(parts)
    return f"{removal()}table inet {TABLE} {{\n{body}}}\n"


def _forward(networks: Sequence[Network], uplink: str) -> str:
    unknown = [
        f"{_WORD[network.version]} {end} {network} {_WORD[network.version]} {end} "
        f"!= @known{network.version} drop"
        for network in networks
        for end in ("saddr", "daddr")
    ]
    return _chain(
        "forward",
        [
            f"type filter hook forward priority {_PRIORITY}; policy accept;",
            # Policies go by addresses: a pod speaks with its own, or not at all.
            f'iifname != "{uplink}" fib saddr . iif oif missing drop',
            # Answers pass. What began under a former policy is judged anew with each packet.
            "ct state established ct direction reply accept",
            "ct state related accept",
            *unknown,
            # No policy comes between a pod and itself, behind a Service.
            *(f"{_WORD[f]} saddr . {_WORD[f]} daddr @self{f} accept" for f in FAMILIES),
            *(f"{_WORD[f]} saddr vmap @egress{f}" for f in FAMILIES),
            *(f"{_WORD[f]} daddr vmap @ingress{f}" for f in FAMILIES),
        ],
    )


def _maps(verdicts: Verdicts, family: int) -> Iterable[str]:
    known = [address for address in verdicts.known if address.version == family]
    yield _set(f"known{family}", f"type {_TYPE[family]}", [str(a) for a in sorted(known, key=int)])
    pairs = [f"{address} . {address}" for address in sorted(known, key=int)]
    yield _set(f"self{family}", f"type {_TYPE[family]} . {_TYPE[family]}", pairs)
    for direction, openings in (("egress", verdicts.egress), ("ingress", verdicts.ingress)):
        elements = [
            f"{address} : jump {chain_name(direction, opening)}"
            for address, opening in _in_order(openings)
            if address.version == family
        ]
        yield _set(f"{direction}{family}", f"type {_TYPE[family]} : verdict", elements, what="map")


def _in_order(openings: Mapping[Address, Opening]) -> list[tuple[Address, Opening]]:
    return sorted(openings.items(), key=lambda item: (item[0].version, int(item[0])))


def chain_name(direction: str, opening: Opening) -> str:
    """Pods with the same opening share its chain."""
    spans = {
        family: [(span.first, span.last, _sorted_ports(span)) for span in opening.of(family)]
        for family in FAMILIES
    }
    # Python's own hash would be another one in the next process.
    return f"{direction}_{hashlib.sha256(repr(spans).encode()).hexdigest()[:16]}"


def _sorted_ports(span: Span) -> list[tuple[str, int, int]] | None:
    if span.ports is None:
        return None
    return [(each.protocol, each.first, each.last) for each in sorted(span.ports)]


def _chains(direction: str, end: str, openings: Mapping[Address, Opening]) -> Iterable[str]:
    by_name = {chain_name(direction, opening): opening for opening in openings.values()}
    for name, opening in sorted(by_name.items()):
        rules = []
        for family in FAMILIES:
            word, type_ = _WORD[family], _TYPE[family]
            whole = [_stretch(span, family) for span in opening.of(family) if span.ports is None]
            ported = [
                f"{_stretch(span, family)} . {protocol} . {_range(first, last)}"
                for span in opening.of(family)
                for protocol, first, last in _sorted_ports(span) or ()
            ]
            if whole:
                yield _set(f"{name}_all{family}", f"type {type_}; flags interval", whole)
                rules.append(f"{word} {end} @{name}_all{family} return")
            if ported:
                described = f"type {type_} . inet_proto . inet_service; flags interval"
                yield _set(f"{name}_ports{family}", described, ported)
                rules.append(f"{word} {end} . meta l4proto . th dport @{name}_ports{family} return")
        yield _chain(name, [*rules, "drop"])


def _stretch(span: Span, family: int) -> str:
    first, last = (str(_ADDRESS[family](place)) for place in (span.first, span.last))
    return first if first == last else f"{first}-{last}"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _set(name: str, described: str, elements: Sequence[str], *, what: str = "set") -> str:
    held = f" elements = {{ {', '.join(elements)} }}" if elements else ""
    return f"  {what} {name} {{ {described};{held} }}\n"


def _chain(name: str, rules: Iterable[str]) -> str:
    lines = "".join(f"    {rule}\n" for rule in rules)
    return f"  chain {name} {{\n{lines}  }}\n"
