"""One meaning for each name: words that were given up do not come back.

The glossary (docs/glossary.md) says which word is used instead.
"""

import re
from collections.abc import Iterable, Iterator

import pytest

from tests.project.tracked import tracked_texts

EXEMPT = r"tests/project/test_words\.py|CHANGELOG\.md|docs/glossary\.md|.*\.lock|.*/go\.sum"

# What must not be said, why, and the lines ("path: text") that may say it all the same.
RETIRED = {
    r"[Ff]leet|FLEET": (
        "a fleet is a number of game servers; say cluster, location or hub",
        # Pages in docs/reference, what the chart renders and the roles of tenants are made from
        # the kinds of all domains.
        r"(?i)game|placement|bench fleet|spec\.target\.kind|^docs/reference/|"
        r"^tests/unit/chart/golden/|"
        r"^deploy/cluster-objects/tenancy\.yaml|"
        r"^src/edgewise/cli/bench/fleet\.py|"
        r"^docs/evaluation/results\.json: *\"(fleet-[a-z0-9-]*\": {|bench\": \"fleet\",)",
    ),
    r"[Mm]ember[Cc]lusters?\b": ("the kind is Cluster of federation.edgewise.dev", ""),
    r"fsess\b": ("the short name of GlobalSession is gsess", ""),
    r"\bWaitForReconnection\b": ("the phase of such a client is Disconnected", ""),
    r"\bsession lose\b": ("the command is `edgewise session disconnect`", ""),
    r"\b(Pod|Port|Node|Room)Book\b|\bBooks\(": ("Kubernetes says index", ""),
    r"\bHeldSession\b": ("a session as text is a RawSession", ""),
    r"\bSessionPages\b": ("sessions as text are EncodedSessions", ""),
    r"\bDoorway\b": ("what decides who may enter is a Guard", ""),
    r"\bWish\b": ("what a client asks for is a JoinRequest", ""),
    r"\bclass Hands\b": ("what writes sessions is a SessionWriter", ""),
    r"\bclass Mirror\b": ("a client with its caches is a ConnectedCluster", ""),
    r"\bLostClients\b": ("a client is disconnected; a cluster is lost", ""),
    r"\"state\": ?\"lost\"": ("a client is disconnected; a cluster is lost", ""),
}

# What people read names the actor: "the operator deletes the pod", not "somebody deletes it".
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "RELEASE.md",
    "docs/index.md",
    "docs/glossary.md",
    "docs/benchmarks.md",
    "docs/getting-started.md",
    "docs/tutorial",
    "docs/how-to",
    "docs/local",
    "docs/decisions",
    "docs/design/architecture.md",
    ".github",
    "deploy/chart/README.md",
)
ACTORLESS = re.compile(r"\b(who(m)?ever|nobody|somebody|anybody|everybody|anew)\b", re.I)
# The first sentence of the project says whom workloads belong to right after it.
SAID_ON_PURPOSE = re.compile(r"belongs? to \*?somebody")


def found_in(files: Iterable[tuple[str, str]]) -> Iterator[str]:
    for path, text in files:
        if re.fullmatch(EXEMPT, path):
            continue
        named = f"{path}\n{text}"  # the name of a file says something, too
        for word, (why, unless) in RETIRED.items():
            if not re.search(word, named):
                continue
            for number, line in enumerate(named.splitlines()):
                allowed = unless and re.search(unless, f"{path}: {line}")
                if re.search(word, line) and not allowed:
                    yield f"{path}:{number}: {why}: {line.strip()[:100]}"


def test_no_file_says_a_word_that_was_given_up() -> None:
    assert list(found_in(tracked_texts())) == []


@pytest.mark.parametrize(
    ("path", "line", "refused"),
    [
        ("src/edgewise/api/clusters.py", "the clusters of a fleet", True),
        ("src/edgewise/server/fleet.py", "", True),
        ("src/edgewise/api/games.py", "class Fleet(Object):", False),
        ("docs/design/architecture.md", "`Fleet`, a number of game servers", False),
        ("docs/threat-model.md", "who may write MemberClusters", True),
        ("docs/threat-model.md", "a member cluster that lies", False),
        ("docs/how-to/http.md", '{"client":"bob","state":"lost"}', True),
        ("src/edgewise/api/clusters.py", 'LOST = "Lost"', False),
        ("CHANGELOG.md", "`edgewise fleet` is `edgewise cluster`", False),
    ],
)
def test_what_is_refused(path: str, line: str, refused: bool) -> None:
    assert bool(list(found_in([(path, line)]))) is refused


def test_pages_name_the_actor() -> None:
    assert [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in tracked_texts(*PAGES)
        for number, line in enumerate(text.splitlines(), 1)
        if ACTORLESS.search(SAID_ON_PURPOSE.sub("", line))
    ] == []
