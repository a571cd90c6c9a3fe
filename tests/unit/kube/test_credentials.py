"""Token files that rotate, and exec plugins."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgewise.kube.credentials import ExecPlugin, TokenFile
from edgewise.kube.errors import ConfigError
from edgewise.kube.kubeconfig import Exec, ExecVariable

V1 = "client.authentication.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def token_of(credentials: TokenFile | ExecPlugin) -> str:
    return (await credentials.identity()).authorization.removeprefix("Bearer ")


async def test_a_token_file_is_read_again_after_a_while(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one\n")
    credentials = TokenFile(str(file), clock=clock)
    assert await token_of(credentials) == "one"
    file.write_text("two\n")
    assert await token_of(credentials) == "one"
    clock.now += 10
    assert await token_of(credentials) == "two"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFile(str(file), clock=Clock())
    await credentials.identity()
    file.write_text("two")
    credentials.rejected()
    assert await token_of(credentials) == "two"


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, lambda file: file.write_text(""), lambda file: file.write_text("t\0\0w")],
)
async def test_a_token_file_that_is_being_rewritten_leaves_the_old_token(
    tmp_path: Path, damage: Any
) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one")
    credentials = TokenFile(str(file), clock=clock)
    await credentials.identity()
    damage(file)
    clock.now += 10
    assert await token_of(credentials) == "one"


async def test_a_token_file_of_several_lines_is_told_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hunter2\nhunter2\n")
    with pytest.raises(ConfigError, match=r"token file .*: the token has a line end") as told:
        await TokenFile(str(file)).identity()
    assert "hunter2" not in str(told.value)


async def test_a_token_file_that_never_was_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the token file .*token"):
        await TokenFile(str(tmp_path / "token")).identity()


def plugin(tmp_path: Path, body: str, **settings: Any) -> Exec:
    """A plugin in Python that counts its runs in a file and then does `body`."""
    script = tmp_path / "plugin"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys, time\n"
        f"with open({str(tmp_path / 'runs')!r}, 'a') as runs: runs.write('x')\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "def answer(**status):\n"
        "    print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion'],\n"
        "                      'status': status}))\n"
        f"{body}\n"
    )
    script.chmod(0o755)
    return Exec(command=str(script), **({"api_version": V1} | settings))


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plugin_is_asked_once_even_by_many(tmp_path: Path, version: str) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    settings = plugin(tmp_path, "answer(token='t')", api_version=api_version)
    credentials = ExecPlugin(settings)
    assert set(await asyncio.gather(*(token_of(credentials) for _ in range(5)))) == {"t"}
    assert runs(tmp_path) == 1


async def test_a_plugin_is_asked_again_shortly_before_expiry_and_after_a_refusal(
    tmp_path: Path,
) -> None:
    clock = Clock()
    end = datetime.fromtimestamp(clock.now + 100, UTC).isoformat().replace("+00:00", "Z")
    credentials = ExecPlugin(
        plugin(tmp_path, f"answer(token='t', expirationTimestamp={end!r})"), clock=clock
    )
    await credentials.identity()
    clock.now += 80
    await credentials.identity()
    assert runs(tmp_path) == 1
    clock.now += 15
    await credentials.identity()
    assert runs(tmp_path) == 2


async def test_a_refused_credential_is_fetched_anew(tmp_path: Path) -> None:
    credentials = ExecPlugin(plugin(tmp_path, "answer(token='t')"))
    await credentials.identity()
    credentials.rejected()
    await credentials.identity()
    assert runs(tmp_path) == 2


async def test_a_plugin_gets_its_arguments_its_variables_and_the_cluster(tmp_path: Path) -> None:
    body = "answer(token=json.dumps([sys.argv[1:], os.environ['WHO'], info['spec']]))"
    settings = plugin(
        tmp_path,
        body,
        args=["get", "token"],
        env=[ExecVariable(name="WHO", value="me")],
        provide_cluster_info=True,
        interactive_mode="Never",
    )
    credentials = ExecPlugin(settings, cluster={"server": "https://x"})
    assert json.loads(await token_of(credentials)) == [
        ["get", "token"],
        "me",
        {"interactive": False, "cluster": {"server": "https://x"}},
    ]


async def test_a_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    credentials = ExecPlugin(
        plugin(tmp_path, "answer(clientCertificateData='CRT', clientKeyData='KEY')")
    )
    identity = await credentials.identity()
    assert identity.authorization == ""
    assert identity.certificate is not None
    assert identity.certificate.certificate.data == b"CRT"
    assert identity.certificate.key.data == b"KEY"
    assert "KEY" not in repr(identity)


FAILURES = {
    "it fails": (
        "print('first', file=sys.stderr); sys.exit('no session')",
        "failed with exit code 1: no session",
    ),
    "it prints something else": ("print('hello')", "something else than an ExecCredential"),
    "it prints broken text": (
        'sys.stdout.buffer.write(b\'{"kind":"\\xff"}\')',
        "something else than an ExecCredential",
    ),
    "it gives a token of two lines": ("answer(token='t\\nt')", "the token of .* has a line end"),
    "it gives a token of nothing": ("answer(token='\\n')", "neither a token nor a client"),
    "it gives nothing": ("answer()", "neither a token nor a client certificate"),
    "it speaks another version": (
        "info['apiVersion'] = 'other/v1'; answer(token='t')",
        f"instead of an ExecCredential {V1}",
    ),
    "it hangs": ("time.sleep(600)", "did not answer within 1 seconds"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_plugin_is_complained_about_when(case: str, tmp_path: Path) -> None:
    body, sentence = FAILURES[case]
    credentials = ExecPlugin(plugin(tmp_path, body), timeout=1 if case == "it hangs" else 30)
    with pytest.raises(ConfigError, match=sentence):
        await credentials.identity()


async def test_a_missing_plugin_comes_with_its_install_hint() -> None:
    settings = Exec(command="no-such-plugin", api_version=V1, install_hint="Get it at the desk.")
    with pytest.raises(
        ConfigError, match=r"no-such-plugin .* is not installed. Get it at the desk"
    ):
        await ExecPlugin(settings).identity()


async def test_a_plugin_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    settings = plugin(tmp_path, "")
    os.chmod(settings.command, 0o644)
    with pytest.raises(ConfigError, match="cannot be started: Permission denied"):
        await ExecPlugin(settings).identity()


@pytest.mark.parametrize(
    "settings",
    [
        Exec(command="no\0plugin", api_version=V1),
        Exec(command="true", args=["\0"], api_version=V1),
        Exec(command="true", env=[ExecVariable(name="A=B")], api_version=V1),
    ],
    ids=["command", "argument", "variable"],
)
async def test_what_cannot_be_given_to_a_program_is_told(settings: Exec) -> None:
    with pytest.raises(ConfigError, match=r"cannot be started: (embedded null|illegal env)"):
        await ExecPlugin(settings).identity()


async def test_a_plugin_that_must_ask_needs_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "empty").open("w+") as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        settings = plugin(tmp_path, "answer(token='t')", interactive_mode="Always")
        with pytest.raises(ConfigError, match="there is no terminal"):
            await ExecPlugin(settings).identity()


async def test_what_a_plugin_tells_somebody_at_a_terminal_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    login = tmp_path / "login"
    login.write_text("#!/bin/sh\necho 'enter the code ABCD' >&2\nexit 3\n")
    login.chmod(0o755)
    plugin = ExecPlugin(Exec(api_version=V1, command=str(login)))
    monkeypatch.setattr(plugin, "_interactive", lambda: True)
    with pytest.raises(ConfigError, match="failed with exit code 3"):
        await plugin.identity()
    assert "enter the code ABCD" in capfd.readouterr().err
