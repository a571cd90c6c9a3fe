"""Draw the pictures of docs/design: the programs, and the layers of the code.

The layers are those that import-linter keeps (pyproject.toml), so the picture cannot disagree
with the code. `--check` only says whether a picture is stale.
"""

import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "design"
CONTRACT = "each layer imports only from the layers below it"

# What is in a layer, in the order of architecture.md; a layer without words cannot be drawn.
WORDS = {
    "cli": "parses, wires, runs",
    "bench": "measures",
    "testing": "proves",
    "local": "real clusters on this machine",
    "uninstall": "takes everything out again",
    "operator": "runs the controllers",
    "server": "HTTP, identity, routes",
    "agents": "gateway, ping: small programs of their own",
    "sessions": "a domain: clients, seats, pods",
    "gameservers": "a domain: servers, fleets of game servers",
    "placement": "a domain: measured latency",
    "tenancy": "a domain: tenants, quotas",
    "federation": "a domain: selective deployments",
    "networking": "a domain: paths between clusters",
    "domain": "the record that a domain is",
    "clusters": "registry, and the way in",
    "exposure": "routes, seats, ports, TURN",
    "workloads": "pods, deadlines, children",
    "runtime": "caches, queue, controllers, leases, webhooks",
    "api": "typed objects, and their CRDs",
    "kube": "knows Kubernetes, nothing of Edgewise",
    "errors": "the root of every error",
}

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1b2733; }
  .title { font-weight: 600; }
  .small { font-size: 12px; fill: #47586a; }
  .box { fill: #ffffff; stroke: #5b6f84; stroke-width: 1.2; }
  .ours { fill: #e3f1ec; stroke: #1f7a5c; }
  .theirs { fill: #eef2f7; }
  .around { fill: #f8fafc; stroke-dasharray: 5 4; }
  .line { fill: none; stroke: #33475b; stroke-width: 1.4; marker-end: url(#end); }
""".strip("\n")


class Picture:
    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            "<!-- Drawn by tools/pictures.py; run `make reference`. -->",
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}\n</style>",
            '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            'markerHeight="8" orient="auto"><path d="M0 1 L10 5 L0 9 z" fill="#33475b"/>'
            "</marker></defs>",
            f'<rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>',
        ]

    def box(
        self, x: int, y: int, width: int, height: int, title: str, *lines: str, kind: str = ""
    ) -> None:
        self._parts.append(
            f'<rect class="{f"box {kind}".strip()}" x="{x}" y="{y}" width="{width}" '
            f'height="{height}" rx="7"/>'
        )
        if title:
            self.text(x + width / 2, y + 22, title, "title")
        for number, line in enumerate(lines):
            self.text(x + width / 2, y + 42 + 17 * number, line, "small")

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        where = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
        self._parts.append(f'<text class="{kind}" {where}>{escape(words)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        path = " L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="line" d="M{path}"/>')

    def svg(self) -> str:
        return "\n".join([*self._parts, "</svg>"]) + "\n"


def programs() -> str:
    """What runs where, and who tells whom."""
    picture = Picture(940, 520, "The programs of Edgewise, and who talks to whom")
    picture.box(20, 30, 170, 84, "clients", "the SDK, a browser,", "any HTTP client")
    picture.box(
        330, 30, 250, 84, "server", "any number of replicas:", "who sits where, once", kind="ours"
    )
    picture.box(
        710, 30, 210, 84, "hub", "GlobalSession, ClientBinding,", "Cluster, Location, templates"
    )
    picture.arrow((190, 72), (330, 72))
    picture.text(260, 64, "HTTP, events", "small")
    picture.arrow((580, 72), (710, 72))
    picture.text(645, 64, "one write decides", "small")

    picture.box(260, 190, 430, 310, "", kind="around")
    picture.text(280, 216, "cluster porto", "title", "start")
    picture.box(400, 230, 190, 66, "API server", "Session: who is here", kind="theirs")
    picture.box(480, 350, 190, 66, "operator", "seats, pods, recovery", kind="ours")
    picture.box(280, 350, 130, 66, "gateway", "real Envoy", kind="ours")
    picture.box(280, 446, 390, 36, "pods of the sessions", kind="theirs")
    picture.box(710, 190, 210, 310, "", kind="around")
    picture.text(730, 216, "cluster paris", "title", "start")
    picture.text(815, 350, "the same", "small")
    picture.box(20, 440, 150, 60, "ping agent, TURN", "beside each cluster", kind="ours")

    picture.arrow((455, 114), (455, 230))
    picture.text(463, 172, "one patch for each join", "small", "start")
    picture.arrow((555, 114), (555, 140), (815, 140), (815, 190))
    picture.arrow((535, 296), (535, 350))
    picture.text(543, 328, "watch, status", "small", "start")
    picture.arrow((480, 383), (410, 383))
    picture.text(445, 375, "routes", "small")
    picture.arrow((345, 416), (345, 446))
    picture.arrow((575, 416), (575, 446))
    picture.text(583, 435, "makes, resets", "small", "start")
    picture.arrow((145, 114), (145, 383), (280, 383))
    picture.text(152, 375, "HTTP, WS,", "small", "start")
    picture.text(152, 400, "TCP, UDP", "small", "start")
    picture.arrow((50, 114), (50, 440))
    picture.text(58, 270, "distance,", "small", "start")
    picture.text(58, 287, "media", "small", "start")
    return picture.svg()


def layers() -> str:
    """Each layer imports only from the layers below it."""
    rows = [[name.strip().removeprefix("edgewise.") for name in row] for row in declared()]
    width, height, gap = 940, 46, 10
    picture = Picture(
        width,
        20 + (height + gap) * len(rows) + gap,
        "The layers of the code, the lowest at the end",
    )
    for number, row in enumerate(rows):
        each = (width - 40 - gap * (len(row) - 1)) // len(row)
        for place, name in enumerate(row):
            if name not in WORDS:
                raise SystemExit(f"tools/pictures.py has no words for the layer {name}")
            x, y = 20 + place * (each + gap), 20 + number * (height + gap)
            picture.box(x, y, each, height, name, kind="ours" if number % 2 else "theirs")
            picture.text(x + each / 2, y + 38, WORDS[name], "small")
    return picture.svg()


def declared() -> list[list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = (each for each in contracts["contracts"] if each["name"] == CONTRACT)
    return [row.replace(":", "|").split("|") for row in found["layers"]]


PICTURES = {"programs.svg": programs, "layers.svg": layers}


def main(check: bool) -> int:
    stale = []
    for name, draw in PICTURES.items():
        path, drawn = FOLDER / name, draw()
        if path.exists() and path.read_text() == drawn:
            continue
        stale.append(name)
        if not check:
            path.write_text(drawn)
    if check and stale:
        sys.stderr.write(f"{', '.join(stale)}: not what the code says; run `make reference`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
