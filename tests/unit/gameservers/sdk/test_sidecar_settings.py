"""What the operator writes into the command of a sidecar is what the sidecar reads there."""

from __future__ import annotations

from edgewise.agents.sidecar.__main__ import health_of, settings_of
from edgewise.gameservers.server.manifest import pod_of
from edgewise.gameservers.server.settings import Settings
from tests.unit.gameservers.making import server

SETTINGS = Settings(sidecar_image="sidecar:1", operator_url="http://operator:8081/?a=b")


def test_the_sidecar_reads_what_the_operator_wrote() -> None:
    health = {"period": "2s", "failures": 4, "initialDelay": "1m"}
    pod = pod_of(server({"health": health, "sidecar": {"port": 9000}}), SETTINGS, {})
    (sidecar,) = pod.spec["initContainers"]
    assert "env" not in sidecar
    found = settings_of(sidecar["args"], {"PATH": "/bin", "SERVER_NAME": "another"})
    assert found["EDGEWISE_OPERATOR"] == SETTINGS.operator_url
    assert found["EDGEWISE_PORT"] == "9000"
    assert found["SERVER_NAME"] == "arena-1"
    assert found["PATH"] == "/bin"
    read = health_of(found)
    assert read is not None
    assert (read.period, read.failures, read.delay) == (2.0, 4, 60.0)
