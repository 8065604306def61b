"""The probe of generators sees a client that lacks operations or does not compile, and a linter that finds errors. No generator runs."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from core.frozen import replace
from ops.generate_clients import (
    DOCUMENT,
    GENERATORS,
    LINTERS,
    NODE_PACKAGES,
    PYTHON_PACKAGES,
    Generator,
    Linter,
    Workshop,
    document,
    outcomes,
    written,
)
from tests.places import ROOT

_DOCUMENT: Final[Mapping[str, Any]] = {"paths": {"/roles": {"get": {"operationId": "list_roles"}, "post": {"operationId": "create_role"}}}}
_GUIDE: Final = ROOT / "docs/guides/programs/generated-clients.md"
_WHOLE: Final = "export const listRoles = 1; export const createRole = 2"


def python(program: str) -> Sequence[str]:
    return (sys.executable, "-c", program)


def writing(text: str, *, compiled: str = "") -> Generator:
    return Generator(name="made", command=python(f"open('client.ts', 'w').write({text!r})"), client="client.ts", compiled=python(compiled))


def counting(errors: int) -> Linter:
    return Linter(name="linter", command=python(f"print({errors}); raise SystemExit(1)"), count=lambda found: (found, 3))


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, tmp_path / "installed", _DOCUMENT)


def outcome(workshop: Workshop, *, generators: Sequence[Generator] = (), linters: Sequence[Linter] = ()) -> tuple[str, bool]:
    ((_, told, is_good),) = outcomes(workshop, generators, linters)
    return told, is_good


def test_a_client_with_all_operations_that_compiles_is_good(workshop: Workshop) -> None:
    assert outcome(workshop, generators=[writing(_WHOLE)]) == ("2 of 2 operations, compiles", True)


def test_a_client_that_lacks_an_operation_is_not_good_unless_that_is_known(workshop: Workshop) -> None:
    lacking = writing("export const listRoles = 1")
    assert outcome(workshop, generators=[lacking]) == ("lacks create_role", False)
    known = replace(lacking, lacks=frozenset({"create_role"}))
    assert outcome(workshop, generators=[known]) == ("1 of 2 operations, compiles", True)
    assert outcome(workshop, generators=[replace(known, command=writing(_WHOLE).command)]) == (
        "lacks nothing, against what is expected",
        False,
    )


def test_a_client_that_does_not_compile_is_not_good(workshop: Workshop) -> None:
    told, is_good = outcome(workshop, generators=[writing(_WHOLE, compiled="raise SystemExit('no such module')")])
    assert "no such module" in told
    assert not is_good


def test_a_generator_that_fails_is_not_good(workshop: Workshop) -> None:
    told, is_good = outcome(workshop, generators=[replace(writing(_WHOLE), command=python("raise SystemExit('cannot read it')"))])
    assert "cannot read it" in told
    assert not is_good


@pytest.mark.parametrize(("errors", "expected"), [(0, ("0 errors, 3 warnings", True)), (2, ("2 errors", False))])
def test_an_error_of_a_linter_is_not_good(workshop: Workshop, errors: int, expected: tuple[str, bool]) -> None:
    assert outcome(workshop, linters=[counting(errors)]) == expected


def test_each_generator_reads_the_document_and_knows_the_operations_that_it_lacks() -> None:
    operations = {one["operationId"] for methods in document()["paths"].values() for one in methods.values()}
    assert all(DOCUMENT in one.command for one in (*GENERATORS, *LINTERS))
    assert all(one.lacks <= operations for one in GENERATORS)


def test_the_program_writes_the_figures_of_the_guide() -> None:
    """The table of the guide is what the program writes for the outcomes that the table has, and its sums are right."""
    guide = _GUIDE.read_text()
    (day,) = re.findall(r"\*\*Tested\*\* on (\S+) by `python -m ops.generate_clients`", guide)
    (number,) = re.findall(r"the document of all (\d+)\s", guide)
    told = [
        (one.name, re.search(rf"^\| {re.escape(one.name)} \| \S+ \| (.+?)(?: by `.+`)? \|$", guide, re.MULTILINE))
        for one in (*GENERATORS, *LINTERS)
    ]
    found = [(name, row[1]) for name, row in told if row is not None]
    assert [name for name, _ in found] == [name for name, _ in told]
    assert written(guide, found, int(number), day) == guide
    for one, (_, outcome) in zip(GENERATORS, found, strict=False):
        assert outcome == f"{int(number) - len(one.lacks)} of {number} operations, compiles", one.name
    again = written(guide, [*found[:-1], (found[-1][0], "0 errors, 99 warnings")], 12345, "2030-01-02")
    assert "**Tested** on 2030-01-02 by" in again
    assert "all 12345\n" in again
    assert "0 errors, 99 warnings by `recommended` |" in again
    assert again.endswith(guide[guide.rindex(" |\n\n") + 4 :])


def test_the_guide_names_each_generator_with_its_version() -> None:
    guide = _GUIDE.read_text()
    assert [one.name for one in (*GENERATORS, *LINTERS) if f"| {one.name} " not in guide] == []
    needed_by_clients = ("ruff", "pydantic", "python-dateutil", "urllib3")
    versions = [package for package in PYTHON_PACKAGES if not package.startswith(needed_by_clients)]
    shown = [package.rpartition("==")[2] for package in versions] + [package.rpartition("@")[2] for package in NODE_PACKAGES]
    assert [version for version in shown if version not in guide] == []
