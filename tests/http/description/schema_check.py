"""Whether a value is what a JSON Schema says, as far as our document uses it. An unknown word is a fault of the test."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

Json = dict[str, Any]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_READ: Final = {
    *{"type", "format", "enum", "const", "anyOf", "$ref", "properties", "required", "items", "additionalProperties"},
    *{"minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "maxProperties", "propertyNames", "pattern"},
    *{"title", "description", "examples", "default", "prefixItems", "uniqueItems"},
}


def faults(value: Any, schema: Json, schemas: Mapping[str, Json], place: str = "") -> Iterator[str]:
    """The faults of the value: the place and the reason of each."""
    assert not set(schema) - _READ, f"{place}: nobody checks {set(schema) - _READ}"
    if "$ref" in schema:
        yield from faults(value, schemas[schema["$ref"].rpartition("/")[2]], schemas, place)
    if "anyOf" in schema and all(list(faults(value, one, schemas, place)) for one in schema["anyOf"]):
        yield f"{place}: {value!r} is none of {schema['anyOf']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r} is not {schema['const']!r}"
    if "type" in schema:
        yield from _faults_of_type(value, schema, schemas, place)


def _faults_of_type(value: Any, schema: Json, schemas: Mapping[str, Json], place: str) -> Iterator[str]:
    if not isinstance(value, _TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        yield f"{place}: {value!r} is not of type {schema['type']}"
    elif isinstance(value, str):
        yield from _faults_of_text(value, schema, place)
    elif isinstance(value, dict):
        yield from _faults_of_object(value, schema, schemas, place)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{place}: has {len(value)} items"
        for one in value:
            yield from faults(one, schema.get("items", {}), schemas, f"{place}[]")
    elif value is not None and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: {value} is out of bounds"


def _faults_of_object(value: Json, schema: Json, schemas: Mapping[str, Json], place: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{place}: has {len(value)} properties"
    for name in value:
        yield from faults(name, schema.get("propertyNames", {}), schemas, f"{place}.{name}")
    yield from (f"{place}.{name}: is missing" for name in schema.get("required", ()) if name not in value)
    others = not properties or schema.get("additionalProperties") is True
    yield from (f"{place}.{name}: is unknown" for name in value if not others and name not in properties)
    for name, one in properties.items():
        if name in value:
            yield from faults(value[name], one, schemas, f"{place}.{name}")


def _faults_of_text(value: str, schema: Json, place: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{place}: has {len(value)} characters"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r} does not match {schema['pattern']}"
    try:
        if schema.get("format") == "uuid":
            UUID(value)
        elif schema.get("format") == "date-time":
            assert datetime.fromisoformat(value).tzinfo is not None
    except (ValueError, AssertionError):
        yield f"{place}: {value!r} is no {schema['format']}"
