"""The lines on which a field of a noun is declared or copied, counted by the type that has the field.

`field_lines.py` goes by spelling, so it leaves out every name that two nouns share, and every single word: a `reference` of a trial stood
on 50 lines. Here a line belongs to a noun if a class of the noun is at hand:

- in a class of the noun: one of the domain, one that extends it, or one whose name begins or ends with its name, as records and bodies do;
- in a call of such a class, or in `replace`, `taken`, `shown` or `Columns` in a file that imports it;
- as a name in quotation marks in a file that imports it, unless a class of another noun with such a field is imported there, too;
- as a text beside a page that imports it;
- as a column of a table of the noun.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Final

import core.domain
from core.frozen import Frozen
from tests.house.declaring import Noun
from tests.house.field_lines import Line, noun_of
from tests.house.nouns import NOUNS
from tests.places import MIGRATIONS, ROOT

_LAYERS: Final = ("core", "ports", "adapters", "actors", "entrypoints")
_DEMO: Final = ROOT / "entrypoints" / "demo"
_HANDING_ON: Final = frozenset({"replace", "taken", "shown", "Columns"})
# Fields that nearly every noun has.
_OF_ALL: Final = frozenset({"id", "organization", "service", "user", "name", "slug", "created_at", "updated_at"})
_NAMES: Final = re.compile(r"\w+(?:, \w+)*")
_TABLE: Final = re.compile(r"(?:create|alter) table (?:if not exists )?(?P<table>\w+)")
_COLUMN: Final = re.compile(r"\s+(?:add column )?(?P<column>\w+)\s+\w+")

Counted = Mapping[str, Mapping[str, list[Line]]]
"""By noun and field."""


@cache
def kinds() -> Mapping[str, str]:
    """Each class of the domain that belongs to a noun, by its module and name."""
    names = {one.name for one in NOUNS}
    found = {}
    for module in walk_packages(core.domain.__path__, "core.domain."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Frozen) and value.__module__ == module.name and noun_of(value) in names:
                found[f"{value.__module__}.{value.__qualname__}"] = noun_of(value)
    return found


def fields_of(noun: Noun) -> frozenset[str]:
    return frozenset(name for kind in (noun.of, *noun.settings) for name in kind.__struct_fields__) - _OF_ALL


@cache
def _fields() -> Mapping[str, frozenset[str]]:
    return {noun.name: fields_of(noun) for noun in NOUNS}


def counted() -> Counted:
    found: dict[str, dict[str, list[Line]]] = {noun: {name: [] for name in sorted(names)} for noun, names in _fields().items()}
    lines = {*_of_python(), *_of_migrations()}
    for noun, name, line in sorted(lines, key=lambda one: (one[2].file, one[2].number)):
        found[noun][name].append(line)
    return found


def _of_python() -> Iterator[tuple[str, str, Line]]:
    for folder in _LAYERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if _DEMO in file.parents:
                continue
            source = file.read_text(encoding="utf-8")
            tree, lines = ast.parse(source), source.splitlines()
            at_hand = _at_hand(tree)
            place = file.relative_to(ROOT).as_posix()
            for noun, name, number in _of_tree(tree, at_hand):
                yield noun, name, Line(place, number, lines[number - 1])
            texts = file.parent / "texts" / f"{file.stem}.toml"
            if texts.is_file():
                yield from _of_texts(texts.relative_to(ROOT).as_posix(), texts.read_text(encoding="utf-8"), set(at_hand.values()))


def _at_hand(tree: ast.Module) -> Mapping[str, str]:
    """The classes of nouns in this file, by the names that they have here."""
    known = {
        one.asname or one.name: noun
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
        if (noun := kinds().get(f"{node.module}.{one.name}"))
    }
    own = {noun.of.__name__: noun.name for noun in NOUNS}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [known[base] for one in node.bases if (base := ast.unparse(one)) in known]
            named = [noun for name, noun in own.items() if node.name.startswith(name) or node.name.endswith(name)]
            if found := (bases or named):
                known[node.name] = found[0]
    return known


def _of_tree(tree: ast.Module, at_hand: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    owners: dict[str, set[str]] = defaultdict(set)
    for noun in set(at_hand.values()):
        for name in _fields()[noun]:
            owners[name].add(noun)
    # A name that classes of two nouns have here belongs to neither, unless it stands in one of them.
    alone = {name: next(iter(nouns)) for name, nouns in owners.items() if len(nouns) == 1}
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() if node.name in at_hand:
                yield from _declared(node, at_hand[node.name])
            case ast.Call():
                yield from _handed_on(node, at_hand, alone)
            case ast.Constant(value=str(text)) if _NAMES.fullmatch(text):
                yield from ((alone[name], name, node.lineno) for name in text.split(", ") if name in alone)


def _declared(kind: ast.ClassDef, noun: str) -> Iterator[tuple[str, str, int]]:
    for one in kind.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.target.id in _fields()[noun]:
            yield noun, one.target.id, one.lineno


def _handed_on(call: ast.Call, at_hand: Mapping[str, str], alone: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    called = ast.unparse(call.func).rpartition(".")[2]
    for word in call.keywords:
        noun = at_hand.get(called) or (alone.get(word.arg or "") if called in _HANDING_ON else None)
        if noun is not None and word.arg in _fields()[noun]:
            yield noun, word.arg, word.value.lineno


def _of_texts(place: str, source: str, nouns: set[str]) -> Iterator[tuple[str, str, Line]]:
    for number, line in enumerate(source.splitlines(), 1):
        key, equals, _ = line.partition(" = ")
        for part in key.split(".") if equals else ():
            owners = [noun for noun in nouns if part in _fields()[noun]]
            if len(owners) == 1:
                yield owners[0], part, Line(place, number, line)


def _of_migrations() -> Iterator[tuple[str, str, Line]]:
    tables = {table: noun.name for noun in NOUNS for table in noun.tables}
    for file in sorted(MIGRATIONS.glob("*.sql")):
        place, noun = file.relative_to(ROOT).as_posix(), None
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if made := _TABLE.match(line):
                noun = tables.get(made["table"])
            column = _COLUMN.match(line)
            if noun is not None and column and column["column"] in _fields()[noun]:
                yield noun, column["column"], Line(place, number, line)
            if line.rstrip().endswith(";"):
                noun = None
