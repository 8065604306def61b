"""Forms, raw bodies, and refusals in the forms of OAuth and SCIM, as the declaration says."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Accepts, Form, FormWithFile, Json, Raw
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import FieldsReader
from entrypoints.http.machinery.endpoints import InvalidDeclaration, endpoint
from entrypoints.http.machinery.errors import OURS, NotAsDeclared
from entrypoints.http.machinery.limits import UNLIMITED
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.description.test_openapi import ALL

Examples = Callable[..., Client]
FORM = "application/x-www-form-urlencoded"


async def send(client: Client, path: str, body: bytes, kind: str = FORM) -> Received:
    return await client.post(path, body, headers=[("content-type", kind)])


def oauth(answer: Received) -> tuple[int, str, str, str]:
    """The status and error code of an OAuth refusal. Checks the shape that all of these have."""
    body = answer.json()
    assert set(body) == {"error", "error_description", "error_code", "timestamp"}
    assert abs(datetime.now(UTC) - datetime.fromisoformat(body["timestamp"])) < timedelta(minutes=1)
    assert (answer.header("content-type"), answer.header("cache-control")) == ("application/json", "no-store")
    return answer.status, body["error"], body["error_code"], body["error_description"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"grant_type=code&code=a+b%26%C3%A9", {"grant_type": "code", "code": "a b&é", "count": 0, "scope": []}),
        (b"grant_type=&code=x&count=3&unknown=1", {"grant_type": "", "code": "x", "count": 3, "scope": []}),
        (b"grant_type=x&code=null&scope=a&scope=b", {"grant_type": "x", "code": "null", "count": 0, "scope": ["a", "b"]}),
    ],
)
async def test_a_form_arrives_with_its_types(examples: Examples, body: bytes, expected: object) -> None:
    answer = await send(examples(), "/token", body, f"{FORM}; charset=UTF-8")
    assert (answer.status, answer.json()) == (200, expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"grant_type=x", "Object missing required field code"),
        (b"", "Object missing required field grant_type"),
        (b"grant_type=x&code=x&count=many", "count: expected integer, got string"),
        (b"grant_type=x&code=x&code=y", "code: send it only once"),
        (b"grant_type=x&code=%00", "code: must not contain NUL characters"),
        (b"grant_type=x&code=%FF", "The form is not valid UTF-8"),
        ("grant_type=x&code=é".encode(), "The form must be percent-encoded"),
        (b"grant_type=x&code=x&a=1&b=1&c=1&d=1&e=1", "The form has too many fields"),
    ],
)
async def test_a_wrong_form_is_refused_with_a_word_about_the_field(examples: Examples, body: bytes, message: str) -> None:
    status, word, code, said = oauth(await send(examples(), "/token", body))
    assert (status, word, code) == (400, "invalid_request", "BAD_REQUEST")
    assert said.replace("`", "") == message


class EmptyBody(msgspec.Struct):
    pass


@given(st.text("abZ09=&;#.-_~\0 %+", max_size=30))
def test_fields_are_told_apart_as_the_standard_library_does(text: str) -> None:
    fields = FieldsReader(EmptyBody, "The form", 5)
    try:
        expected = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=5)
    except ValueError:
        with pytest.raises(NotAsDeclared):
            fields._pairs(text.encode())
    else:
        assert fields._pairs(text.encode()) == expected


async def test_each_kind_of_body_has_its_own_media_type_and_limit(examples: Examples) -> None:
    client = examples(body_limit=40)
    for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain", ""):
        assert oauth(await send(client, "/token", b"grant_type=x&code=x", kind))[:3] == (415, "invalid_request", "UNSUPPORTED_MEDIA_TYPE")
    refused = await send(client, "/orders", b"email=abc")
    assert (refused.status, refused.json()["error"]) == (415, "The request body must be application/json")
    # A limit of its own, which the general one does not change.
    body = b"grant_type=x&code=".ljust(300, b"x")
    assert (await send(client, "/token", body)).status == 200
    assert oauth(await send(client, "/token", body + b"x"))[:3] == (413, "invalid_request", "PAYLOAD_TOO_LARGE")


async def test_a_raw_body_arrives_as_it_is(examples: Examples) -> None:
    client = examples()
    for body in (b"", b"{}", b"\x00\xff not json", b"x" * 100):
        answer = await send(client, "/events", body, "application/json")
        assert (answer.status, answer.json()) == (200, {"text": body.hex()})
    assert (await send(client, "/events", b"x" * 101, "application/json")).error_code == "PAYLOAD_TOO_LARGE"
    assert (await send(client, "/events", b"x", "text/plain")).error_code == "UNSUPPORTED_MEDIA_TYPE"


@pytest.mark.parametrize(
    ("kind", "status", "word", "code"),
    [
        ("conflict", 409, "invalid_request", "CONFLICT"),
        ("inactive", 403, "access_denied", "ORGANIZATION_NOT_ACTIVE"),
        ("unavailable", 503, "temporarily_unavailable", "SERVICE_UNAVAILABLE"),
        ("limited", 429, "temporarily_unavailable", "RATE_LIMIT_EXCEEDED"),
        ("bug", 500, "server_error", "INTERNAL_SERVER_ERROR"),
    ],
)
async def test_a_refusal_in_oauths_words(examples: Examples, log: CapturedLog, kind: str, status: int, word: str, code: str) -> None:
    log.allow("request_failed")
    answer = await examples().get(f"/token/{kind}")
    assert oauth(answer)[:3] == (status, word, code)
    assert (answer.header("retry-after") is not None) == (status in {429, 503})
    assert b"private" not in answer.body


async def test_limits_and_callers_refuse_in_the_words_of_the_endpoint_too(examples: Examples, log: CapturedLog) -> None:
    log.allow("request_failed")
    client = examples()
    words = [oauth(await client.get("/token/conflict"))[1] for _ in range(4)]
    assert words == ["invalid_request"] * 3 + ["temporarily_unavailable"]
    answer = await client.get("/keyed-token")
    assert oauth(answer)[:3] == (401, "invalid_client", "UNAUTHORIZED")
    assert answer.header("www-authenticate") == 'ApiKey realm="service interface", header="X-Api-Key"'


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("conflict", b'{"name": "x", "price": 1}', {"status": 409, "scimType": "uniqueness", "detail": "The slug is taken"}),
        ("new", b'{"name": 1}', {"status": 400, "scimType": "invalidSyntax", "detail": "name: expected string, got integer"}),
        ("inactive", b'{"name": "x", "price": 1}', {"status": 403, "detail": "The organization is not active"}),
        ("group", b'{"name": "x", "price": 1}', {"status": 404, "detail": "No such thing"}),
    ],
)
async def test_a_refusal_as_scim_has_it(examples: Examples, kind: str, body: bytes, expected: dict[str, Any]) -> None:
    answer = await send(examples(), f"/scim/{kind}", body, "application/scim+json")
    assert (answer.status, answer.header("content-type")) == (expected["status"], "application/scim+json")
    told = answer.json()
    told["detail"] = told["detail"].replace("`", "")
    assert told == {"schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"], **expected}


class Fields(msgspec.Struct):
    name: str


async def of_bytes(_call: Call[bytes], _postern: Postern) -> EmptyObject:
    return EMPTY_OBJECT


async def of_fields(_call: Call[Fields], _postern: Postern) -> EmptyObject:
    return EMPTY_OBJECT


async def of_list(_call: Call[list[str]], _postern: Postern) -> EmptyObject:
    return EMPTY_OBJECT


@pytest.mark.parametrize(
    ("accepts", "handler"), [(Json(), of_bytes), (Form(), of_bytes), (Form(), of_list), (Raw("text/plain"), of_fields)]
)
def test_a_body_that_cannot_be_read_as_its_type_is_refused(accepts: Accepts, handler: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="is not read as"):
        endpoint.post("/shops", caller=ANYONE, limit=UNLIMITED, accepts=accepts)(handler)


class Upload(msgspec.Struct, frozen=True):
    title: str = ""
    file: bytes = b""


def part(head: str, content: bytes = b"x") -> bytes:
    return f"--b\r\n{head}\r\n\r\n".encode() + content + b"\r\n"


TITLE = 'Content-Disposition: form-data; name="title"'
FILE = 'content-disposition: form-data; name="file"; filename="a;b.png"\r\nContent-Type: image/png'


def test_a_form_with_a_file() -> None:
    reader = FormWithFile(1000).reader(Upload, 10)
    body = part(TITLE, "Zoë".encode()) + part(FILE, b"\0\xff\r\n--c") + b"--b--\r\n"
    assert reader.decode(body) == Upload("Zoë", b"\0\xff\r\n--c")
    assert reader.decode(b"") == Upload()
    assert reader.takes(b"multipart/form-data; boundary=b")
    assert not reader.takes(b"application/x-www-form-urlencoded")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"title=x", "not multipart"),
        (b"--b\r\n", "not multipart"),
        (part(TITLE), "not multipart"),
        (b"".join(part(TITLE.replace("title", f"field{number}")) for number in range(21)) + b"--b--", "not multipart"),
        (part(TITLE) * 2 + b"--b--", "send it only once"),
        (part("Content-Disposition: form-data") + b"--b--", "without a name"),
        (part(f"{TITLE}; x=" + "y" * 1000) + b"--b--", "without a name"),
        (b"--b\r\nno end of the head\r\n--b--", "without a name"),
        (part(TITLE, b"\xff") + b"--b--", "title: is not valid UTF-8"),
        (part(TITLE, b"\0") + b"--b--", "title: must not contain NUL"),
        (part(FILE.replace("file", "title", 1)) + b"--b--", "title: expected string"),
        (part(TITLE.replace("title", "file")) + b"--b--", "file: "),
    ],
)
def test_a_form_with_a_file_that_is_not_as_browsers_write_it(body: bytes, says: str) -> None:
    with pytest.raises(NotAsDeclared, match=says):
        FormWithFile(1000).reader(Upload, 10).decode(body)


class _Renamed(msgspec.Struct, frozen=True):
    name: str | msgspec.UnsetType = msgspec.UNSET
    short_name: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="slug")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"audience": "x"}', "audience: no such field"),
        (b'{"name": "x", "audience": "x", "colour": {"a": 1}}', "audience and 1 more: no such field"),
        (b'{"short_name": "x"}', "short_name: no such field"),
        (b'{"' + b"a" * 500 + b'": 1}', "a" * 100 + ": no such field"),
    ],
)
def test_a_field_that_a_change_does_not_have_is_refused_by_its_name(body: bytes, message: str) -> None:
    with pytest.raises(NotAsDeclared) as refused:
        Json(only_known=True).reader(_Renamed, 1000).decode(body)
    assert str(refused.value) == message
    # Elsewhere a field that nobody knows changes nothing.
    assert Json().reader(_Renamed, 1000).decode(body) is not None


def test_the_known_fields_of_a_change_are_taken() -> None:
    reader = Json(only_known=True).reader(_Renamed, 1000)
    assert reader.decode(b'{"name": "x", "slug": "y"}') == _Renamed("x", "y")
    assert reader.decode(b"{}") == _Renamed()
    # The fields of a map are nobody's to know.
    assert Json(only_known=True).reader(dict[str, int], 1000).decode(b'{"any": 1}') == {"any": 1}


def test_every_change_of_ours_names_unknown_fields() -> None:
    changes = [one for one in ALL if one.method == "PATCH" and one.errors is OURS]
    assert len(changes) > 20
    assert [str(one) for one in changes if not (isinstance(one.accepts, Json) and one.accepts.only_known)] == []
