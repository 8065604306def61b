"""Bodies, queries and paths: good values arrive as declared, and a 400 names each bad value."""

from collections.abc import Callable

import pytest

from core.domain.secrets import Password
from tests.conftest import CapturedLog
from tests.http.client import Client

Examples = Callable[..., Client]
ID = "0199d3a0-0000-7000-8000-000000000001"


async def test_a_body_arrives_with_its_defaults(examples: Examples) -> None:
    answer = await examples().post("/orders", {"email": "a@b.c", "parts": [{"name": "bolt", "price": 3}], "unknown": True})
    assert answer.status == 201
    assert answer.json() == {
        "email": "a@b.c",
        "count": 1,
        "paid": False,
        "parts": [{"name": "bolt", "price": 3}],
        "note": None,
        "labels": {},
    }


async def test_body_query_and_path_arrive_together(examples: Examples) -> None:
    answer = await examples().request("PATCH", f"/shops/caf%C3%A9%2F1/orders/{ID}?query=a+b%26c", body={"email": "x@y.z"})
    assert (answer.status, answer.json()) == (202, ["café/1", ID, "a b&c", "x@y.z"])
    assert answer.header("x-extra") == "1"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"email": 5}', "email: expected string, got integer"),
        (b'{"email": "a@b.c", "count": "5"}', "count: expected integer, got string"),
        (b'{"email": "a@b.c", "note": 5}', "note: expected string or null, got integer"),
        (b'{"email": "a@b.c", "parts": [{"name": "x", "price": 1}, {"name": 5}]}', "parts[1].name: expected string, got integer"),
        (b'{"email": "ab"}', "email: expected string of length >= 3"),
        (b"{}", "Object missing required field email"),
        (b"", "Object missing required field email"),
        (b"[]", "Expected object, got array"),
        (b"null", "Expected object, got null"),
        (b'{"email": "a@b.c", "count": ' + b"9" * 5000 + b"}", "count: integer value out of range"),
        (b'{"email": "a@b.c", "count": 1e400}', "count: number out of range"),
        (b'{"email"', "The request body is not valid JSON: Input data was truncated"),
        (b"{'email': 1}", "The request body is not valid JSON: object keys must be strings (byte 1)"),
        (b'{"email": "a@b.c"} x', "The request body is not valid JSON: trailing characters (byte 20)"),
        (b'{"email": "a\nb"}', "The request body is not valid JSON: invalid character (byte 12)"),
        (b'{"email": "a@b.c", "count": NaN}', "The request body is not valid JSON: invalid character (byte 28)"),
        (b'\xef\xbb\xbf{"email": "a@b.c"}', "The request body is not valid JSON: invalid character (byte 0)"),
        (b'{"email": "\xff@b.c"}', "The request body is not valid UTF-8 at byte 11"),
        (b'{"email": "a@b.c", "unknown": "\xff"}', "The request body is not valid UTF-8 at byte 31"),
        (b'{"email": "\xed\xa0\x80@b.c"}', "The request body is not valid UTF-8 at byte 11"),
        (b'{"email": "\\ud800@b.c"}', "email: is not valid Unicode"),
        (b'{"email": "a@b.c", "parts": [{"name": "\\udc00x", "price": 1}]}', "parts[0].name: is not valid Unicode"),
        (b'{"email": "a@b.c", "labels": {"\\ud800": "x"}}', "labels: is not valid Unicode"),
        (b'{"email": "a\\u0000@b.c"}', "email: must not contain NUL characters"),
        (b'{"email": "a@b.c", "parts": [{"name": "x\\u0000", "price": 1}]}', "parts[0].name: must not contain NUL characters"),
        (b'{"email": "a@b.c", "unknown": {"deep": ["\\u0000"]}}', "unknown.deep[0]: must not contain NUL characters"),
        (b'{"email": "ab\\u0000", "unknown": ' + b"9" * 5000 + b"}", "email: must not contain NUL characters"),
        (b'{"email": "a@b.c", "\\u0000": 1}', "The request body: must not contain NUL characters"),
        (b'{"email": "a\\u0000@b.c", "email": "a@b.c"}', "The request body: must not contain NUL characters"),
        (b'{"email": "abc\\\\\\u0000"}', "email: must not contain NUL characters"),
        (b'{"email": "abc\\"\\u0000"}', "email: must not contain NUL characters"),
        (b"\\u0000", "The request body is not valid JSON: invalid character (byte 0)"),
    ],
)
async def test_a_wrong_body_is_refused_with_a_word_about_the_field(examples: Examples, body: bytes, message: str) -> None:
    answer = await examples().post("/orders", body)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert answer.json()["error"].replace("`", "") == message


@pytest.mark.parametrize("email", ["a\\u0000@b.c", "a\\\\u0000@b.c", '"\\u0000', "\\u0\\000"])
async def test_an_escaped_backslash_before_u0000_is_no_nul(examples: Examples, email: str) -> None:
    assert (await examples().post("/orders", {"email": email})).json()["email"] == email


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"abc\\u0000", "The request body: must not contain NUL characters"), (b"\\ud800", "The request body is not valid JSON")],
)
async def test_of_a_long_body_the_refusal_does_not_name_the_field(examples: Examples, text: bytes, message: str) -> None:
    answer = await examples().post("/orders", b'{"email": "%s", "unknown": "%s"}' % (text, b"x" * 10_000))
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert answer.json()["error"].startswith(message)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("closed", ["", '"'])
async def test_deep_json_in_another_encoding_is_refused_like_all_that_is_no_json(examples: Examples, encoding: str, closed: str) -> None:
    """Python's parser would accept the encoding, and our count of brackets would be wrong."""
    answer = await examples().post("/orders", ('{"\\"":' + "[" * 1900 + closed).encode(encoding))
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("depth", [101, 400, 2_000, 6_000])
@pytest.mark.parametrize("closed", [True, False])
async def test_deep_json_is_refused_and_harms_nothing(examples: Examples, opening: bytes, depth: int, closed: bool) -> None:
    closing = bytes({ord("["): b"]", ord("{"): b"}"}[byte][0] for byte in reversed(opening) if byte in b"[{")
    inner = opening * depth + (b"1" + closing * depth if closed else b"")
    answer = await examples().post("/orders", b'{"email": "a@b.c", "unknown": ' + inner + b"}")
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert (await examples().post("/orders", {"email": "a@b.c"})).status == 201


async def test_many_brackets_side_by_side_or_in_strings_are_not_deep(examples: Examples) -> None:
    answer = await examples().post("/orders", {"email": "[{" * 500, "parts": [{"name": '\\"[', "price": 1}] * 2_000})
    assert answer.status == 201


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/scim+json", "application/json;charset=UTF-8"]
)
async def test_json_comes_under_several_names(examples: Examples, content_type: str) -> None:
    answer = await examples().post("/orders", b'{"email": "a@b.c"}', headers=[("content-type", content_type)])
    assert answer.status == 201


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", ""])
async def test_another_content_type_is_415(examples: Examples, content_type: str) -> None:
    answer = await examples().post("/orders", b'{"email": "a@b.c"}', headers=[("content-type", content_type)])
    assert (answer.status, answer.error_code) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_body_without_content_type_is_415(examples: Examples) -> None:
    answer = await examples().exchange("POST", "/orders", [], [b'{"email": "a@b.c"}'])
    assert answer.status == 415


async def test_no_body_at_all_is_an_empty_object(examples: Examples) -> None:
    answer = await examples().exchange("POST", "/orders", [], [b""])
    assert (answer.status, answer.json()["error"]) == (400, "Object missing required field `email`")


async def test_a_body_arrives_in_pieces(examples: Examples) -> None:
    answer = await examples().request("POST", "/orders", body={"email": "a@b.c"}, chunk=3)
    assert answer.status == 201


@pytest.mark.parametrize("headers", [[], [("content-length", "2000000")]])
async def test_a_body_beyond_the_limit_is_413_announced_or_not(examples: Examples, headers: list[tuple[str, str]]) -> None:
    body = b'{"email": "' + b"x" * 2_000_000 + b'"}'
    answer = await examples().post("/orders", body, headers=headers)
    assert (answer.status, answer.error_code) == (413, "PAYLOAD_TOO_LARGE")


async def test_the_limit_is_a_setting_and_an_endpoint_may_have_its_own(examples: Examples) -> None:
    body = {"email": "a" * 30}
    assert (await examples().post("/orders", body)).status == 201
    assert (await examples(body_limit=40).post("/orders", body)).status == 413
    assert (await examples().request("PUT", "/small", body=body)).status == 413
    assert (await examples().request("PUT", "/small", body={"email": "abc"})).status == 200


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"page": 1, "query": "", "exact": False, "status": []}),
        ("?page=3&query=&exact=true&status=a&status=b&unknown=1", {"page": 3, "query": "", "exact": True, "status": ["a", "b"]}),
        ("?query=%E2%82%AC+%2B", {"page": 1, "query": "€ +", "exact": False, "status": []}),
        ("?query=null", {"page": 1, "query": "null", "exact": False, "status": []}),
    ],
)
async def test_a_query_arrives_with_its_types(examples: Examples, query: str, expected: object) -> None:
    assert (await examples().get(f"/orders{query}")).json() == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("page=x", "page: expected integer, got string"),
        ("page=0", "page: expected integer >= 1"),
        ("page=1&page=2", "page: send it only once"),
        ("exact=perhaps", "exact: expected boolean, got string"),
        ("query=%00", "query: must not contain NUL characters"),
        ("query=%FF", "The query is not valid UTF-8"),
        ("query=%ED%A0%80", "The query is not valid UTF-8"),
        ("&".join(f"a{number}=1" for number in range(101)), "The query has too many fields"),
    ],
)
async def test_a_wrong_query_is_refused_with_a_word_about_the_field(examples: Examples, query: str, message: str) -> None:
    answer = await examples().get(f"/orders?{query}")
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert answer.json()["error"].replace("`", "") == message


@pytest.mark.parametrize("shop", ["", "a%00b", "%FF"])
async def test_a_segment_that_cannot_be_is_404(examples: Examples, shop: str) -> None:
    answer = await examples().request("PATCH", f"/shops/{shop}/orders/{ID}", body={"email": "abc"})
    assert (answer.status, answer.error_code) == (404, "NOT_FOUND")


@pytest.mark.parametrize("order", ["1", "x", f"{ID}0", "%7B" + ID + "%7D"])
async def test_a_segment_of_another_type_names_nothing_and_is_404(examples: Examples, order: str) -> None:
    answer = await examples().request("PATCH", f"/shops/acme/orders/{order}", body={"email": "abc"})
    assert (answer.status, answer.error_code) == (404, "NOT_FOUND")


async def test_a_password_is_a_secret_from_the_start_and_cannot_be_answered(examples: Examples, log: CapturedLog) -> None:
    log.remember("correct horse battery")
    log.allow("request_failed")
    body = {"email": "a@b.c", "password": "correct horse battery"}
    shown = await examples().post("/sign-in", body)
    assert shown.json() == {"text": f"Credentials(email='a@b.c', password=***) {Password.__name__}"}
    wrong = await examples().post("/sign-in", {**body, "password": 5})
    assert (wrong.status, wrong.json()["error"]) == (400, "password: expected string")
    leaked = await examples().post("/leak", body)
    assert leaked.status == 500
    assert b"horse" not in leaked.body
