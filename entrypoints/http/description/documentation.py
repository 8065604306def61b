"""The API for people, rendered from the document that programs get: a page of contents, and one for each tag, with the types that its
endpoints use. The pages work without scripts and ask nobody else.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from core.domain.languages import DEFAULT
from core.frozen import Frozen
from entrypoints.http.description.examples import example_of
from entrypoints.http.description.wording import Kind, anchor_of, caller_in_words, constraints_of, curl, kind_of, limit_in_words, pretty
from entrypoints.http.pages import Pages

Json = dict[str, Any]

# Of the tags whose name is no title.
_TITLES: Final = {
    "api-keys": "API keys",
    "audit": "Audit log",
    "end-users": "End users",
    "mfa": "Second factor",
    "oauth": "OAuth and OpenID Connect",
    "saml": "SAML",
    "scim": "SCIM",
    "service-interface": "For a service's servers",
    "siem": "SIEM",
}


class Field(Frozen):
    name: str
    kind: Kind
    required: bool
    text: str
    notes: str
    place: str = ""


class Outcome(Frozen):
    status: str
    kind: Kind | None
    text: str
    example: str = ""
    codes: Sequence[tuple[str, str]] = ()
    headers: Sequence[tuple[str, str]] = ()
    """Those that this endpoint names. What many answers have is told among the contents."""


class Operation(Frozen):
    anchor: str
    method: str
    path: str
    summary: str
    description: str
    caller: str
    limits: Sequence[tuple[str, str]]
    parameters: Sequence[Field]
    body: Kind | None
    body_fields: Sequence[Field]
    outcomes: Sequence[Outcome]
    example: str


class Chapter(Frozen):
    anchor: str
    name: str
    text: str
    operations: Sequence[Operation]


class Type(Frozen):
    anchor: str
    name: str
    text: str
    values: Sequence[str]
    fields: Sequence[Field]


class Documentation(Frozen):
    contents: bytes
    chapters: Mapping[str, bytes]


def rendered(pages: Pages, document: Json) -> Documentation:
    base_url = document["servers"][0]["url"]
    schemas = document["components"]["schemas"]
    chapters = tuple(_chapters(document, base_url))
    everywhere = {"version": document["info"]["version"], "chapters": chapters}
    contents = pages.page(
        "documentation/contents.html",
        DEFAULT,
        base_url=base_url,
        sign_in_example=_sign_in_example(base_url),
        user_example=curl("get", f"{base_url}/api/user", {"security": [{"bearer": []}]}),
        error_example=pretty(example_of(schemas["ErrorBody"], schemas)),
        addresses={one.anchor: f"/docs/{chapter.anchor}#{one.anchor}" for chapter in chapters for one in chapter.operations},
        count=sum(len(chapter.operations) for chapter in chapters),
        **everywhere,
    )
    types = {one.anchor: one for one in _types(schemas)}
    return Documentation(
        contents,
        {
            chapter.anchor: pages.page("documentation/chapter.html", DEFAULT, chapter=chapter, types=_used(chapter, types), **everywhere)
            for chapter in chapters
        },
    )


def _sign_in_example(base_url: str) -> str:
    """With what the reader has to fill in, and nothing that may be left out."""
    credentials = {"email": "you@example.org", "password": "your password"}
    body = {"content": {"application/json": {"example": credentials}}}
    return curl("post", f"{base_url}/api/auth/login", {"security": [], "requestBody": body})


def _chapters(document: Json, base_url: str) -> Iterator[Chapter]:
    schemas = document["components"]["schemas"]
    operations = [
        (operation["tags"][0], _operation(method.upper(), path, operation, schemas, base_url))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for tag in document["tags"]:
        name: str = tag["name"]
        yield Chapter(name, _TITLES.get(name) or name.capitalize(), tag["description"], [one for of, one in operations if of == name])


def _operation(method: str, path: str, operation: Json, schemas: Json, base_url: str) -> Operation:
    body = _media(operation.get("requestBody", {}))[1].get("schema")
    return Operation(
        anchor=operation["operationId"],
        method=method,
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        caller=caller_in_words(operation),
        limits=[(limit["name"], limit_in_words(limit)) for limit in operation.get("x-rate-limit", ())],
        parameters=[_parameter(one) for one in operation.get("parameters", ())],
        body=kind_of(body) if body is not None else None,
        body_fields=_fields(_resolved(body, schemas)) if body is not None else (),
        outcomes=[_outcome(status, response) for status, response in operation["responses"].items() if status != "default"],
        example=curl(method, base_url + _filled_in(path, operation), operation),
    )


def _parameter(one: Json) -> Field:
    text = one.get("description", "")
    return Field(one["name"], kind_of(one["schema"]), one["required"], text, constraints_of(one["schema"], text), one["in"])


def _filled_in(path: str, operation: Json) -> str:
    query: dict[str, str] = {}
    for one in operation.get("parameters", ()):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", str(one["example"]))
        elif one["in"] == "query" and one["required"]:
            query[one["name"]] = one["example"]
    return f"{path}?{urlencode(query)}" if query else path


def _outcome(status: str, response: Json) -> Outcome:
    media_type, media = _media(response)
    if "examples" in media:
        return Outcome(status, None, "", codes=[(code, one["summary"]) for code, one in media["examples"].items()])
    schema = media.get("schema", {})
    kind = kind_of(schema) if "$ref" in schema or "items" in schema else None
    headers = [(name, header["description"]) for name, header in response["headers"].items() if "$ref" not in header]
    example = pretty(media["example"]) if "example" in media else ""
    return Outcome(status, kind, media_type or "No body", example, headers=headers)


def _media(holder: Json) -> tuple[str, Json]:
    """The media type of a request's or answer's body and what is said of it."""
    content: Json = holder.get("content", {})
    return next(iter(content.items()), ("", {}))


def _resolved(schema: Json, schemas: Json) -> Json:
    found: Json = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _types(schemas: Json) -> Iterator[Type]:
    for name, schema in sorted(schemas.items()):
        yield Type(anchor_of(name), name, schema.get("description", ""), schema.get("enum", ()), _fields(schema))


def _used(chapter: Chapter, types: Mapping[str, Type]) -> Sequence[Type]:
    """The types that the chapter's endpoints name, and those that these name, by their names."""
    named = [kind for operation in chapter.operations for kind in _kinds(operation)]
    found: dict[str, Type] = {}
    while named:
        anchor = named.pop().anchor
        if anchor and anchor not in found:
            found[anchor] = types[anchor]
            named += [field.kind for field in types[anchor].fields]
    return sorted(found.values(), key=lambda one: one.name)


def _kinds(operation: Operation) -> Iterator[Kind]:
    yield from (field.kind for field in (*operation.parameters, *operation.body_fields))
    yield from (kind for kind in (operation.body, *(outcome.kind for outcome in operation.outcomes)) if kind is not None)


def _fields(schema: Json) -> list[Field]:
    required = schema.get("required", ())
    return [
        Field(name, kind_of(one), name in required, one.get("description", ""), constraints_of(one, one.get("description", "")))
        for name, one in schema.get("properties", {}).items()
    ]
