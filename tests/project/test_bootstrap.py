"""The set-up script, on machines that are only pretended: which programs it starts, and when."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Notes how it was called; `venv` and `pip install` leave what the real ones would.
UV = """
echo "uv $*" >> "$LOG"
case "$1" in
  --version) echo uv 1;;
  venv) for last in "$@"; do :; done; mkdir -p "$last/bin"
        printf '#!/bin/sh\\nexit 0\\n' > "$last/bin/python"; chmod +x "$last/bin/python";;
esac
"""

TOOLS = (
    "cat",
    "chmod",
    "cksum",
    "cp",
    "dirname",
    "grep",
    "id",
    "mkdir",
    "rm",
    "sed",
    "sh",
    "uname",
)


class Machine:
    """A checkout and a PATH of pretended programs beside the usual ones."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        (self.checkout / "tools").mkdir(parents=True)
        for name in ("tools/bootstrap", "tools/debian-packages", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout / name)
        (self.checkout / "requirements.lock").write_text("x==1\n")
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        self.home = folder / "home"
        self.home.mkdir()
        # Only what a script needs: neither apt nor dpkg nor uv of the machine at hand.
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or f"{tool} is missing")

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(self, **env: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        return subprocess.run(
            ["sh", self.checkout / "tools" / "bootstrap"],
            env={"PATH": str(self.bin), "HOME": str(self.home), "LOG": str(self.log)} | env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def started(self, program: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(program)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.program("uv", UV)
    return made


def test_it_installs_the_lock_with_hashes_and_the_project_without_dependencies(
    machine: Machine,
) -> None:
    done = machine.run()
    assert done.returncode == 0, done.stderr
    sync, install = machine.started("uv pip")
    assert "--require-hashes" in sync
    assert "requirements.lock" in sync
    assert "--no-deps --no-build-isolation -e ." in install


def test_the_second_run_does_nothing_until_something_changed(machine: Machine) -> None:
    machine.run()
    assert machine.run().returncode == 0
    assert machine.started("uv") == []
    (machine.checkout / "requirements.lock").write_text("x==2\n")
    machine.run()
    assert len(machine.started("uv pip")) == 2
    assert machine.started("uv venv") == []


def test_a_run_that_was_cut_short_is_done_again(machine: Machine) -> None:
    machine.program("uv", UV + '\n[ "$2" != install ] || exit 1')
    done = machine.run()
    assert done.returncode == 1
    assert "setup: edgewise could not be installed" in done.stderr
    machine.program("uv", UV)
    assert machine.run().returncode == 0
    assert len(machine.started("uv pip")) == 2


def test_an_unknown_authority_is_tried_again_with_those_of_the_system(machine: Machine) -> None:
    machine.program(
        "uv",
        UV + '\n[ "$1" != pip ] || [ -n "${UV_SYSTEM_CERTS:-}" ] || '
        "{ echo invalid peer certificate >&2; exit 1; }",
    )
    assert machine.run().returncode == 0
    assert len(machine.started("uv pip sync")) == 2


def test_without_uv_and_without_python_it_says_what_to_install(machine: Machine) -> None:
    (machine.bin / "uv").unlink()
    done = machine.run(EDGEWISE_NO_SYSTEM_PACKAGES="1")
    assert done.returncode == 1
    assert "Python 3 is missing; install it (or uv)" in done.stderr


def test_a_python_with_neither_venv_nor_pip_is_named(machine: Machine) -> None:
    (machine.bin / "uv").unlink()
    machine.program("python3", "exit 1")
    done = machine.run(EDGEWISE_NO_SYSTEM_PACKAGES="1")
    assert done.returncode == 1
    assert "install python3-venv (or uv)" in done.stderr


def test_uv_is_put_into_the_cache_where_it_is_missing(machine: Machine) -> None:
    (machine.bin / "uv").rename(machine.bin / "real-uv")
    target = machine.home / ".cache" / "edgewise" / "uv"
    # `python3 -m venv DIR` leaves a Python whose pip brings uv.
    machine.program(
        "python3",
        f"""[ "$2" = venv ] || exit 0
        mkdir -p {target}/bin
        printf '#!/bin/sh\ncp {machine.bin}/real-uv {target}/bin/uv\n' > {target}/bin/python
        chmod +x {target}/bin/python""",
    )
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert f"installing uv into {machine.home}/.cache/edgewise/uv" in done.stderr


@pytest.mark.skipif(
    not Path("/etc/debian_version").exists(), reason="says how Debian's packages are handled"
)
class TestOnDebian:
    def test_not_root_the_missing_packages_are_named(self, machine: Machine) -> None:
        machine.program("apt-get", 'echo "apt-get $*" >> "$LOG"')
        machine.program("dpkg-query", "exit 1")
        machine.program("id", "echo 1000")
        done = machine.run()
        assert done.returncode == 0
        assert "real nodes also need: apt-get install containerd runc" in done.stderr
        assert machine.started("apt-get") == []

    def test_coturn_is_installed_without_becoming_a_service(self, machine: Machine) -> None:
        machine.program("apt-get", 'echo "apt-get $*" >> "$LOG"')
        machine.program("systemctl", 'echo "systemctl $*" >> "$LOG"')
        machine.program("dpkg-query", '[ "$4" = coturn ] || echo install ok installed')
        machine.program("id", "echo 0")
        assert machine.run().returncode == 0
        first, second = machine.log.read_text().splitlines()[:2]
        assert first == "systemctl mask coturn.service"
        assert second.startswith("apt-get install ")
        assert second.endswith(" coturn")

    def test_root_installs_what_is_missing_and_says_so(self, machine: Machine) -> None:
        machine.program("apt-get", 'echo "apt-get $*" >> "$LOG"')
        machine.program("dpkg-query", '[ "$4" = runc ] || echo install ok installed')
        machine.program("id", "echo 0")
        done = machine.run()
        assert "installing Debian packages that real nodes need: runc" in done.stderr
        (call,) = machine.started("apt-get")
        assert call == "apt-get install -y -q --no-install-recommends runc"

    def test_a_mirror_that_fails_is_no_reason_to_stop(self, machine: Machine) -> None:
        machine.program("apt-get", "exit 100")
        machine.program("dpkg-query", "exit 1")
        machine.program("id", "echo 0")
        done = machine.run()
        assert done.returncode == 0
        assert "clusters will have simulated nodes" in done.stderr
