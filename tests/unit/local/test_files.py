"""Certificates, kubeconfigs, claims and the log of events: what is written to disk."""

import os
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from edgewise.local import clusters, preparation, progress, registry
from edgewise.local.control_plane.identities import ADMIN, AUTHORITIES, SERVICE_ACCOUNTS, leaves
from edgewise.local.control_plane.kubeconfigs import write_kubeconfig
from edgewise.local.control_plane.pki import ensure_pki
from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home, Ports, homes
from edgewise.local.machines.log_size import trim
from edgewise.local.machines.supervision import LONGEST_PAUSE, last_words, pause_after
from edgewise.local.network import connections
from edgewise.local.preparation import check_room
from edgewise.local.spec import LocalClusterSpec

SERVER = "https://127.0.0.1:22001"


def claimed(home: Home, spec: LocalClusterSpec | None = None) -> ClusterRecord:
    return registry.claim(home, spec or LocalClusterSpec(name=home.name), {"etcd": "/bin/sh"})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(registry, "registry_folder", lambda: tmp_path / "registry")
    return Home.of("edge-1")


@pytest.fixture
def with_keys(home: Home) -> Home:
    record = ClusterRecord(
        spec=LocalClusterSpec(name="edge-1", nodes=1), index=3, programs={}, ports=None
    )
    home.write(record)
    ensure_pki(home.pki, AUTHORITIES, leaves(record), [SERVICE_ACCOUNTS])
    write_kubeconfig(home, SERVER, ADMIN, home.kubeconfig)
    return home


def certificate_of(home: Home, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((home.pki / f"{name}.crt").read_bytes())


def test_every_certificate_is_signed_by_its_authority(with_keys: Home) -> None:
    for leaf in leaves(with_keys.read()):
        issuer = certificate_of(with_keys, leaf.authority)
        certificate_of(with_keys, leaf.file).verify_directly_issued_by(issuer)


def test_a_certificate_is_good_only_for_what_it_is_meant_for(with_keys: Home) -> None:
    def uses(name: str) -> set[x509.ObjectIdentifier]:
        extension = certificate_of(with_keys, name).extensions.get_extension_for_class(
            x509.ExtendedKeyUsage
        )
        return set(extension.value)

    assert uses("kube-apiserver") == {ExtendedKeyUsageOID.SERVER_AUTH}
    assert uses(ADMIN) == {ExtendedKeyUsageOID.CLIENT_AUTH}


def test_keys_are_for_their_owner_alone(with_keys: Home) -> None:
    for path in [*with_keys.pki.glob("*.key"), with_keys.kubeconfig]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(with_keys.path.stat().st_mode) == 0o700


def test_a_half_made_set_of_certificates_is_completed_not_replaced(with_keys: Home) -> None:
    authority = (with_keys.pki / "ca.crt").read_bytes()
    (with_keys.pki / "admin.crt").unlink()
    ensure_pki(with_keys.pki, AUTHORITIES, leaves(with_keys.read()), [SERVICE_ACCOUNTS])
    assert (with_keys.pki / "ca.crt").read_bytes() == authority
    issuer = certificate_of(with_keys, "ca")
    certificate_of(with_keys, ADMIN).verify_directly_issued_by(issuer)


def test_clusters_claim_different_indexes_and_ports(home: Home) -> None:
    one = claimed(home)
    other = claimed(Home.of("edge-2"))
    assert one.index != other.index
    assert one.ports is not None
    assert other.ports is not None
    numbers = [*ports_of(one.ports), *ports_of(other.ports)]
    assert len(set(numbers)) == 6


def ports_of(ports: Ports) -> list[int]:
    return [ports.api, ports.etcd, ports.etcd_peer]


def test_a_claim_is_made_once(home: Home) -> None:
    assert claimed(home) == claimed(home)


def test_the_claim_of_a_cluster_that_is_gone_is_free_again(home: Home) -> None:
    first = claimed(home)
    os.rename(home.path, home.path.with_name("elsewhere"))
    assert claimed(Home.of("edge-2")).index == first.index


def test_a_released_claim_leaves_no_file(home: Home) -> None:
    claimed(home)
    assert registry.registry_folder().is_dir()
    registry.release(home)
    assert not registry.registry_folder().exists()


def test_an_index_that_somebody_else_took_meanwhile_is_refused(home: Home) -> None:
    claimed(home)
    registry.release(home)
    claimed(Home.of("edge-2"))
    with pytest.raises(LocalError, match="in use by the cluster"):
        claimed(home)


def test_half_removed_folders_are_no_clusters(home: Home) -> None:
    claimed(home)
    (home.path.parent / ".gone-edge-0-1").mkdir()
    assert [each.name for each in homes()] == ["edge-1"]


def test_an_unreadable_record_says_what_to_do(home: Home) -> None:
    claimed(home)
    home.record_file.write_text("{")
    with pytest.raises(LocalError, match="edgewise local down --name edge-1"):
        home.read()


def test_joining_needs_real_nodes_on_both_sides(home: Home) -> None:
    claimed(home)
    claimed(Home.of("edge-2"))
    with pytest.raises(LocalError, match="simulated nodes only"):
        connections.remember(home, Home.of("edge-2"), 0.0)


def test_joined_clusters_know_each_other_until_one_goes(home: Home) -> None:
    other = Home.of("edge-2")
    claimed(home, LocalClusterSpec(name="edge-1", nodes=1))
    claimed(other, LocalClusterSpec(name="edge-2", nodes=1))
    connections.remember(home, other, 40.0)
    assert [peer.home for peer in connections.peers(home)] == [str(other.path)]
    assert [peer.home for peer in connections.peers(other)] == [str(home.path)]
    connections.forget_everywhere(other)
    assert connections.peers(home) == []
    assert connections.peers(other) == []


def test_too_little_disk_is_said_before_anything_is_made(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 1 << 20

    monkeypatch.setattr("shutil.disk_usage", lambda _: Full)
    with pytest.raises(LocalError, match="needs 700 MiB of disk"):
        check_room(home.path, LocalClusterSpec(name="edge-1", nodes=2))
    assert not home.path.exists()


def test_a_cluster_that_exists_needs_no_more_room(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 1 << 20

    class FoundEngine(Exception):
        pass

    def find(*_: object, **__: object) -> None:
        raise FoundEngine

    claimed(home)
    monkeypatch.setattr("shutil.disk_usage", lambda _: Full)
    monkeypatch.setattr(preparation, "find_engine", find)
    with pytest.raises(FoundEngine):
        preparation.get_supplies(LocalClusterSpec(name="edge-1"), lambda _what, _state: None)


def test_options_that_differ_from_those_of_the_cluster_are_named(home: Home) -> None:
    claimed(home, LocalClusterSpec(name="edge-1", nodes=2, latency={"host": 20.0}))
    supplies = preparation.Supplies({"etcd": "/bin/sh"})
    with pytest.raises(LocalError) as refused:
        clusters.claim(home, LocalClusterSpec(name="edge-1", nodes=1), supplies)
    assert "it has --nodes 2 rather than 1" in str(refused.value)
    assert "it has --latency host=20ms rather than none" in str(refused.value)
    assert "--region" not in str(refused.value)


def test_events_are_read_once_and_only_whole(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    reader = progress.Reader(path)
    assert reader.new() == []
    progress.note(path, "etcd", progress.STARTED)
    with path.open("ab") as file:
        file.write(b'{"at":1,"what":"half"')
    assert [event.what for event in reader.new()] == ["etcd"]
    with path.open("ab") as file:
        file.write(b',"state":"ended"}\n')
    assert [event.what for event in reader.new()] == ["half"]
    assert reader.new() == []
    assert progress.Reader(path, from_end=True).new() == []


def test_a_log_that_grows_too_long_keeps_its_end(tmp_path: Path) -> None:
    (tmp_path / "short.log").write_text("short")
    with (tmp_path / "etcd.log").open("ab") as log:
        log.write(b"x" * 90 + b"the end...")
        log.flush()
        trim(tmp_path, limit=50, kept=10)
        log.write(b"and on")
    assert (tmp_path / "etcd.log").read_text() == "and on"
    assert (tmp_path / "etcd.log.1").read_text() == "the end..."
    assert (tmp_path / "short.log").read_text() == "short"


def test_pauses_grow_and_have_an_end() -> None:
    pauses = [pause_after(deaths) for deaths in range(1, 20)]
    assert pauses[0] == 0.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


def test_the_last_telling_line_of_a_log_is_found(tmp_path: Path) -> None:
    (tmp_path / "n1.kubelet.log").write_text("start\nError: no socket\nbye\n\n")
    assert last_words(tmp_path, "n1/kubelet") == "Error: no socket"
    assert last_words(tmp_path, "missing") == ""
