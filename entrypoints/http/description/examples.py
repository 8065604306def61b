"""Examples of whole bodies, built from the examples of their fields in the declarations."""

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

# Fields of these formats need no example in their declaration, since all values of such a format look alike.
_BY_FORMAT: Final = {
    "uuid": "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23",
    "date-time": "2026-03-01T09:30:00Z",
    "password": "correct horse battery staple",
}


def example_of(schema: Json, schemas: Mapping[str, Json]) -> Any:
    """An example value for a schema. `schemas` are the components of the document, by name."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return example_of(next(choice for choice in schema["anyOf"] if choice.get("type") != "null"), schemas)
    if schema.get("default") not in (None, [], ""):
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    return _of_type(schema, schemas)


def _of_type(schema: Json, schemas: Mapping[str, Json]) -> Any:
    match schema.get("type"):
        case "object":
            return {name: example_of(one, schemas) for name, one in schema.get("properties", {}).items() if _is_shown(name, one, schema)}
        case "array":
            return [example_of(schema["items"], schemas)] if schema.get("items") else []
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return _BY_FORMAT.get(schema.get("format", ""), schema.get("title", "text"))


def _is_shown(name: str, field: Json, schema: Json) -> bool:
    """Whether the example of an object has this field. An optional field needs an example or a default for that."""
    return name in schema.get("required", ()) or "examples" in field or field.get("default") is not None
