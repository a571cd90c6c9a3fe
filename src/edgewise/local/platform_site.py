"""Where the platform's programs of one cluster are found, and their command lines. Pure."""

from __future__ import annotations

from pathlib import Path

import msgspec

from edgewise.local.images.building import SIDECAR_IMAGE

LOOPBACK = "127.0.0.1"
OPERATOR = "operator"
GATEWAY = "gateway"
PING = "ping"
# On a developer's machine no connection is worth a long wait at the end.
_DRAIN_SECONDS = 2


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses that are chosen once, before anything starts."""

    host: str
    # Where the API server finds the operator's webhooks.
    webhook_host: str
    http: int
    control: int
    health: int
    webhook: int
    echo: int
    # Where pods find the operator; empty: where everybody does.
    seen_by_pods: str = ""

    @property
    def public_url(self) -> str:
        return f"http://{self.host}:{self.http}"

    @property
    def operator_url(self) -> str:
        return f"http://{self.webhook_host}:{self.health}"

    @property
    def control_url(self) -> str:
        return f"http://{self.host}:{self.control}"

    @property
    def ping(self) -> str:
        return f"{self.host}:{self.echo}"

    def health_of(self, program: str) -> str:
        """A URL that answers when the program is ready."""
        return {
            OPERATOR: f"{self.operator_url}/readyz",
            GATEWAY: f"{self.control_url}/readyz",
            PING: f"http://{self.ping}/ping",
        }[program]

    def operator(self, kubeconfig: Path, token: Path | None) -> list[str]:
        """Without a token there is no gateway to push routes to."""
        return [
            OPERATOR,
            f"--kubeconfig={kubeconfig}",
            f"--listen={self.webhook_host}:{self.health}",
            f"--sidecar-image={SIDECAR_IMAGE}",
            f"--sidecar-operator-url=http://{self.seen_by_pods or self.webhook_host}:{self.health}",
            f"--webhook-url=https://{self.webhook_host}:{self.webhook}",
            f"--webhook-port={self.webhook}",
            f"--public-url={self.public_url}",
            f"--public-host={self.host}",
            *([f"--gateway={self.control_url}", f"--token-file={token}"] if token else []),
        ]

    def gateway(self, kubeconfig: Path, token: Path, run_dir: Path) -> list[str]:
        return [
            GATEWAY,
            f"--kubeconfig={kubeconfig}",
            f"--bind={self.host}",
            f"--http-port={self.http}",
            f"--control={self.host}:{self.control}",
            f"--token-file={token}",
            f"--run-dir={run_dir}",
            "--workers=1",
            f"--drain-seconds={_DRAIN_SECONDS}",
        ]

    def echo_agent(self) -> list[str]:
        return [PING, f"--http={self.ping}", f"--udp={self.ping}"]


def python_command(python: str, arguments: list[str]) -> tuple[str, ...]:
    return (python, "-m", "edgewise.cli", *arguments)
