"""The texts that the declared resources and questions of the console ask for."""

import sys
from collections.abc import Iterator

import entrypoints.http.pages.console.pages  # noqa: F401 - declares the resources
from entrypoints.http.pages.console.cells import value_key
from entrypoints.http.pages.console.forms import Shape
from entrypoints.http.pages.console.platform.questions import Question, questions
from entrypoints.http.pages.console.resources import Resource


def asked_for() -> set[str]:
    """The keys."""
    of_resources = {key for resource in resources() for key in (*_own(resource), *_shared(resource))}
    return of_resources | {key for question in questions() for key in _of_question(question)}


def resources() -> list[Resource]:
    """All resources of the console, with those of which a screen shows a part."""
    modules = [module for name, module in sys.modules.items() if name.startswith("entrypoints.http.pages.console.")]
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
    yield from (f"console.{resource.name}.{name.replace('-', '_')}" for name in names)


def _shared(resource: Resource) -> Iterator[str]:
    """Labels, hints and values."""
    yield from (column.label for column in (*resource.columns, *resource.facts))
    yield from (one.label for one in resource.filters)
    yield from (label for label, _, _ in (*resource.below, *resource.beneath))
    yield from (key for shape in _shapes(resource) for key in _of_inputs(shape))


def _shapes(resource: Resource) -> Iterator[Shape]:
    if resource.making is not None:
        yield resource.making.shape
    yield from (section.shape for section in resource.sections)
    yield from (act.shape for act in resource.acts if act.shape is not None)


def _of_inputs(shape: Shape) -> Iterator[str]:
    for one in shape.inputs:
        yield one.label
        if one.hint:
            yield one.hint
        if one.can_stay_open:
            yield one.unchosen
        if one.choices is None:
            yield from (f"console.value.{value_key(value)}" for value in one.allowed)
