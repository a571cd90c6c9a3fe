"""`edgewise local engine` says where each program comes from."""

import json
from pathlib import Path

from typer.testing import CliRunner

from edgewise.cli.local.engine import app, as_document, as_table
from edgewise.local.engine.finding import Engine, EngineError, Program

ENGINE = Engine(
    {
        "etcd": Program("etcd", Path("/cache/etcd"), "3.6.8", "cache"),
        "init": Program("init", Path("/cache/init"), "", "cache"),
    },
    ("/usr/bin/kubectl is version 1.32.4, but 1.34.x is needed",),
)


def test_a_table() -> None:
    assert as_table(ENGINE).splitlines() == [
        "PROGRAM  VERSION  PATH         FROM",
        "etcd     3.6.8    /cache/etcd  cache",
        "init     -        /cache/init  cache",
        "not used: /usr/bin/kubectl is version 1.32.4, but 1.34.x is needed",
    ]


def test_json() -> None:
    document = json.loads(as_document(ENGINE))
    assert document["programs"][0] == {
        "name": "etcd",
        "version": "3.6.8",
        "path": "/cache/etcd",
        "source": "cache",
    }
    assert document["refused"] == list(ENGINE.refused)


def test_two_wishes_that_exclude_each_other() -> None:
    done = CliRunner().invoke(app, ["--build", "--download"])
    assert isinstance(done.exception, EngineError)
    assert "not both" in str(done.exception)
