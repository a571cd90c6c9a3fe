"""Who has which address, from what the network plugins wrote down."""

from __future__ import annotations

import json
import os
import select
from ipaddress import IPv4Address
from pathlib import Path

from edgewise.local.network.policies.agent import named_ports
from edgewise.local.network.policies.attached import (
    Notice,
    attachments,
    notes_of,
    without_predecessors,
)
from edgewise.local.network.policies.compiler import NamedPort


def note(folder: Path, name: str, address: str, age: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    said = [["K8S_POD_NAMESPACE", "red"], ["K8S_POD_NAME", name], ["K8S_POD_UID", f"uid-{name}"]]
    file = folder / f"edgewise-{name}-eth0"
    file.write_text(json.dumps({"cniArgs": said, "result": {"ips": [{"address": address}]}}))
    os.utime(file, (1000 - age, 1000 - age))
    return file


def test_a_note_names_a_pod_and_its_address(tmp_path: Path) -> None:
    folder = notes_of(tmp_path)
    note(folder, "web", "10.1.1.2/24")
    (folder / "cni-loopback-web-lo").write_text("{}")
    (found,) = attachments("n1", folder)
    assert (found.node, found.namespace, found.name, found.uid) == ("n1", "red", "web", "uid-web")
    assert found.addresses == (IPv4Address("10.1.1.2"),)


def test_a_note_that_is_half_written_is_of_nobody_yet(tmp_path: Path) -> None:
    (tmp_path / "edgewise-a-eth0").write_text('{"cniArgs": [')
    (tmp_path / "edgewise-b-eth0").write_text('{"result": {"ips": [{"address": "nowhere"}]}}')
    assert attachments("n1", tmp_path) == []
    assert attachments("n1", tmp_path / "not-there") == []


def test_of_two_pods_with_one_address_the_younger_has_it(tmp_path: Path) -> None:
    note(tmp_path, "old", "10.1.1.2/24", age=100)
    note(tmp_path, "new", "10.1.1.2/24")
    note(tmp_path, "other", "10.1.1.3/24", age=200)
    found = without_predecessors(attachments("n1", tmp_path))
    assert {each.name for each in found} == {"new", "other"}


def test_a_change_of_a_note_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "by-it"
    notice = Notice([folder])

    def noticed() -> bool:
        readable = bool(select.select([notice], [], [], 0.5)[0])
        notice.drain()
        return readable

    try:
        file = note(folder, "web", "10.1.1.2/24")
        assert noticed()
        file.unlink()
        assert noticed()
    finally:
        notice.close()


def test_ports_have_names_in_containers_that_stay() -> None:
    def container(name: str, **more: object) -> dict[str, object]:
        return {"ports": [{"name": name, "containerPort": 80}], **more}

    spec = {
        "containers": [container("web"), {"ports": [{"containerPort": 81}]}],
        "initContainers": [container("once"), container("beside", restartPolicy="Always")],
    }
    assert [*named_ports(spec)] == [NamedPort("web", "TCP", 80), NamedPort("beside", "TCP", 80)]
