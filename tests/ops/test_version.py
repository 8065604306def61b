"""The version stands in pyproject.toml. Every other place names the same version, and the changelog has an entry for it."""

import re
import tomllib
from datetime import date
from importlib.metadata import version

import pytest

from ops.release.version import COPIES
from tests.places import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADINGS = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split("."))


def test_the_installed_package_has_the_version_of_the_source() -> None:
    """`/health/ready` and `postern version` report the package's version, so `make` installs the package again after a change."""
    assert version("postern") == VERSION


@pytest.mark.parametrize("file", COPIES)
def test_every_other_place_names_this_version(file: str) -> None:
    for pattern in COPIES[file]:
        found = re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE)
        assert found, pattern
        assert set(found) == {VERSION}, pattern


def test_no_document_names_this_version_where_a_release_does_not_write_the_next() -> None:
    """The page of upgrades and the decisions tell of versions that were, and keep them."""
    documents = [document.relative_to(ROOT).as_posix() for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]
    names = {document: (ROOT / document).read_text() for document in documents if not document.startswith("docs/decisions/")}
    del names["CHANGELOG.md"], names["docs/operations/upgrades-and-keys.md"], names["CONTRIBUTING.md"]
    for name, text in names.items():
        written = [f"(?:{pattern})" for pattern in COPIES.get(name, ())] or ["(?!)"]
        assert VERSION not in re.sub("|".join(written), "", text, flags=re.MULTILINE), name


def test_the_changelog_begins_with_what_comes_next_and_then_tells_of_this_version() -> None:
    assert HEADINGS[0] == "Unreleased"
    assert HEADINGS[1].startswith(f"{VERSION} (")


def test_the_changelog_has_each_version_once_with_its_day_the_newest_first() -> None:
    released = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in HEADINGS[1:]]
    assert None not in released
    versions = [numbers(one[1]) for one in released if one]
    days = [date.fromisoformat(one[2]) for one in released if one]
    assert versions == sorted(set(versions), reverse=True)
    assert days == sorted(days, reverse=True)


def test_no_part_of_the_changelog_is_empty_but_what_comes_next() -> None:
    parts = re.split(r"^## .+$", CHANGELOG, flags=re.MULTILINE)[2:]
    assert all(part.strip() for part in parts)
