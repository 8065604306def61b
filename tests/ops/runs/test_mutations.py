"""`ops.mutations` makes the product wrong in one place after the other, and says what no near test sees."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from core.frozen import values_of
from ops.mutations import places, trying
from ops.mutations.__main__ import near_of
from ops.mutations.places import Mutation, Stale, drawn, kept, places_of
from ops.mutations.trying import FOUND, WANTED, Unapplied, apply
from tests.places import ROOT

TINY = '''
"""A module of this test."""

_MOST = 3
_LIST = "select id from things where org_id = %(organization)s and id > %(id)s"
_BY_KIND = {"one": f"{_LIST} limit 1"}


def fits(count):
    return count < _MOST


def named(thing):
    if thing:
        return "yes"
    return "no"


def chosen(counts):
    return [one for one in counts if (lambda: one == 2)()]


async def close(uow):
    await uow.commit()


class Things:
    def is_empty(self, things):
        return things is None
'''


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """In a folder that takes the place of the checkout."""
    (tmp_path / "tiny_product.py").write_text(TINY)
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(trying, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tiny_product", raising=False)
    return importlib.import_module("tiny_product")


def mutations(tiny: ModuleType) -> Mapping[str, Mutation]:
    return {one.before: one for one in places_of(Path(str(tiny.__file__)))}


def test_places_are_conditions_signs_tenants_and_commits(tiny: ModuleType) -> None:
    assert {before: one.after for before, one in mutations(tiny).items()} == {
        "org_id = %(organization)s and ": "",
        "await uow.commit()": "pass",
        "count < _MOST": "count <= _MOST",
        "thing": "(not (thing))",
        "one == 2": "one != 2",
        "things is None": "things is not None",
    }
    one = mutations(tiny)["count < _MOST"]
    assert one.line == TINY.splitlines().index("    return count < _MOST") + 1
    assert one.mutated() == TINY.replace("count < _MOST", "count <= _MOST")


def test_a_change_reaches_functions_that_others_hold_already(tiny: ModuleType) -> None:
    fits, named, is_empty, chosen = tiny.fits, tiny.named, tiny.Things().is_empty, tiny.chosen
    assert (fits(3), named(thing=True), is_empty(None), chosen([1, 2])) == (False, "yes", True, [2])
    for before in ("count < _MOST", "thing", "things is None"):
        apply(mutations(tiny)[before])
    # A function within a function, which is made at each call.
    apply(mutations(tiny)["one == 2"])
    assert (fits(3), named(thing=True), is_empty(None), chosen([1, 2])) == (True, "no", False, [1])


async def test_a_commit_is_left_out(tiny: ModuleType) -> None:
    apply(mutations(tiny)["await uow.commit()"])
    await tiny.close(None)


def test_a_change_reaches_texts_of_sql_and_what_the_module_makes_of_them(tiny: ModuleType) -> None:
    apply(mutations(tiny)["org_id = %(organization)s and "])
    assert tiny._LIST == "select id from things where id > %(id)s"
    assert tiny._BY_KIND == {"one": "select id from things where id > %(id)s limit 1"}


def test_whoever_imported_a_text_has_the_changed_one(tmp_path: Path, tiny: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny_product.py").write_text(TINY.replace("_LIST", "LIST"))
    importlib.reload(tiny)
    importer = ModuleType("importer_of_tiny")
    vars(importer)["LIST"] = tiny.LIST
    monkeypatch.setitem(sys.modules, "importer_of_tiny", importer)
    apply(mutations(tiny)["org_id = %(organization)s and "])
    assert vars(importer)["LIST"] == tiny.LIST == "select id from things where id > %(id)s"


@pytest.mark.usefixtures("tiny")
def test_what_changes_nothing_is_said() -> None:
    at = TINY.index("A module")
    with pytest.raises(Unapplied):
        apply(Mutation(file="tiny_product.py", line=2, before="A module", after="The module", at=at))


def test_a_kept_mutation_that_stands_nowhere_any_more_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({str(one) for one in kept()}) >= 30
    file = tmp_path / "kept.toml"
    file.write_text('[[mutation]]\nfile = "core/frozen.py"\nbefore = "a line of long ago"\nafter = ""\n')
    monkeypatch.setattr(places, "KEPT", file)
    with pytest.raises(Stale, match=r"^core/frozen\.py has no 'a line of long ago' any more$"):
        kept()


def test_a_seed_draws_the_same_places_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_FOLDERS", ("core/domain/tenancy",))
    assert drawn(1, 20) == drawn(1, 20) != drawn(2, 20)
    assert len(set(drawn(1, 20))) == 20


def test_no_test_runs_that_has_the_product_as_it_is() -> None:
    without_tests = Mutation(file="core/frozen.py", line=1, before="", after="", at=0)
    for one in (*kept(), without_tests):
        tests = near_of(one)
        assert tests, one
        assert not [test for test in tests if test.startswith(("tests/ops", "tests/house", "tests/e2e", "tests/browser"))]
        assert all((ROOT / test).exists() for test in tests)


TESTS = """
from tiny_product import fits, named


def test_of_names():
    assert named(False) == "no"


def test_of_most():
    assert not fits(3)
"""
IN_THE_FOLDER = """
from pathlib import Path

from core.frozen import values_of
from ops.mutations import places, trying

places.ROOT = trying.ROOT = Path(__file__).parent
"""


def test_each_mutation_is_tried_in_a_child_of_its_own(tmp_path: Path, tiny: ModuleType) -> None:
    tried = [mutations(tiny)[before] for before in ("count < _MOST", "thing", "things is None")]
    for name, text in (("test_tiny.py", TESTS), ("conftest.py", IN_THE_FOLDER), ("pytest.ini", "[pytest]\n")):
        (tmp_path / name).write_text(text)
    lines = [json.dumps({"mutation": values_of(one), "near": ["test_tiny.py"]}) for one in tried]
    (tmp_path / "wanted").write_text("\n".join(lines))
    places = {WANTED: str(tmp_path / "wanted"), FOUND: str(tmp_path / "found"), "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    command = [sys.executable, "-m", "pytest", "-p", "ops.mutations.trying", "-p", "no:cacheprovider", "test_tiny.py"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, **places}, check=True, stdout=subprocess.DEVNULL)
    found = [json.loads(line) for line in (tmp_path / "found").read_text().splitlines()]
    assert found == [
        {"mutation": str(tried[0]), "caught": "test_tiny.py::test_of_most"},
        {"mutation": str(tried[1]), "caught": "test_tiny.py::test_of_names"},
        {"mutation": str(tried[2]), "caught": ""},
    ]
