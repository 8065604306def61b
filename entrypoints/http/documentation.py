"""The interface for people, rendered from the same document that machines get. The page works without scripts and asks nobody else."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from entrypoints.http.pages import Pages

Json = dict[str, Any]

# A rule that is not named here shows under its own name.
_CALLERS: Final = {"anyone": "Public", "user": "Signed-in user", "platform_owner": "Platform owner"}
_FORMATS: Final = {"date-time": "time", "uuid": "UUID"}
_CONSTRAINTS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
    "default": "default {}",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a schema reads in a table: its words, and the type further down the page that they name, if any."""

    text: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    required: bool
    notes: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    status: str
    kind: Kind | None
    text: str
    codes: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    anchor: str
    method: str
    path: str
    summary: str
    description: str
    caller: str
    is_public: bool
    limits: Sequence[str]
    parameters: Sequence[Field]
    body: Kind | None
    body_fields: Sequence[Field]
    outcomes: Sequence[Outcome]
    example: str


@dataclass(frozen=True, slots=True)
class Chapter:
    name: str
    text: str
    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    text: str
    fields: Sequence[Field]


def page(pages: Pages, document: Json) -> bytes:
    base_url = document["servers"][0]["url"]
    chapters = tuple(_chapters(document, base_url))
    return pages.encoded(
        "documentation.html",
        base_url=base_url,
        version=document["info"]["version"],
        chapters=chapters,
        types=tuple(_types(document["components"]["schemas"])),
        count=sum(len(chapter.operations) for chapter in chapters),
    )


def _chapters(document: Json, base_url: str) -> Iterator[Chapter]:
    schemas = document["components"]["schemas"]
    operations = [
        (operation["tags"][0], _operation(method.upper(), path, operation, schemas, base_url))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for tag in document["tags"]:
        yield Chapter(tag["name"].capitalize(), tag["description"], [one for name, one in operations if name == tag["name"]])


def _operation(method: str, path: str, operation: Json, schemas: Json, base_url: str) -> Operation:
    body = _media(operation.get("requestBody", {}))[1].get("schema")
    return Operation(
        anchor=operation["operationId"],
        method=method,
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        caller=_CALLERS.get(operation["x-caller"]) or operation["x-caller"],
        is_public=not operation["security"],
        limits=[_limit(limit) for limit in operation.get("x-rate-limit", ())],
        parameters=[
            Field(one["name"], _kind(one["schema"]), one["required"], _notes(one["schema"]), one["in"])
            for one in operation.get("parameters", ())
        ],
        body=_kind(body) if body is not None else None,
        body_fields=_fields(_resolved(body, schemas)) if body is not None else (),
        outcomes=[_outcome(status, response) for status, response in operation["responses"].items() if status != "default"],
        example=_example(method, path, operation, base_url),
    )


def _outcome(status: str, response: Json) -> Outcome:
    media_type, media = _media(response)
    if "examples" in media:
        return Outcome(status, None, "", [(code, one["value"]["error"]) for code, one in media["examples"].items()])
    schema = media.get("schema", {})
    return Outcome(status, _kind(schema) if "$ref" in schema else None, media_type or "No body")


def _media(holder: Json) -> tuple[str, Json]:
    """The media type of a request's or answer's body and what is said of it."""
    content: Json = holder.get("content", {})
    return next(iter(content.items()), ("", {}))


def _resolved(schema: Json, schemas: Json) -> Json:
    found: Json = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _types(schemas: Json) -> Iterator[Type]:
    for name, schema in schemas.items():
        yield Type(name, schema.get("description", ""), _fields(schema))


def _fields(schema: Json) -> list[Field]:
    required = schema.get("required", ())
    return [Field(name, _kind(one), name in required, _notes(one)) for name, one in schema.get("properties", {}).items()]


def _kind(schema: Json) -> Kind:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Kind(name, f"type-{name}")
    if "enum" in schema:
        return Kind(" | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in schema["enum"]))
    if "const" in schema:
        return Kind(f'"{schema["const"]}"')
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"]]
        return Kind(" or ".join(kind.text for kind in kinds), next((kind.anchor for kind in kinds if kind.anchor), ""))
    if schema.get("type") == "array":
        inner = _kind(schema.get("items", {}))
        return Kind(f"list of {inner.text}", inner.anchor)
    kind: str = schema.get("format") or schema.get("type", "anything")
    return Kind(_FORMATS.get(kind) or kind)


def _notes(schema: Json) -> str:
    limits = [words.format(schema[name]) for name, words in _CONSTRAINTS.items() if schema.get(name) is not None]
    return "; ".join([*([schema["description"]] if "description" in schema else []), *limits])


def _limit(limit: Json) -> str:
    pace = limit["seconds_per_request"]
    rate = f"one every {pace:g} s" if pace >= 1 else f"{1 / pace:.0f} a second"
    return f"{limit['burst']} at once, then {rate}"


def _example(method: str, path: str, operation: Json, base_url: str) -> str:
    parts: list[Iterable[str]] = [["curl", "--fail-with-body"]]
    if method != "GET":
        parts.append(["-X", method])
    if operation["security"]:
        parts.append(['-H "Authorization: Bearer $TOKEN"'])
    if "requestBody" in operation:
        parts.append(["--json @request.json"])
    parts.append([f"'{base_url}{path}'" if "{" in path else f"{base_url}{path}"])
    return " ".join(" ".join(part) for part in parts)
