"""Downloads against a server on loopback that breaks off, resumes, lies or is silent."""

import hashlib
import io
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edgewise.local.engine.download import DownloadError, download, pick_checksum, reachable
from edgewise.local.engine.releases import Release

CONTENT = b"#!/bin/sh\necho published\n" + bytes(range(256)) * 20_000


class Publisher(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.break_after: list[int] = []  # bytes to send before cutting, one per request
        self.resumes = True
        self.ranges: list[str] = []
        self.base = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests."""


class Answer(BaseHTTPRequestHandler):
    server: Publisher
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        wanted = self.headers.get("Range", "")
        start = 0
        if wanted:
            self.server.ranges.append(wanted)
            if self.server.resumes:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(body):
                    self.send_error(416)
                    return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.send_header("Connection", "close")
        self.end_headers()
        end = len(body)
        if not self.path.endswith(("512", "SUMS")) and self.server.break_after:
            end = start + self.server.break_after.pop(0)
        self.wfile.write(body[start:end])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    server = Publisher()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def release(publisher: Publisher) -> Release:
    publisher.files["/kubelet"] = CONTENT
    publisher.files["/kubelet.sha512"] = hashlib.sha512(CONTENT).hexdigest().encode()
    base = publisher.base
    return Release("kubelet", f"{base}/kubelet", f"{base}/kubelet.sha512", "sha512")


def silent(subject: str, state: str) -> None:
    pass


def left(target: Path) -> list[str]:
    return sorted(path.name for path in target.iterdir())


def test_a_program_arrives_whole_and_executable(release: Release, tmp_path: Path) -> None:
    states: list[str] = []
    download(release, "kubelet 1.34.4", tmp_path, lambda _, state: states.append(state))
    assert (tmp_path / "kubelet").read_bytes() == CONTENT
    assert (tmp_path / "kubelet").stat().st_mode & 0o111
    assert left(tmp_path) == ["kubelet"]
    assert states[0] == "downloading"
    assert any("MB of" in state for state in states)


def test_a_broken_connection_is_taken_up_where_it_broke(
    publisher: Publisher, release: Release, tmp_path: Path
) -> None:
    publisher.break_after = [1_000_000, 2_000_000]
    download(release, "kubelet", tmp_path, silent)
    assert (tmp_path / "kubelet").read_bytes() == CONTENT
    assert publisher.ranges == ["bytes=1000000-", "bytes=3000000-"]


def test_the_next_run_goes_on_where_the_last_one_was_given_up(
    publisher: Publisher, release: Release, tmp_path: Path
) -> None:
    publisher.break_after = [1000, 0, 0]
    with pytest.raises(DownloadError, match="ended after 1000 of"):
        download(release, "kubelet", tmp_path, silent)
    assert left(tmp_path) == [".kubelet.part"]
    publisher.ranges.clear()
    download(release, "kubelet", tmp_path, silent)
    assert publisher.ranges == ["bytes=1000-"]
    assert (tmp_path / "kubelet").read_bytes() == CONTENT


def test_a_server_that_does_not_resume_sends_it_all_again(
    publisher: Publisher, release: Release, tmp_path: Path
) -> None:
    publisher.resumes = False
    (tmp_path / ".kubelet.part").write_bytes(b"old")
    download(release, "kubelet", tmp_path, silent)
    assert (tmp_path / "kubelet").read_bytes() == CONTENT


def test_a_complete_part_is_not_fetched_again(
    publisher: Publisher, release: Release, tmp_path: Path
) -> None:
    (tmp_path / ".kubelet.part").write_bytes(CONTENT)
    download(release, "kubelet", tmp_path, silent)
    assert (tmp_path / "kubelet").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(
    publisher: Publisher, release: Release, tmp_path: Path
) -> None:
    publisher.files["/kubelet"] = CONTENT[:-1] + b"!"
    with pytest.raises(DownloadError, match="does not have its published sha512 checksum"):
        download(release, "kubelet", tmp_path, silent)
    assert left(tmp_path) == []


def test_a_missing_file_is_said_with_its_address(
    publisher: Publisher, release: Release, tmp_path: Path
) -> None:
    del publisher.files["/kubelet"]
    with pytest.raises(DownloadError, match=r"/kubelet answers 404"):
        download(release, "kubelet", tmp_path, silent)


def test_a_program_is_taken_out_of_its_archive(publisher: Publisher, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("etcd-v3/etcd")
        entry.size = len(CONTENT)
        archive.addfile(entry, io.BytesIO(CONTENT))
    publisher.files["/etcd.tar.gz"] = packed.getvalue()
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    publisher.files["/SHA256SUMS"] = f"{'0' * 64}  other\n{digest}  etcd.tar.gz\n".encode()
    base = publisher.base
    for member, fits in (("etcd-v3/etcd", True), ("etcd-v4/etcd", False)):
        release = Release("etcd", f"{base}/etcd.tar.gz", f"{base}/SHA256SUMS", "sha256", member)
        if fits:
            download(release, "etcd", tmp_path, silent)
            assert (tmp_path / "etcd").read_bytes() == CONTENT
        else:
            with pytest.raises(DownloadError, match="does not hold etcd-v4/etcd"):
                download(release, "etcd", tmp_path, silent)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a" * 64, "a" * 64),
        ("A" * 64 + "\n", "a" * 64),
        ("b" * 64 + "  other\n" + "c" * 64 + "  file.tgz\n", "c" * 64),
        ("c" * 64 + " *file.tgz\n", "c" * 64),
    ],
)
def test_checksum_files_come_in_two_forms(text: str, expected: str) -> None:
    release = Release("coredns", "https://x/file.tgz", "https://x/file.tgz.sha256", "sha256")
    assert pick_checksum(text, release) == expected


@pytest.mark.parametrize("text", ["", "<html>", "a" * 63, "a" * 64 + "  other"])
def test_a_checksum_file_without_the_file_is_refused(text: str) -> None:
    release = Release("coredns", "https://x/file.tgz", "https://x/file.tgz.sha256", "sha256")
    with pytest.raises(DownloadError, match=r"no checksum for file\.tgz"):
        pick_checksum(text, release)


def test_reachable_when_it_answers(release: Release) -> None:
    assert reachable(release, patience=10.0)


def test_a_silent_network_is_given_up_soon() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # accepts, and never says a word
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        started = time.monotonic()
        assert not reachable(Release("x", f"{base}/x", f"{base}/x.sha256", "sha256"), patience=0.2)
        assert time.monotonic() - started < 10
