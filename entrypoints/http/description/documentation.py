"""The documentation of the API for people, rendered from the OpenAPI document: a page of contents, and a page for each tag, with the types
that the tag's endpoints use. The pages work without scripts and load nothing from other sites.

The templates read the OpenAPI document itself. `_WORDS` has the functions by which the templates put parts of the document into words.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from core.domain.languages import DEFAULT
from core.frozen import Frozen
from entrypoints.http.description.examples import example_of
from entrypoints.http.description.paging import WAYS
from entrypoints.http.description.wording import caller_in_words, constraints_of, curl, kind_of, limit_in_words, pretty
from entrypoints.http.pages import Pages

Json = dict[str, Any]

# The titles of tags whose capitalized name is no good title.
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
_TO_A_TYPE: Final = "#/components/schemas/"


class Documentation(Frozen):
    contents: bytes
    chapters: Mapping[str, bytes]


def rendered(pages: Pages, document: Json) -> Documentation:
    base_url = document["servers"][0]["url"]
    schemas = document["components"]["schemas"]
    chapters = _chapters(document, base_url)
    everywhere = {"version": document["info"]["version"], "chapters": chapters, **_WORDS}
    contents = pages.page(
        "documentation/contents.html",
        DEFAULT,
        base_url=base_url,
        sign_in_example=_sign_in_example(base_url),
        user_example=curl("get", f"{base_url}/api/user", {"security": [{"bearer": []}]}),
        error_example=pretty(example_of(schemas["ErrorBody"], schemas)),
        addresses={
            one["operationId"]: f"/docs/{chapter['name']}#{one['operationId']}" for chapter in chapters for one in chapter["operations"]
        },
        count=sum(len(chapter["operations"]) for chapter in chapters),
        **everywhere,
    )
    return Documentation(
        contents,
        {
            chapter["name"]: pages.page(
                "documentation/chapter.html",
                DEFAULT,
                chapter=chapter,
                types=_types(chapter["operations"], schemas),
                schemas=schemas,
                **everywhere,
            )
            for chapter in chapters
        },
    )


def _sign_in_example(base_url: str) -> str:
    """A command that signs in, with the required fields only. The reader fills in the e-mail address and the password."""
    credentials = {"email": "you@example.org", "password": "your password"}
    body = {"content": {"application/json": {"example": credentials}}}
    return curl("post", f"{base_url}/api/auth/login", {"security": [], "requestBody": body})


def _chapters(document: Json, base_url: str) -> Sequence[Json]:
    """The tags, each with its endpoints; an endpoint also has its method, its path, and a command that calls it."""
    operations = [
        {**operation, "method": method.upper(), "path": path, "call": curl(method, base_url + _filled_in(path, operation), operation)}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return [
        {
            **tag,
            "title": _TITLES.get(tag["name"]) or tag["name"].capitalize(),
            "operations": [one for one in operations if one["tags"][0] == tag["name"]],
        }
        for tag in document["tags"]
    ]


def _filled_in(path: str, operation: Json) -> str:
    query: dict[str, str] = {}
    for one in operation.get("parameters", ()):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", str(one["example"]))
        elif one["in"] == "query" and one["required"]:
            query[one["name"]] = one["example"]
    return f"{path}?{urlencode(query)}" if query else path


def _types(operations: Sequence[Json], schemas: Mapping[str, Json]) -> Mapping[str, Json]:
    """The types that the endpoints use, and the types inside these types, by name. The pages show errors by their codes, without a type."""
    named = list(_named([(one.get("parameters"), one.get("requestBody")) for one in operations]))
    for operation in operations:
        for status, answer in operation["responses"].items():
            if status != "default" and "examples" not in _media(answer)[1]:
                named += _named(answer)
    found = dict[str, Json]()
    while named:
        name = named.pop()
        if name not in found:
            found[name] = schemas[name]
            named += _named(schemas[name])
    return dict(sorted(found.items()))


def _named(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith(_TO_A_TYPE):
            yield reference.removeprefix(_TO_A_TYPE)
        part = list(part.values())
    if isinstance(part, list | tuple):
        for one in part:
            yield from _named(one)


def _media(holder: Json) -> tuple[str, Json]:
    """The media type of the body of a request or an answer, and the OpenAPI object for this media type."""
    content: Json = holder.get("content", {})
    return next(iter(content.items()), ("", {}))


_WORDS: Final = {
    "caller_in_words": caller_in_words,
    "limit_in_words": limit_in_words,
    "kind_of": kind_of,
    "constraints_of": constraints_of,
    "pretty": pretty,
    "media_of": _media,
    "ways_of_paging": WAYS,
}
