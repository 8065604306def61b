"""Every text that a module of the PostgreSQL adapter is left with, put together from its parts: statements, their fragments, and others."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from psycopg import sql

import adapters.postgres
from core.frozen import Frozen, names_of


def house_texts() -> Iterator[tuple[str, str]]:
    """The name of the module's variable, and a text in its value."""
    for module in pkgutil.walk_packages(adapters.postgres.__path__, "adapters.postgres."):
        for name, value in vars(importlib.import_module(module.name)).items():
            yield from ((f"{module.name}.{name}", text) for text in _texts_of(value))


def _texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, sql.Composable):
        yield value.as_string()
    elif isinstance(value, Mapping):
        yield from _texts_of([*value.values()])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts_of(one)
    elif isinstance(value, Frozen):
        yield from _texts_of([getattr(value, name) for name in names_of(value)])
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _texts_of([getattr(value, field.name, None) for field in fields(value)])
