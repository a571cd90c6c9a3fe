"""Which proxy stands in the way: NO_PROXY as Go programs read it."""

from __future__ import annotations

import pytest

from edgewise.kube.errors import ConfigError
from edgewise.kube.proxies import choose_proxy

PROXY = "http://proxy.example:3128"

NOT_EXCEPTED = {
    "nothing is excepted": ("https://edge.example", ""),
    "another domain": ("https://edge.example", "other.example"),
    "a name that only ends the same": ("https://myedge.example", "edge.example"),
    "another port": ("https://edge.example:6443", "edge.example:443"),
    "an address outside the network": ("https://10.1.0.1", "10.0.0.0/16"),
}
EXCEPTED = {
    "everything": ("https://edge.example", "*"),
    "the name": ("https://edge.example", "a.example, edge.example"),
    "in capitals": ("https://edge.example", "EDGE.example"),
    "its domain": ("https://api.edge.example", "edge.example"),
    "its domain with a dot": ("https://api.edge.example", ".edge.example"),
    "its domain with a star": ("https://api.edge.example", "*.edge.example"),
    "the name with its port": ("https://edge.example:6443", "edge.example:6443"),
    "the address": ("https://10.0.0.1:6443", "10.0.0.1"),
    "the address with its port": ("https://10.0.0.1:6443", "10.0.0.1:6443"),
    "the network": ("https://10.0.0.1", "10.0.0.0/8"),
    "loopback, always": ("https://127.0.0.1:6443", ""),
    "localhost, always": ("https://localhost:6443", ""),
}


@pytest.mark.parametrize("case", NOT_EXCEPTED)
def test_the_proxy_is_used(case: str) -> None:
    server, exceptions = NOT_EXCEPTED[case]
    environment = {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}
    assert choose_proxy(server, "", environment) == PROXY


@pytest.mark.parametrize("case", EXCEPTED)
def test_the_proxy_is_passed_by(case: str) -> None:
    server, exceptions = EXCEPTED[case]
    environment = {"https_proxy": PROXY, "no_proxy": exceptions}
    assert choose_proxy(server, "", environment) is None


def test_what_the_kubeconfig_says_holds_without_exceptions() -> None:
    environment = {"HTTPS_PROXY": "http://other", "NO_PROXY": "*"}
    assert choose_proxy("https://127.0.0.1", PROXY, environment) == PROXY


def test_a_bare_host_is_an_http_proxy() -> None:
    environment = {"HTTPS_PROXY": "proxy.example:3128"}
    assert choose_proxy("https://edge.example", "", environment) == PROXY


@pytest.mark.parametrize("proxy", ["http://[x", "http://proxy:99999", "http://me:pw@[x", "ftp://x"])
def test_what_is_no_proxy_is_refused_with_a_sentence(proxy: str) -> None:
    with pytest.raises(ConfigError, match=r"proxy-url in the kubeconfig.* cannot be used") as said:
        choose_proxy("https://edge.example", proxy, {})
    assert "pw" not in str(said.value)
