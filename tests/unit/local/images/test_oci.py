"""Archives as container runtimes understand them."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from edgewise.local.images.layer import Blob, Layer
from edgewise.local.images.load import load, naming
from edgewise.local.images.oci import (
    ImageError,
    Settings,
    Summary,
    check_name,
    read_archive,
    write_archive,
)


@pytest.mark.parametrize(
    "name",
    [
        "edgewise.local/x:1",
        "edgewise.local/deep/er/x_y-z:v1.2.3-rc_1",
        "localhost:5000/x:latest",
        "Example.ORG/x:1",
    ],
)
def test_full_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "x:1",
        "hello/x:1",
        "edgewise.local/x",
        "edgewise.local/X:1",
        "edgewise.local/x:1 ",
        "/x:1",
    ],
)
def test_names_that_nodes_would_look_for_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ImageError, match="not a full image name: use a host with a dot"):
        check_name(name)


@pytest.fixture
def layer(tmp_path: Path) -> Blob:
    content = Layer()
    content.file("pause", b"program", 0o755)
    return content.write(tmp_path / "layer.tar")


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]


def follow(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    """The blob that a descriptor names, after checking that it is what it says."""
    data = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"]
    assert len(data) == descriptor["size"]
    return data


def test_everything_is_reached_from_the_index_by_true_digests(tmp_path: Path, layer: Blob) -> None:
    settings = Settings(entrypoint=("/pause",), environment={"A": "1"}, user="65535")
    digest = write_archive(tmp_path / "a.tar", "edgewise.local/p:1", settings, [layer], "amd64")
    files = members(tmp_path / "a.tar")
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"]["io.containerd.image.name"] == "edgewise.local/p:1"
    manifest = json.loads(follow(files, entry))
    config = json.loads(follow(files, manifest["config"]))
    assert config["architecture"] == "amd64"
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert config["config"]["User"] == "65535"
    assert "A=1" in config["config"]["Env"]
    (described,) = manifest["layers"]
    follow(files, described)
    # An uncompressed layer is its own diff.
    assert config["rootfs"]["diff_ids"] == [described["digest"]]
    assert len(files) == 5


def test_the_same_image_is_the_same_file(tmp_path: Path, layer: Blob) -> None:
    for name in ("a.tar", "b.tar"):
        write_archive(tmp_path / name, "edgewise.local/p:1", Settings(), [layer], "amd64")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_a_layer_that_is_used_twice_is_written_once(tmp_path: Path, layer: Blob) -> None:
    write_archive(tmp_path / "a.tar", "edgewise.local/p:1", Settings(), [layer, layer], "amd64")
    assert len(members(tmp_path / "a.tar")) == 5


def archive(path: Path, **files: Any) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            info = tarfile.TarInfo(name.replace("_json", ".json"))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_what_archives_say_of_themselves(tmp_path: Path, layer: Blob) -> None:
    digest = write_archive(tmp_path / "o", "edgewise.local/p:1", Settings(), [layer], "amd64")
    assert read_archive(tmp_path / "o") == Summary(("edgewise.local/p:1",), digest)
    docker = archive(tmp_path / "d", manifest_json=[{"RepoTags": ["example.org/a:1"]}])
    assert read_archive(docker) == Summary(("example.org/a:1",))

    def podman(note: dict[str, str]) -> Path:
        manifests = [{"digest": "sha256:0", "annotations": note}]
        return archive(tmp_path / "p", index_json={"manifests": manifests})

    full = podman({"org.opencontainers.image.ref.name": "localhost/a:1"})
    assert read_archive(full) == Summary(("localhost/a:1",), "sha256:0", named_by_tag=True)
    tag = podman({"org.opencontainers.image.ref.name": "latest"})
    assert read_archive(tag) == Summary((), "sha256:0")


@pytest.mark.parametrize("content", [b"", b"no tar at all", b"\x1f\x8b broken gzip"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ImageError, match=r"^[^\n]* is not an image archive \(it is no tar file"):
        read_archive(tmp_path / "x")


def test_a_folder_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"is not an image archive \(it is a folder\)"):
        load(tmp_path, [])


def test_an_unknown_name_says_where_the_known_ones_are() -> None:
    with pytest.raises(ImageError, match="edgewise local image list"):
        load(Path("edgewise.local/unknown:1"), [])


@pytest.mark.parametrize("index", [{}, {"manifests": 5}, {"manifests": [5]}, {"manifests": [{}]}])
def test_an_index_of_something_else_is_refused_in_words(tmp_path: Path, index: object) -> None:
    path = archive(tmp_path / "x", index_json=index)
    with pytest.raises(ImageError, match=r"\(its index.json does not describe one\): make one"):
        read_archive(path)


def test_a_tar_of_something_else_is_refused(tmp_path: Path) -> None:
    for path in (
        archive(tmp_path / "x", readme=b"hello"),
        archive(tmp_path / "y", index_json=b"{broken"),
        archive(tmp_path / "z", index_json=[]),
    ):
        with pytest.raises(ImageError, match="is not an image archive"):
            read_archive(path)


@pytest.mark.parametrize(
    ("summary", "name", "flags", "names"),
    [
        (Summary(("a.b/c:1",)), "", [], ("a.b/c:1",)),
        (Summary(("a.b/c:1",)), "a.b/d:2", ["--index-name", "a.b/d:2"], ("a.b/d:2",)),
        (Summary(("a.b/c:1",), "", True), "", ["--index-name", "a.b/c:1"], ("a.b/c:1",)),
    ],
)
def test_the_name_that_pods_will_use(
    summary: Summary, name: str, flags: list[str], names: tuple[str, ...]
) -> None:
    assert naming(Path("x.tar"), summary, name) == (flags, names)


def test_an_archive_without_a_name_needs_one() -> None:
    with pytest.raises(ImageError, match="does not say its name: give one with --name"):
        naming(Path("x.tar"), Summary(()), "")
