"""The lines on which a field of a noun is declared or copied.

Counted are fields whose name the classes of one noun have alone (the noun, its settings, its change), so that the word is the field. A line
counts if it declares the field or hands it on: in the class, a body, a record, the columns, a change, a document, a form, a label. A
line that works with the value (a check, a decision, a condition, a look at it, its end, a statement of another noun that reads it under a
name of its own) is what the field is there for, and is not counted. Docstrings and comments are not counted either.

In Python, the syntax tree tells which is which: a field of a class, a keyword of a call, a name in quotation marks. In migrations, the line
counts that makes the column; the rest is history.
"""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages

import core.domain
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.frozen import Frozen
from tests.house.declaring import Noun
from tests.house.nouns import NOUNS
from tests.places import MIGRATIONS, ROOT

# The demonstration asks the product by HTTP, as any program, and declares nothing of it.
_DEMO = ROOT / "entrypoints" / "demo"
# Previews of pages have made-up values, by the names that templates have for them.
_MADE_UP = ROOT / "entrypoints" / "http" / "pages" / "kit" / "previews.py"
_FLOORS = ("core", "ports", "adapters", "actors", "entrypoints")
# What nothing but an identity assertion does here.
_ONE_WORD = frozenset({"issues"})
_CONDITION = re.compile(r"\s*(where|and|or|join|left join|order by|on|when|case)\b")
# Sentences that refuse a value, by the name of its field. A further language has them in its one file.
_REFUSALS = frozenset(
    {"entrypoints/http/pages/kit/texts/declaring.toml", *(f"adapters/texts/{one}.toml" for one in Language if one not in CONSOLE_LANGUAGES)}
)
_OF_VALUES = ".console.value]"
_NAME = re.compile(r"[\w.%()]+")
_WORD = re.compile(r"\w+")
# In a statement: a value under another name, a function of it, and its end.
_WORKED_WITH = re.compile(r"\w+ as \w+|\w\((distinct )?[\w.]+\)|\w+ = null")
_COLUMN = re.compile(
    r"\s*(add column )?(?P<name>\w+)\s+(text|boolean|integer|smallint|bigint|uuid|timestamptz|date|jsonb?|bytea|interval)\b"
)


class Line(Frozen):
    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text.strip()}"


@cache
def _declared() -> Mapping[str, frozenset[str]]:
    """The nouns, or modules without one, whose classes have a field of this name."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in walk_packages(core.domain.__path__, "core.domain."):
        for value in vars(import_module(one.name)).values():
            if isinstance(value, type) and issubclass(value, Frozen) and value.__module__ == one.name:
                for name in inspect.get_annotations(value):
                    found[name].add(noun_of(value))
    return {name: frozenset(nouns) for name, nouns in found.items()}


def noun_of(kind: type[Frozen]) -> str:
    """The noun that this class belongs to. In a file with several, a class says by its name, by what it extends or by what extends it which
    one it belongs to, or a class of the noun has it as a field. A class of none of them belongs to the noun that the file is named
    after, or to its file.
    """
    here = [one for one in NOUNS if any(each.__module__ == kind.__module__ for each in _classes(one))]
    if len(here) == 1:
        return here[0].name
    told = [one for one in here if kind in _classes(one)]
    told = told or [one for one in here if any(issubclass(kind, each) or issubclass(each, kind) for each in _classes(one))]
    told = told or sorted((one for one in here if one.of.__name__ in kind.__name__), key=lambda one: -len(one.of.__name__))[:1]
    told = told or [one for one in here if any(kind.__name__ in str(inspect.get_annotations(each)) for each in _classes(one))]
    stem = kind.__module__.rpartition(".")[2]
    told = told or [one for one in here if f"{one.name.replace(' ', '_')}s" == stem]
    return told[0].name if len(told) == 1 else kind.__module__


def _classes(noun: Noun) -> tuple[type[Frozen], ...]:
    return (noun.of, *noun.settings)


def own_fields(kind: type[Frozen]) -> tuple[str, ...]:
    """The fields that are told by their names, in order: classes of no other noun have them, and they are more than one word. A single
    word (`position`, `events`) is that of many things.
    """
    own = (name for name in kind.__struct_fields__ if _declared()[name] == {noun_of(kind)})
    return tuple(name for name in own if "_" in name or name in _ONE_WORD)


def lines_of(names: Collection[str]) -> Mapping[str, list[Line]]:
    """The lines that declare or copy each field, in the order of the files."""
    found: dict[str, list[Line]] = {name: [] for name in names}
    for name, line in chain(_of_python(frozenset(names)), _of_texts(frozenset(names)), _of_migrations(frozenset(names))):
        found[name].append(line)
    return found


def _of_python(names: frozenset[str]) -> Iterator[tuple[str, Line]]:
    for folder in _FLOORS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if _DEMO in file.parents or file == _MADE_UP:
                continue
            source = file.read_text(encoding="utf-8")
            if sought := names.intersection(_WORD.findall(source)):
                lines = source.splitlines()
                for name, number in sorted(set(_of_tree(ast.parse(source), sought, lines))):
                    yield name, Line(file.relative_to(ROOT).as_posix(), number, lines[number - 1])


def _of_tree(tree: ast.Module, names: frozenset[str], lines: list[str]) -> Iterator[tuple[str, int]]:
    """The names, each with the number of a line that declares or copies it."""
    unsaid = {id(one) for one in _unsaid(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            declared = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
            yield from ((one.target.id, one.lineno) for one in declared if one.target.id in names)  # type: ignore[union-attr]
        elif isinstance(node, ast.Call):
            yield from ((one.arg, one.value.lineno) for one in node.keywords if one.arg in names and _hands_on(node.func, one.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unsaid:
            yield from _quoted(node.value, range(node.lineno, (node.end_lineno or node.lineno) + 1), names, lines)


def _unsaid(tree: ast.Module) -> Iterator[ast.expr]:
    """The texts that are no names of fields that are declared or copied: docstrings, the key of a value that is looked at, and the name of
    the sentence that refuses a value.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as text) | ast.Subscript(slice=ast.Constant() as text, ctx=ast.Load()):
                yield text
            case ast.Call(func=ast.Attribute(attr="get"), args=[text, *_]) | ast.keyword(arg="words", value=text):
                yield text


def _hands_on(function: ast.expr, value: ast.expr) -> bool:
    """An object is made of the value as it is. A function that is given the value works with it."""
    called = ast.unparse(function).rpartition(".")[2]
    is_made = called[:1].isupper() or called in {"replace", "taken", "shown"}
    is_end = isinstance(value, ast.Constant) and value.value is None
    return is_made and not is_end and isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Constant)


def _quoted(text: str, inside: range, names: frozenset[str], lines: list[str]) -> Iterator[tuple[str, int]]:
    """A text that is the name or the key of a text with it, a list of names, or a line of a statement that has it in such a list. A
    sentence that refuses a value is none of these, and a condition of a statement is none.
    """
    if "\n" in text:
        for number in inside:
            if not _CONDITION.match(lines[number - 1]):
                yield from ((name, number) for name in names.intersection(_WORD.findall(_WORKED_WITH.sub("", lines[number - 1]))))
    elif all(_NAME.fullmatch(one) for one in text.split(", ")):
        yield from ((name, inside.start) for name in names.intersection(_WORD.findall(text)))


def _of_texts(names: Collection[str]) -> Iterator[tuple[str, Line]]:
    """Labels, hints and sentences, each once a language. The words of a value belong to the value, though its field keys them."""
    for folder in _FLOORS:
        for file in sorted((ROOT / folder).rglob("*.toml")):
            place = file.relative_to(ROOT).as_posix()
            of_values = False
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                key, equals, _ = line.partition(" = ")
                of_values = line.endswith(_OF_VALUES) or (of_values and not line.startswith("["))
                if equals and not of_values and place not in _REFUSALS:
                    yield from ((name, Line(place, number, line)) for name in key.split(".") if name in names)


def _of_migrations(names: Collection[str]) -> Iterator[tuple[str, Line]]:
    for file in sorted(MIGRATIONS.glob("*.sql")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if (column := _COLUMN.match(line)) and column["name"] in names:
                yield column["name"], Line(file.relative_to(ROOT).as_posix(), number, line)
