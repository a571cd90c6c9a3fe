"""What follows from the records of domains, and what does not fit together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web
from typer.testing import CliRunner

from edgewise.api.manifests import render_objects
from edgewise.cli.main import ENTRIES, build, commands_of
from edgewise.cli.operator import command
from edgewise.domain import (
    CHECK_AUTHORS,
    Built,
    Domain,
    DomainMistake,
    all_kinds,
    check_built,
    check_domains,
    cluster_kinds,
    hub_kinds,
    program_commands,
)
from edgewise.local import kept_platform
from edgewise.local.layout import Home
from edgewise.local.platform_site import Site
from edgewise.operator import DOMAINS, OperatorError, chosen
from edgewise.runtime.health_server import Handler
from edgewise.sessions.domain import SESSIONS
from tests.integration.domain.toy import BINDING, POLICY, PUZZLES, Toy, Workshop
from tests.integration.domain.toy_command import ENTRY

TOYS = Workshop().domain


def like(domain: Domain, **changes: Any) -> Domain:
    return msgspec.structs.replace(domain, **changes)


@pytest.mark.parametrize(
    ("domains", "sentence"),
    [
        ((TOYS, TOYS), "there are two domains toys"),
        ((TOYS, like(TOYS, name="games")), "--toy-factor of games belongs to toys already"),
        (
            (TOYS, like(PUZZLES, programs=TOYS.programs)),
            "both toys and puzzles have a program toy-agent",
        ),
    ],
)
def test_domains_that_do_not_fit_together(domains: tuple[Domain, ...], sentence: str) -> None:
    with pytest.raises(DomainMistake, match=sentence):
        check_domains(domains)


def test_an_option_must_not_hide_one_of_the_operator() -> None:
    taken = like(TOYS, options=(like(TOYS.options[0], name="namespace"),))  # type: ignore[arg-type]
    with pytest.raises(DomainMistake, match="--namespace of toys belongs to the operator already"):
        command((taken,))


def test_a_shared_option_is_one_flag_of_several_domains() -> None:
    both = (like(TOYS, options=(CHECK_AUTHORS,)), like(PUZZLES, options=(CHECK_AUTHORS,)))
    shown = CliRunner().invoke(command(both), ["--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert shown.output.count("--no-check-authors") == 1
    another = msgspec.structs.replace(CHECK_AUTHORS, default=False)
    with pytest.raises(DomainMistake, match="--check-authors of puzzles belongs to several"):
        check_domains((both[0], like(PUZZLES, options=(another,))))
    with pytest.raises(DomainMistake, match="--check-authors of toys belongs to puzzles already"):
        check_domains((like(PUZZLES, options=(another,)), both[0]))


def test_handlers_stay_below_their_domain() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    built = Built(handlers=(Handler("GET", "/metrics", answer),))
    with pytest.raises(DomainMistake, match="the handler /metrics of toys is not below /toys/"):
        check_built(TOYS, built)


def test_the_domains_of_the_house_fit_together() -> None:
    check_domains(DOMAINS)
    assert SESSIONS in DOMAINS


def test_flags_follow_from_the_options() -> None:
    shown = CliRunner().invoke(command((SESSIONS, TOYS)), ["--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for text in ("--toy-factor", "How much a toy grows by its paint.", "--no-check-authors"):
        assert text in shown.output
    alone = CliRunner().invoke(command((SESSIONS,)), ["--help"])
    assert "--toy-factor" not in alone.output


def test_a_domain_that_is_not_there_is_named_with_those_that_are() -> None:
    refused = CliRunner().invoke(command((SESSIONS, TOYS)), ["--domains", "toys,sesions"])
    assert isinstance(refused.exception, OperatorError)
    assert str(refused.exception) == "there is no domain 'sesions'; there are sessions, toys"


@pytest.mark.parametrize(
    ("names", "found"),
    [((), ["sessions", "toys"]), (("toys",), ["toys"]), (("toys", "toys"), ["toys"])],
)
def test_names_choose(names: tuple[str, ...], found: list[str]) -> None:
    assert [each.name for each in chosen((SESSIONS, TOYS), names)] == found


def test_kinds_come_once_however_many_domains_need_them() -> None:
    twice = like(TOYS, name="more", hub_kinds=(Toy,))
    of: Callable[..., tuple[Any, ...]]
    for of in (cluster_kinds, hub_kinds, all_kinds):
        assert of((TOYS, twice)) == (Toy,)


def test_cluster_objects_are_files_for_the_chart() -> None:
    files = render_objects({each.name: each.cluster_objects for each in (SESSIONS, TOYS)})
    assert list(files) == ["toys.yaml"]
    written = list(yaml.safe_load_all(files["toys.yaml"]))
    assert written == [msgspec.to_builtins(each) for each in (POLICY, BINDING)]


def test_a_program_of_a_domain_is_a_command_of_its_entry(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (program,) = TOYS.programs
    edgewise = build(commands_of((*ENTRIES, ENTRY)))
    edgewise.main([*program.command, "--kubeconfig=there"], standalone_mode=False)
    assert capsys.readouterr().out == "plays in there\n"


def test_programs_of_domains_run_beside_a_local_cluster(tmp_path: Path) -> None:
    home = Home(tmp_path)
    site = Site(host="h", webhook_host="h", http=1, control=2, health=3, webhook=4, echo=5)
    assert kept_platform.want(home, site, gateway=False, others=program_commands([TOYS]))
    found = {each.name: each.argv for each in kept_platform.components(home)}
    assert list(found) == ["operator", "toy-agent"]
    assert found["toy-agent"][-3:] == ("toy", "agent", f"--kubeconfig={home.kubeconfig}")
    assert json.loads(home.platform.read_text())["others"] == {"toy-agent": ["toy", "agent"]}
