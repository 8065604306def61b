"""The package can be installed on every platform that it names: every locked library has a wheel there. `make wheels` asks the registry and
keeps the answer; these tests compare the answer with the locks and with what we promise.
"""

import json
import re
import sys
import tomllib
from typing import Any

import pytest

from ops import wheels
from tests.places import ROOT

README = (ROOT / "README.md").read_text()


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(wheels.RECORD.read_text())
    return found


def test_the_answer_is_about_the_locks_as_they_are() -> None:
    assert recorded()["locks"] == wheels.digests(), "A lock has changed since the registry was asked: make wheels"


@pytest.mark.parametrize("python", wheels.PYTHONS)
@pytest.mark.parametrize("platform", wheels.PLATFORMS)
def test_everything_locked_has_a_wheel(platform: str, python: str) -> None:
    assert python in recorded()["installable"][platform]


def test_every_python_that_the_package_names_was_asked_about() -> None:
    named = [found[1] for one in project()["classifiers"] if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one))]
    assert tuple(named) == wheels.PYTHONS
    first, last = (int(one.partition(".")[2]) for one in (named[0], named[-1]))
    assert project()["requires-python"] == f">=3.{first},<3.{last + 1}"
    assert f"Python 3.{first} to 3.{last}" in README
    assert f"(3, {first}) <= sys.version_info < (3, {last + 1})" in (ROOT / "Makefile").read_text()
    assert (3, first) <= sys.version_info < (3, last + 1)


def test_every_platform_that_the_readme_names_was_asked_about() -> None:
    text = " ".join(README.split())
    assert "Linux with glibc 2.28 or later on x86-64 and aarch64, macOS 13 or later on arm64" in text
    assert wheels.PLATFORMS == ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")


def test_a_platform_without_a_wheel_shows_in_the_record() -> None:
    found = {(platform, python): "" for platform in wheels.PLATFORMS for python in wheels.PYTHONS}
    found["aarch64-apple-darwin", "3.14"] = "there is none"
    made = wheels.record(found)
    assert made["installable"]["aarch64-apple-darwin"] == ["3.11", "3.12", "3.13"]
    assert made["installable"]["x86_64-manylinux_2_28"] == list(wheels.PYTHONS)
    assert made["locks"] == wheels.digests()
