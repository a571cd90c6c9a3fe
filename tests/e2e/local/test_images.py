"""Images without a registry, as far as a pod that runs from them on a real node."""

import asyncio
import io
import json
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import ObjectMeta
from edgewise.local.clusters import LocalCluster
from edgewise.local.engine.finding import find_engine
from edgewise.local.images import building as images
from edgewise.local.images.building import App, build_app
from edgewise.local.images.layer import Layer
from edgewise.local.images.load import load, nodes_of
from edgewise.local.images.oci import Settings

pytestmark = pytest.mark.root


async def logs_of(client: Client, name: str, image: str, command: list[str] | None = None) -> str:
    """Run a pod to its end and return what it printed."""
    container: dict[str, Any] = {"name": "main", "image": image}
    if command:
        container["command"] = command
    spec = {"containers": [container], "restartPolicy": "Never"}
    await client.create(Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pod = await client.get(Pod, name, "default")
        if pod.status.phase in ("Succeeded", "Failed"):
            return await client.logs(name, "default")
        await asyncio.sleep(0.2)
    raise AssertionError(f"the pod {name} of {image} did not end: {pod.status}")


async def test_an_app_with_files_packages_and_settings_runs(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(
        "import os, msgspec\n"
        "print(msgspec.json.encode({'greeting': os.environ['GREETING'], 'uid': os.getuid()}))\n"
    )
    (tmp_path / "requirements.txt").write_text("msgspec\n")
    made = build_app(
        App(
            name="edgewise.local/test-app:1",
            add=[(tmp_path / "main.py", "/app/")],
            requirements=tmp_path / "requirements.txt",
            settings=Settings(
                command=("python3", "/app/main.py"), environment={"GREETING": "hi"}, user="1234"
            ),
        )
    )
    assert load(made.archive, nodes_of([cluster])) == (made.name,)
    async with cluster.client() as client:
        said = await logs_of(client, "app", made.name)
    assert '{"greeting":"hi","uid":1234}' in said


async def test_the_base_has_what_its_name_promises(cluster: LocalCluster) -> None:
    script = (
        "set -e; python3 -c 'import asyncio, ctypes, ssl, sqlite3, http.server'; "
        "python --version; wget --help 2>/dev/null; grep -c . /etc/passwd; touch /tmp/x"
    )
    async with cluster.client() as client:
        said = await logs_of(client, "base", images.PYTHON_IMAGE, ["sh", "-c", script])
    assert said.startswith("Python 3.")
    assert said.rstrip().endswith("2")


def docker_archive(path: Path, name: str, program: Path) -> Path:
    """What `docker save` writes."""
    layer = Layer()
    layer.file("bin/true-to-docker", program, 0o755)
    blob = layer.write(path.with_suffix(".layer"))
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/bin/true-to-docker"]},
        "rootfs": {"type": "layers", "diff_ids": [blob.digest]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        archive.add(blob.path, "layer.tar")
        for file, document in (("config.json", config), ("manifest.json", manifest)):
            data = json.dumps(document).encode()
            info = tarfile.TarInfo(file)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


async def test_a_docker_archive_is_loaded_too(cluster: LocalCluster, tmp_path: Path) -> None:
    name = "example.test/from-docker:1"
    # kwok is a static program that is at hand, and says something before it ends.
    program = Path(find_engine(programs=["kwok"]).path("kwok"))
    archive = docker_archive(tmp_path / "docker.tar", name, program)
    assert load(archive, nodes_of([cluster])) == (name,)
    async with cluster.client() as client:
        said = await logs_of(client, "docker", name, ["/bin/true-to-docker", "--version"])
    assert said.startswith("kwok version")


def test_the_same_recipe_gives_the_same_image(tmp_path: Path) -> None:
    one = images.python_image()
    two = images.python_image(again=True)
    assert one.digest == two.digest
