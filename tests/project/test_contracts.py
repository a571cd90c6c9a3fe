"""The contracts of the imports name every module of `api`: a new domain cannot be forgotten."""

import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import edgewise
from edgewise import api
from edgewise.kube.objects import Object

ROOT = Path(__file__).parents[2]
CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
}
SHARED = CONTRACTS["what several domains share knows none of them"]
GATEWAY = CONTRACTS["the gateway knows no domain but through its tuple of route sources"]


def with_kinds() -> set[str]:
    """The modules of `api` that define kinds."""
    found = set()
    for each in iter_modules(api.__path__, "edgewise.api."):
        for value in vars(import_module(each.name)).values():
            if isinstance(value, type) and issubclass(value, Object) and hasattr(value, "KIND"):
                found.add(value.__module__)
    return {name for name in found if name.startswith("edgewise.api.")}


def test_every_module_of_the_api_is_a_domains_or_shared():
    shared = {name for name in SHARED["source_modules"] if name.startswith("edgewise.api.")}
    domains = set(SHARED["forbidden_modules"])
    assert not shared & domains
    assert with_kinds() <= shared | domains


def test_the_gateway_may_import_no_domains_api():
    assert set(SHARED["forbidden_modules"]) <= set(GATEWAY["forbidden_modules"])


def test_every_part_of_the_house_is_in_a_layer():
    """A new domain that no contract names could import the others, and be imported by all."""
    layers = CONTRACTS["each layer imports only from the layers below it"]["layers"]
    named = {name.strip() for layer in layers for name in layer.replace(":", "|").split("|")}
    there = {each.name for each in iter_modules(edgewise.__path__, "edgewise.")}
    # The SDK has a contract of its own: it imports nothing else.
    assert there - named == {"edgewise.client"}
