"""Package, image and chart say the same about the project."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import edgewise
from edgewise.local.images.edgewise import labels

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHART: dict[str, Any] = yaml.safe_load((ROOT / "deploy/chart/Chart.yaml").read_text())
CONTAINERFILE = (ROOT / "deploy/images/edgewise/Containerfile").read_text()


def test_there_is_one_version() -> None:
    said = {edgewise.__version__, CHART["version"], CHART["appVersion"], PROJECT["version"]}
    assert len(said) == 1


def test_the_chart_says_what_the_package_says() -> None:
    assert CHART["home"] == PROJECT["urls"]["Homepage"]
    assert CHART["keywords"] == PROJECT["keywords"]
    assert CHART["annotations"]["artifacthub.io/license"] == PROJECT["license"]
    assert CHART["description"].startswith(PROJECT["description"].partition(",")[0])


def test_both_ways_to_make_the_image_label_it_alike() -> None:
    written = dict(re.findall(r'(org\.opencontainers\.image\.\w+)="([^"]*)"', CONTAINERFILE))
    assert written == {
        "org.opencontainers.image.title": PROJECT["name"],
        "org.opencontainers.image.description": PROJECT["description"],
        "org.opencontainers.image.licenses": PROJECT["license"],
        "org.opencontainers.image.version": PROJECT["version"],
        "org.opencontainers.image.url": PROJECT["urls"]["Homepage"],
    }
    assert labels() == written


def test_the_license_is_not_said_twice() -> None:
    # An SPDX expression and a classifier for the same thing are refused by package indexes.
    assert not [each for each in PROJECT["classifiers"] if each.startswith("License ::")]


def test_the_newest_part_of_the_changelog_is_this_version_or_not_released() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased" or heads[0].startswith(PROJECT["version"])
    assert len(heads) == len(set(heads))
