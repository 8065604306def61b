"""The OpenAPI document as the clients need it: the operations for programs, their types, the codes of errors."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from core.frozen import Frozen
from entrypoints.http.application import PAGES
from entrypoints.http.description import openapi
from entrypoints.http.routes import ROUTES

Schema = Mapping[str, Any]
JSON: Final = "application/json"
_CREDENTIALS: Final = {
    "bearer": "token",
    "dpop": "bound_token",
    "client_token": "token",
    "management_key": "token",
    "preauth": "token",
    "metrics": "token",
    "api_key": "api_key",
    "api_key_as_bearer": "api_key",
    "client": "client",
}
_REFERENCE: Final = "#/components/schemas/"
# The parameters that the iterator of a list sends by itself.
TURNED: Final = {"after": ("after", "limit"), "page": ("page", "limit"), "offset": ("offset", "limit")}


class Parameter(Frozen, kw_only=True):
    """A parameter of an operation, or a field of a type."""

    name: str
    wire: str
    """The name in the request."""
    place: str
    schema: Schema
    required: bool
    description: str


class Body(Frozen, kw_only=True):
    content_types: Sequence[str]
    type: str | None
    """The name of the type. None for bytes."""
    required: bool

    @property
    def is_form(self) -> bool:
        return "form" in self.content_types[0]


class Paging(Frozen, kw_only=True):
    way: str
    items: str | None
    """The field of the answer that has the entries. None if the answer is a list."""
    item: Schema
    first: int
    takes: Sequence[Parameter]
    """The parameters that choose the entries."""


class Operation(Frozen, kw_only=True):
    id: str
    method: str
    path: str
    summary: str
    description: str
    credentials: Sequence[str]
    parameters: Sequence[Parameter]
    body: Body | None
    answer: Schema | None
    """None if there is no body, and an empty schema if the body is any object."""
    paging: Paging | None

    def at(self, *places: str) -> Sequence[Parameter]:
        return [one for one in self.parameters if one.place in places]

    @property
    def iterator(self) -> str:
        """The name of the operation that gives all entries."""
        return f"iterate_{self.id.partition('_')[2]}"


class Description(Frozen, kw_only=True):
    operations: Sequence[Operation]
    types: Mapping[str, Schema]
    """The types that the operations use, by their names."""
    sent: frozenset[str]
    """The names of those that are in bodies of requests."""
    codes: Mapping[str, str]
    """The codes of errors, each with a sentence."""

    def fields(self, name: str) -> Sequence[Parameter]:
        schema = self.types[name]
        return [
            Parameter(
                name=field,
                wire=field,
                place="body",
                schema=one,
                required=field in schema["required"],
                description=one.get("description", ""),
            )
            for field, one in schema["properties"].items()
        ]


def description() -> Description:
    document = openapi.document([*ROUTES, *PAGES], base_url="https://id.example.org", version="1.0.0")
    return described(document)


def described(document: Mapping[str, Any]) -> Description:
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    raw = [(path, method, one) for path, methods in document["paths"].items() for method, one in methods.items() if _is_for_programs(one)]
    operations = sorted((_operation(path, method, one, schemas) for path, method, one in raw), key=lambda one: one.id)
    sent = set(_reached([{"$ref": _REFERENCE + one.body.type} for one in operations if one.body and one.body.type], schemas))
    seen = [one.answer for one in operations if one.answer] + [parameter.schema for one in operations for parameter in one.parameters]
    used = sent | set(_reached(seen, schemas))
    return Description(
        operations=operations,
        types={name: schemas[name] for name in sorted(used)},
        sent=frozenset(sent),
        codes=_usual_sentences(code for _, _, one in raw for code in _codes(one)),
    )


def reference(schema: Schema) -> str | None:
    return str(schema["$ref"]).removeprefix(_REFERENCE) if "$ref" in schema else None


def _is_for_programs(one: Mapping[str, Any]) -> bool:
    """Pages are for browsers. SCIM has clients of its own, with its own errors and pages."""
    answers = [answer for status, answer in one["responses"].items() if status.startswith("2")]
    is_page = any("html" in kind for answer in answers for kind in answer.get("content", {}))
    return bool(answers) and not is_page and one["security"] != [{"scim": []}]


def _operation(path: str, method: str, one: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Operation:
    body = _body(one.get("requestBody"))
    in_body = set(schemas[body.type]["properties"]) if body and body.type else set()
    # A field of the body may stand in the query, too, for clients that send no body with DELETE.
    parameters = [_parameter(it, in_body) for it in one.get("parameters", []) if it["in"] == "path" or it["name"] not in in_body]
    answer = _answer(one["responses"])
    return Operation(
        id=one["operationId"],
        method=method.upper(),
        path=path,
        summary=one["summary"],
        description=one["description"].strip(),
        credentials=tuple(dict.fromkeys(_CREDENTIALS[name] for way in one["security"] for name in way)),
        parameters=parameters,
        body=body,
        answer=answer,
        paging=_paging(one.get("x-paging"), answer, parameters, schemas),
    )


def _parameter(one: Mapping[str, Any], in_body: set[str]) -> Parameter:
    name = re.sub(r"\W", "_", one["name"].removeprefix("X-")).lower() if one["in"] == "header" else one["name"]
    return Parameter(
        name=f"path_{name}" if name in in_body else name,
        wire=one["name"],
        place=one["in"],
        schema=one["schema"],
        required=one["in"] == "path" or bool(one.get("required")),
        description=one.get("description", ""),
    )


def _body(one: Mapping[str, Any] | None) -> Body | None:
    if one is None:
        return None
    (schema, *_) = (kind["schema"] for kind in one["content"].values())
    return Body(content_types=tuple(one["content"]), type=reference(schema), required=bool(one.get("required")))


def _answer(responses: Mapping[str, Any]) -> Schema | None:
    (answer,) = (answer for status, answer in responses.items() if status.startswith("2"))
    return next((kind["schema"] for kind in answer.get("content", {}).values()), None)


def _paging(way: str | None, answer: Schema | None, parameters: Sequence[Parameter], schemas: Mapping[str, Schema]) -> Paging | None:
    if way not in TURNED or answer is None:
        return None
    turned = TURNED[way]
    of_pages = [one for one in parameters if one.name in turned]
    assert len(of_pages) == len(turned), f"{parameters} lack {turned}"  # noqa: S101 - a document that lacks them is none of ours
    items, item = None, answer
    if (name := reference(answer)) is not None:
        # One list: an answer with two would not say which is read.
        ((items, item),) = ((field, one) for field, one in schemas[name]["properties"].items() if one.get("type") == "array")
    return Paging(
        way=way,
        items=items,
        item=item["items"],
        first=next((one.schema.get("default") or 0 for one in of_pages if one.name in {"page", "offset"}), 0),
        takes=[one for one in parameters if one not in of_pages],
    )


def _reached(of: Sequence[Schema], schemas: Mapping[str, Schema]) -> Iterator[str]:
    seen, left = set[str](), list(of)
    while left:
        for name in _named(left.pop()):
            if name not in seen:
                seen.add(name)
                left.append(schemas[name])
                yield name


def _named(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        name = reference(schema)
        if name is not None:
            yield name
        for key in ("properties", "anyOf", "items", "additionalProperties"):
            inner = schema.get(key)
            for one in (
                inner.values() if key == "properties" and isinstance(inner, Mapping) else inner if isinstance(inner, list) else [inner]
            ):
                yield from _named(one)


def _usual_sentences(told: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """For each code, the sentence that most refusals say."""
    counts = Counter(told)
    return dict(sorted(counts, key=lambda one: (one[0], counts[one], one[1])))


def _codes(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for answer in one["responses"].values():
        for kind in answer.get("content", {}).values():
            for example in kind.get("examples", {}).values():
                if "error_code" in example["value"]:
                    yield example["value"]["error_code"], example["value"].get("error_description") or example["value"]["error"]
