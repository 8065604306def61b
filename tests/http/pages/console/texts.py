"""The texts that the declared resources and questions of the console ask for."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import entrypoints.http.console.pages  # noqa: F401 - declares the resources
from entrypoints.http.console.kit.cells import Column, field_of, value_key
from entrypoints.http.console.kit.forms import Asked, Input, Shape
from entrypoints.http.console.kit.resources import Filter, Resource
from entrypoints.http.console.platform.questions import Question, questions

ROOM = "entrypoints.http.console."
# The texts that a field asks for by its name, unless it names others.
BY_NAME = ("console.field.", "console.unchosen.", "console.value.")


def asked_for() -> set[str]:
    """The keys."""
    of_resources = {key for resource in resources() for key in (*_own(resource), *_shared(resource))}
    return of_resources | {key for question in questions() for key in _of_question(question)}


def resources() -> list[Resource]:
    """All resources of the console, with those of which a screen shows a part."""
    modules = [module for name, module in sys.modules.items() if name.startswith(ROOM)]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Resource)]


def _of_question(question: Question) -> Iterator[str]:
    key = f"{question.texts}.{question.name}"
    yield from (key, f"{key}_title", f"{key}_text")
    if question.shape is not None:
        yield from _of_inputs(question.shape)


def _own(resource: Resource) -> Iterator[str]:
    """Those of the section of the resource."""
    names = []
    # One of several pages of a record has no list, and a single thing that cannot end is always there.
    if not resource.page:
        names.append("title")
        names += ["empty_title", "empty_text"] if not resource.is_single or resource.ending is not None else []
    if resource.making is not None:
        names.append("new")
    if (resource.making is not None and resource.making.secret) or any(act.secret for act in resource.acts):
        names.append("secret_title")
    names += [f"section_{section.name}" for section in resource.sections]
    for act in resource.acts:
        names.append(f"act_{act.name}")
        if act.asks or act.shape is not None or act.endpoint.step_up is not None:
            names += [f"ask_{act.name}_title", f"ask_{act.name}_text"]
    for bulk in resource.bulks:
        names += [f"act_{bulk.name}", *(f"{how}_{bulk.name}_{part}" for how in ("ask", "bulk") for part in ("title", "text"))]
    if resource.ending is not None:
        names += ["end", "end_title", "end_text"]
    yield from (resource.key_of(name) for name in names)


def _shared(resource: Resource) -> Iterator[str]:
    """Labels, hints and values."""
    yield from (key for column in columns_of(resource) for key in of_column(column))
    yield from (one.label for one in resource.filters)
    yield from (label for label, _, _ in (*resource.below, *resource.beneath))
    yield from (key for shape in shapes_of(resource) for key in _of_inputs(shape))


def columns_of(resource: Resource) -> Iterator[Column]:
    yield from (*resource.columns, *resource.facts, *resource.in_file)
    yield from (column for act in resource.acts for column in act.facts)


def of_column(column: Column) -> Iterator[str]:
    yield column.label
    yield from (value_key(field_of(column.label), value) for value in column.values)


def shapes_of(resource: Resource) -> Iterator[Shape]:
    if resource.making is not None:
        yield resource.making.shape
    yield from (section.shape for section in resource.sections)
    yield from (act.shape for act in resource.acts if act.shape is not None)


def _of_inputs(shape: Shape) -> Iterator[str]:
    yield from (key for one in shape.inputs for key in of_input(one))


def of_input(one: Input) -> Iterator[str]:
    yield one.label
    if one.hint:
        yield one.hint
    if one.can_stay_open:
        yield one.unchosen
    if one.choices is None:
        yield from (value_key(field_of(one.label), value) for value in one.allowed)


def said_at() -> Iterator[tuple[Path, str]]:
    """Each module that declares something, with the labels and the values that its fields ask for by their names alone."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith(ROOM):
            imported = _imported(module)
            own = [value for known, value in vars(module).items() if known not in imported and not isinstance(value, ModuleType)]
            borrowed = [value for known, value in vars(module).items() if known in imported]
            of_others = {id(part) for part in _parts(borrowed)}
            asked = {(part.name, part.label) for part in _parts(borrowed) if isinstance(part, Asked)}
            for part in _parts(own):
                if id(part) not in of_others and not (isinstance(part, Input) and {(part.name, part.label), (part.name, "")} & asked):
                    yield from ((Path(str(module.__file__)), key) for key in _of_part(part) if key.startswith(BY_NAME))


def _imported(module: ModuleType) -> set[str]:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    lines = (line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom))
    return {name.asname or name.name for line in lines for name in line.names}


def _parts(values: Iterable[object]) -> Iterator[object]:
    """What can be declared, also in a collection or in a module that was imported."""
    for value in values:
        if isinstance(value, ModuleType) and value.__name__.startswith(ROOM):
            yield from _parts(one for one in vars(value).values() if not isinstance(one, ModuleType))
        elif isinstance(value, Mapping):
            yield from _parts(value.values())
        elif isinstance(value, tuple | list) and type(value) in {tuple, list}:
            yield from _parts(value)
        elif isinstance(value, Resource):
            yield from (*columns_of(value), *value.filters)
            yield from (one for shape in shapes_of(value) for one in shape.inputs)
        elif isinstance(value, Shape):
            yield from value.inputs
        elif isinstance(value, Asked | Column | Filter | Input):
            yield value


def _of_part(part: object) -> Iterator[str]:
    match part:
        case Column():
            yield from of_column(part)
        case Filter():
            yield part.label
        case Input():
            yield from of_input(part)
