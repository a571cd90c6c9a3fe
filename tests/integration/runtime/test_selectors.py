"""Label selectors mean here what they mean to an API server."""

from __future__ import annotations

from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError
from edgewise.kube.kinds.core import ConfigMap
from edgewise.runtime.caching.selection import Selection, SelectorError

VALUES = (None, "", "0", "5", "6", "10", "05", "-7", "007", "5.5", "five", "9223372036854775807")
SELECTORS = (
    "v",
    "!v",
    "v=5",
    "v==5",
    "v!=5",
    "v in (5, 6)",
    "v notin (5, 6)",
    "v>5",
    "v > 5",
    "v<6",
    "v>5,v<11",
    "v>-8",
    "v<05",
    "v>5.5",
    "v>=5",
    "v>five",
    "v>",
    "!v>5",
    "v<9223372036854775807",
    "v<9223372036854775808",
)


async def test_every_selector_finds_what_the_api_server_finds(
    client: Client, namespace: str
) -> None:
    made = []
    for number, value in enumerate(VALUES):
        config = ConfigMap.named(f"c-{number}", namespace)
        config.metadata.labels = {} if value is None else {"v": value}
        try:
            made.append(await client.create(config))
        except ApiError:
            assert value == "-7"  # no label value may begin like this
    for selector in SELECTORS:
        try:
            listed = await client.list(ConfigMap, namespace, labels=selector)
            names = {config.metadata.name for config in listed.items}
            # Others put something into every namespace.
            theirs: set[str] | str = names & {each.metadata.name for each in made}
        except ApiError:
            theirs = "refused"
        try:
            matches = Selection(labels=selector).matcher()
            ours: set[str] | str = {each.metadata.name for each in made if matches(each)}
        except SelectorError:
            ours = "refused"
        assert ours == theirs, selector
