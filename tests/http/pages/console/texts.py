"""The texts that the declared resources of the console ask for."""

from collections.abc import Iterator

import entrypoints.http.pages.console.pages  # noqa: F401 - declares the resources
from entrypoints.http.pages.console.cells import value_key
from entrypoints.http.pages.console.forms import Shape
from entrypoints.http.pages.console.resource_pages import resources
from entrypoints.http.pages.console.resources import Resource


def asked_for() -> set[str]:
    """The keys."""
    return {key for resource in resources() for key in (*_own(resource), *_shared(resource))}


def _own(resource: Resource) -> Iterator[str]:
    """Those of the section of the resource."""
    names = ["title"]
    if not resource.is_single or resource.columns:
        names += ["empty_title", "empty_text"]
    if resource.making is not None:
        names.append("new")
    if (resource.making is not None and resource.making.secret) or any(act.secret for act in resource.acts):
        names.append("secret_title")
    names += [f"section_{section.name}" for section in resource.sections]
    for act in resource.acts:
        names.append(f"act_{act.name}")
        if act.asks or act.endpoint.step_up is not None:
            names += [f"ask_{act.name}_title", f"ask_{act.name}_text"]
    if resource.ending is not None:
        names += ["end", "end_title", "end_text"]
    yield from (f"console.{resource.name}.{name.replace('-', '_')}" for name in names)


def _shared(resource: Resource) -> Iterator[str]:
    """Labels, hints and values."""
    yield from (column.label for column in (*resource.columns, *resource.facts))
    yield from (one.label for one in resource.filters)
    yield from (label for label, _, _ in resource.below)
    yield from (key for shape in _shapes(resource) for key in _of_inputs(shape))


def _shapes(resource: Resource) -> Iterator[Shape]:
    if resource.making is not None:
        yield resource.making.shape
    yield from (section.shape for section in resource.sections)


def _of_inputs(shape: Shape) -> Iterator[str]:
    for one in shape.inputs:
        yield one.label
        if one.hint:
            yield one.hint
        if one.choices is None:
            yield from (f"console.value.{value_key(value)}" for value in one.allowed)
