"""Everything that the API publishes about itself has a description and a valid example, and is easy to read."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from core.domain.services.api_keys import Permission
from core.domain.tenancy.roles import Capability
from entrypoints.http.application import PAGES
from entrypoints.http.description import openapi
from entrypoints.http.description.documentation import caller_in_words, constraints_of, curl, limit_in_words, pretty
from entrypoints.http.routes import ROUTES
from tests.http.description.schema_check import faults
from tests.http.people import BASE_URL

Json = dict[str, Any]

DOCUMENT = openapi.document([*ROUTES, *PAGES], base_url=BASE_URL, version="1.2.3")
SCHEMAS: dict[str, Json] = DOCUMENT["components"]["schemas"]
OPERATIONS: dict[str, Json] = {one["operationId"]: one for methods in DOCUMENT["paths"].values() for one in methods.values()}
# Words for things of ours that a reader cannot know, or that must be read twice.
UNCLEAR = re.compile(r"\b(the interface|whoever|whosoever|whichever|thereof)\b", re.IGNORECASE)


def for_each(names: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """One test checks all texts, and names those that fail. A test for each text would take ten times as long."""

    def of_all(look: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            found = {}
            for name in names:
                try:
                    look(name)
                except AssertionError as fault:
                    found[name] = str(fault)
            assert found == {}

        return test

    return of_all


operations = for_each(OPERATIONS)


def bodies(operation: Json) -> Iterator[tuple[str, Json]]:
    """The JSON bodies that the declarations describe. If a kind of answer has several outcomes, the good one has the example."""
    for place, holder in [("request", operation.get("requestBody", {})), *operation["responses"].items()]:
        media: Json = next((media for kind, media in holder.get("content", {}).items() if kind.endswith("json")), {})
        if media.get("schema") and "examples" not in media and place != "503":
            yield place, media


@operations
def test_every_endpoint_has_a_summary_of_one_plain_sentence(name: str) -> None:
    summary = OPERATIONS[name]["summary"]
    assert re.fullmatch(r"[A-Z][^.;:\n`]{5,89}", summary), summary
    assert summary.split()[0] not in {"The", "A", "An", "Whether", "What", "How", "Where", "One"}, "it says what one does"


@operations
def test_every_endpoint_has_a_description(name: str) -> None:
    description = OPERATIONS[name].get("description", "")
    assert re.match(r"[A-Z`][^\n]{15,}", description), description
    assert not description.startswith(("A management key ", "A management API key ")), "it says who may call, and nothing of what happens"


@operations
def test_every_body_has_an_example_that_its_schema_allows(name: str) -> None:
    for place, media in bodies(OPERATIONS[name]):
        assert "example" in media, place
        assert list(faults(media["example"], media["schema"], SCHEMAS)) == [], place


@operations
def test_every_error_example_is_what_its_schema_allows(name: str) -> None:
    for status, response in OPERATIONS[name]["responses"].items():
        for media in response.get("content", {}).values():
            for code, one in media.get("examples", {}).items():
                assert list(faults(one["value"], media["schema"], SCHEMAS)) == [], f"{status} {code}"


@operations
def test_every_parameter_has_a_description_and_those_that_are_needed_a_valid_example(name: str) -> None:
    for one in OPERATIONS[name].get("parameters", ()):
        assert one.get("description"), one["name"]
        assert "example" in one or not one["required"], one["name"]
        if "example" in one:
            assert list(faults(one["example"], one["schema"], SCHEMAS)) == [], one["name"]


@operations
def test_every_header_of_an_answer_has_a_description_and_a_valid_example(name: str) -> None:
    for status, response in OPERATIONS[name]["responses"].items():
        assert "$ref" in response or "X-Request-Id" in response["headers"], status
        for header in response.get("headers", {}).values():
            if "$ref" not in header:
                assert header["description"].endswith(".")
                assert list(faults(header["example"], header["schema"], SCHEMAS)) == []


@for_each(SCHEMAS)
def test_every_type_and_property_has_a_description(name: str) -> None:
    assert SCHEMAS[name].get("description")
    for field, one in SCHEMAS[name].get("properties", {}).items():
        assert one.get("description"), field
        assert one["description"][0].isupper() or one["description"][0] in "`12345678", field
        assert one["description"].endswith("."), field
        for example in one.get("examples", ()):
            assert list(faults(example, one, SCHEMAS)) == [], field


@for_each(SCHEMAS)
def test_no_property_is_always_null(name: str) -> None:
    """Generators of clients have no type for it."""
    for field, one in SCHEMAS[name].get("properties", {}).items():
        assert one.get("type") != "null", field


@for_each(SCHEMAS)
def test_every_default_is_what_its_schema_allows(name: str) -> None:
    for field, one in SCHEMAS[name].get("properties", {}).items():
        if "default" in one:
            assert list(faults(json.loads(json.dumps(one["default"])), one, SCHEMAS)) == [], field
            assert one["default"] != "" or "format" not in one, field


def test_the_document_says_whom_to_ask() -> None:
    assert DOCUMENT["info"]["contact"] == {"name": "The operator of this installation", "url": BASE_URL}


@for_each(SCHEMAS)
def test_a_moment_is_told_as_one(name: str) -> None:
    for field, one in SCHEMAS[name].get("properties", {}).items():
        # `asked_at` tells the occasion on which a page asks. OpenID Connect Core section 5.1 and RFC 7591 section 3.2.1 count the seconds.
        counted = {("PersonClaims", "updated_at"), ("RegisteredOpenClient", "client_id_issued_at")}
        if re.search(r"(?<!asked)_at$|^timestamp$|_period_end$", field) and (name, field) not in counted:
            formats = {choice.get("format") for choice in one.get("anyOf", [one]) if choice.get("type") != "null"}
            assert formats == {"date-time"}, field


def test_no_published_text_has_to_be_read_twice() -> None:
    texts = re.findall(r'"(?:description|summary)": ("(?:[^"\\]|\\.)*")', json.dumps(DOCUMENT, ensure_ascii=False))
    assert len(texts) > 800
    for text in texts:
        assert not UNCLEAR.search(text), text
        assert text.count("`") % 2 == 0, text
        assert all(len(sentence.split()) <= 45 for sentence in re.split(r"[.;:] ", text)), text


@operations
def test_every_curl_can_be_pasted_into_a_shell(name: str) -> None:
    method, path = next((m, p) for p, methods in DOCUMENT["paths"].items() for m, one in methods.items() if one["operationId"] == name)
    operation = OPERATIONS[name]
    words = shlex.split(curl(method, f"{BASE_URL}{path}", operation).replace("\\\n", " "))
    assert words[0] == "curl"
    assert f"{BASE_URL}{path}" in words
    shown = [word for word in words if word.startswith(("Authorization:", "X-Api-Key:", "$OIDC_CLIENT_ID:"))]
    assert bool(shown) == bool(operation["security"] and operation["security"][0])
    if "requestBody" in operation:
        media_type, media = next(iter(operation["requestBody"]["content"].items()))
        if "example" not in media:
            assert words[words.index("--data-binary") + 1] == "@body"
        elif media_type.endswith("json"):
            assert json.loads(words[words.index("--json") + 1]) == media["example"]
        else:
            sent = parse_qs(words[words.index("-d") + 1])
            assert sent == {field: value if isinstance(value, list) else [value] for field, value in media["example"].items()}
    implied = "POST" if {"--json", "-d", "--data-binary"} & set(words) else "GET"
    assert (words[words.index("-X") + 1] if "-X" in words else implied) == method.upper()


def test_curl_sends_forms_and_bodies_as_they_are() -> None:
    form = {"requestBody": {"content": {"application/x-www-form-urlencoded": {"example": {"scope": ["a b", "c"]}}}}, "security": []}
    assert curl("post", "https://x/y", form) == "curl https://x/y \\\n  -d 'scope=a+b&scope=c'"
    raw = {"requestBody": {"content": {"application/json": {"schema": {}}}}, "security": []}
    assert curl("post", "https://x/y", raw).endswith("-H 'Content-Type: application/json' --data-binary @body")
    quoted = {"requestBody": {"content": {"application/json": {"example": "it's"}}}, "security": []}
    assert shlex.split(curl("post", "https://x/y?z", quoted).replace("\\\n", " ")) == ["curl", "https://x/y?z", "--json", '"it\'s"']


@pytest.mark.parametrize(
    ("seconds", "words"), [(12, "5 requests at once, then one every 12 s"), (1, "then one a second"), (0.06, "then 17 a second")]
)
def test_limits_are_told_in_words(seconds: float, words: str) -> None:
    assert words in limit_in_words({"name": "few", "burst": 5, "seconds_per_request": seconds})


@operations
def test_who_may_call_is_told_in_words(name: str) -> None:
    words = caller_in_words(OPERATIONS[name])
    permitted = re.search("permits? `(.+)`|permission `(.+)`", words)
    assert permitted is None or {*permitted.groups()} & {*map(str, Capability), *map(str, Permission)}
    assert words.endswith(".")
    assert "_in_person" not in words
    assert "_of_inactive" not in words


def test_lists_of_words_stay_on_their_line() -> None:
    assert pretty({"a": ["b", "c"], "d": [{"e": 1}]}) == '{\n  "a": ["b", "c"],\n  "d": [\n    {\n      "e": 1\n    }\n  ]\n}'


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        ({"type": "string", "minLength": 1, "maxLength": 50}, "The slug.", "1 to 50 characters."),
        ({"type": "string", "minLength": 1, "maxLength": 50}, "1 to 50 characters, and no dots.", ""),
        ({"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}], "default": None}, "The note.", "At most 9 characters."),
        ({"type": "string", "minLength": 6, "maxLength": 6}, "The code.", "6 characters."),
        ({"type": "integer", "minimum": 1, "default": 1}, "The page.", "At least 1. Default 1."),
        ({"type": "boolean", "default": False}, "Whether.", "Default false."),
        ({"type": "array", "default": []}, "A list.", ""),
    ],
)
def test_bounds_are_told_in_words_unless_the_description_tells_them(schema: Json, text: str, words: str) -> None:
    assert constraints_of(schema, text) == words
