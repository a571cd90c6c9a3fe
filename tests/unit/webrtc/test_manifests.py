"""The sample's manifests are what the API and the deployed configuration expect."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml
from webrtc_detector.settings import from_environment

from edgewise.api.sessions import SessionTemplate
from edgewise.local.network.addresses import INDEXES, AddressPlan

ROOT = Path(__file__).parents[3]
TURN = ROOT / "deploy" / "turn"


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def test_the_session_template_is_one() -> None:
    (manifest,) = documents(ROOT / "examples/webrtc-detector/session-template.yaml")
    template = msgspec.convert(manifest, SessionTemplate)
    (pods,) = template.spec.pod_templates
    (container,) = pods.template["spec"]["containers"]
    assert msgspec.to_builtins(template.spec)["podTemplates"][0].keys() >= {"reset", "ports"}
    assert pods.reset is not None
    assert pods.reset.http_path == "/reset"
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    settings = from_environment(environment)
    assert settings.port == pods.ports[0].port == pods.reset.port
    assert settings.max_clients == pods.max_clients


def test_coturn_may_relay_to_pods_of_local_clusters_and_to_nothing_else_of_them() -> None:
    deployment, _service = documents(TURN / "coturn.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (allowed,) = [e["value"] for e in container["env"] if e["name"] == "ALLOWED_PEERS"]
    first, last = map(ipaddress.IPv4Address, allowed.split("-"))
    for index in INDEXES:
        plan = AddressPlan(index)
        assert first <= plan.pods[0] <= plan.pods[-1] <= last
        for other in (plan.segment, plan.uplink, plan.services):
            assert other[-1] < first or other[0] > last


def test_coturns_configuration_denies_everything_and_keeps_the_secret_out() -> None:
    text = (TURN / "turnserver.conf").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert "denied-peer-ip=0.0.0.0-255.255.255.255" in lines
    assert "use-auth-secret" in lines
    assert not [line for line in lines if line.startswith(("allowed-peer-ip", "static-auth"))]
    assert not re.search("allow-loopback-peers|no-auth", text)


def test_the_service_leads_to_the_port_that_coturn_listens_on() -> None:
    deployment, service = documents(TURN / "coturn.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    named = {port["name"]: (port["containerPort"], port["protocol"]) for port in container["ports"]}
    for port in service["spec"]["ports"]:
        assert named[port["targetPort"]] == (3478, port["protocol"])
    assert "listening-port=3478" in (TURN / "turnserver.conf").read_text().splitlines()
    assert (
        service["spec"]["selector"].items()
        <= deployment["spec"]["template"]["metadata"]["labels"].items()
    )
