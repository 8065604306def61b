"""The descriptions of fields: the string below a field of a Struct, or else the description of the field's type."""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import inspect as shapes

Json = dict[str, Any]

# These entries belong to the field. When the field may also be null or absent, msgspec puts these entries into the schema of one of the
# field's types.
_OF_THE_FIELD: Final = ("description", "examples")
# The packages whose classes have such strings.
_OURS: Final = (__package__.removesuffix("http.description"), "tests.")


def describe(components: Mapping[str, Json], kinds: Iterable[Any]) -> None:
    """Add the descriptions to the schemas of all Structs inside these types. A Struct with `has_other_names` stands for an object whose
    further names no declaration knows.
    """
    for struct in set(_structs(shapes.multi_type_info(list(kinds)))):
        texts = texts_of(struct)
        properties = components[struct.__name__].get("properties", {})
        if getattr(struct, "has_other_names", False):
            components[struct.__name__]["additionalProperties"] = True
        described = shapes.type_info(struct)
        assert isinstance(described, shapes.StructType)  # noqa: S101 - for the type checker: a Struct describes itself as one
        for field in described.fields:
            schema = properties[field.encode_name]
            _mark_moments(schema, field.type)
            lift(schema)
            if field.name in texts:
                schema["description"] = texts[field.name]


def _mark_moments(schema: Json, kind: shapes.Type) -> None:
    """Set the format `date-time`. If a type does not require an offset from UTC, msgspec describes the time as plain text. All times of the
    API have an offset.
    """
    if isinstance(kind, shapes.Metadata):
        _mark_moments(schema, kind.type)
    elif isinstance(kind, shapes.UnionType):
        for choice, one in zip(schema.get("anyOf", [schema]), kind.types, strict=False):
            _mark_moments(choice, one)
    elif isinstance(kind, shapes.DateTimeType):
        schema["format"] = "date-time"


def lift(schema: Json) -> None:
    for choice in schema.get("anyOf", ()):
        for name in _OF_THE_FIELD:
            if name in choice:
                schema.setdefault(name, choice.pop(name))


def texts_of(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """The strings below the fields of a Struct and of its base classes, by field."""
    texts: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        texts |= _texts_of_module(kind.__module__).get(kind.__qualname__, {})
    return texts


@cache
def _texts_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    if not name.startswith(_OURS):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: dict(_texts_of_class(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _texts_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield field.target.id, " ".join(below.value.value.split())


def _structs(described: Any) -> Iterator[type[msgspec.Struct]]:
    """The Structs inside a type, given as msgspec's description of the type. The description itself consists of Structs and tuples. The
    recursion ends, since no type of a request or answer contains itself.
    """
    if isinstance(described, shapes.StructType):
        yield described.cls
        for field in described.fields:
            yield from _structs(field.type)
    elif isinstance(described, tuple | list):
        for one in described:
            yield from _structs(one)
    elif isinstance(described, msgspec.Struct):
        for name in described.__struct_fields__:
            yield from _structs(getattr(described, name))
