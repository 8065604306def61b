"""The application as a Quart-Trio server: its map of routes, its test client, its lifespan, and Quart's stock connection class, which calls
the same dispatcher as ours.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import pytest
import trio
import trio.testing
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection

from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication, build_application
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject, Streamed
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, endpoint, parameters
from entrypoints.http.machinery.limits import UNLIMITED
from ops.browser.page_reader import PageReader
from tests.conftest import CapturedLog
from tests.http import examples
from tests.http.browsing import Tabs
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.people import People, Person
from tests.http.signing_in import LOGIN, PASSWORD

UNMEASURED = replace(SETTINGS, rate_limits=False)
AREAS = {"foundation", "identity", "services", "federation", "tenancy", "platform", "record", "pages", "configuration"}
ID = "0199d3a0-0000-7000-8000-000000000001"

# Ids, tokens and times differ between any two answers.
OF_ONE_ANSWER = re.compile(r"[A-Za-z0-9_+/=.-]{20,}|\d{4}-\d\d-\d\dT[\d:.]+Z")
COUNTED = {"/metrics"}
SIGN_IN = "/ui/sign-in"
UNKNOWN = ("/", "/nowhere", "/api/nowhere", "/ui/nowhere", "//ui/sign-in", "/ui/sign-in/", "/api/user/", "/scim/v2/nowhere", "/%00", "/%ff")


def by_stock(application: PosternApplication) -> Client:
    """The application behind Quart's own connection class."""
    application.asgi_http_class = TrioASGIHTTPConnection  # type: ignore[assignment]
    return Client(application)


def comparable(answer: Received, path: str) -> tuple[int, Sequence[tuple[str, str]], str]:
    """The answer without values that differ each time; `x-request-id` and `content-length` follow from such values."""
    headers = [(name, OF_ONE_ANSWER.sub("…", value)) for name, value in answer.headers if name not in {"x-request-id", "content-length"}]
    return answer.status, headers, "" if path in COUNTED else OF_ONE_ANSWER.sub("…", answer.body.decode("latin-1"))


def filled(one: Endpoint) -> str:
    path = one.path
    for name in parameters(path):
        path = path.replace(f"{{{name}}}", ID)
    return path


def test_the_map_lists_every_route_by_area() -> None:
    application = PosternApplication(None, SETTINGS)
    assert isinstance(application, QuartTrio)
    listed = {(method, rule.rule) for rule in application.url_map.iter_rules() for method in rule.methods or ()}
    declared = {(one.method, re.sub(r"{([a-z_]+)}", r"<\1>", one.path)) for one in application.endpoints}
    heads = {("HEAD", path) for method, path in declared if method == "GET"}
    assert {(method, path.replace("<uuid:", "<")) for method, path in listed} == declared | heads
    assert ("DELETE", "/api/user/devices/<uuid:device_id>") in listed
    assert set(application.blueprints) == AREAS
    assert {rule.endpoint.partition(".")[0] for rule in application.url_map.iter_rules()} == AREAS


def test_the_methods_of_a_path_share_a_rule() -> None:
    application = PosternApplication(None, SETTINGS)
    listed = [(rule.endpoint.partition(".")[0], rule.rule) for rule in application.url_map.iter_rules()]
    assert len(listed) == len(set(listed)) < len(application.endpoints)


def test_no_rule_has_functions_that_make_urls() -> None:
    (rule, *_) = PosternApplication(None, SETTINGS).url_map.iter_rules()
    with pytest.raises(NotImplementedError):
        rule.build({})


async def test_every_endpoint_answers_alike_behind_the_stock_connection_class(postern: Postern) -> None:
    ours, stock = Client(build_application(postern, UNMEASURED)), by_stock(build_application(postern, UNMEASURED))
    asked: list[tuple[str, str]] = []
    for one in ours.application.endpoints:
        path = filled(one)
        asked += [(one.method, path), ("OPTIONS", path), ("HEAD", path), ("PROPFIND", path)]
    for path in (
        "/",
        "/nowhere",
        "/api/nowhere",
        "/ui/nowhere",
        "//ui/sign-in",
        "/ui/sign-in/",
        "/api/user/",
        "/scim/v2/nowhere",
        "/%00",
        "/%ff",
    ):
        asked += [("GET", path), ("POST", path)]
    statuses = set()
    for method, path in dict.fromkeys(asked):
        body: Any = {} if method in {"POST", "PUT", "PATCH"} else None
        expected = comparable(await ours.request(method, path, body=body), path)
        assert comparable(await stock.request(method, path, body=body), path) == expected, (method, path)
        assert expected[0] < 500 or path == "/health/ready", (method, path)
        statuses.add(expected[0])
    assert statuses >= {200, 204, 303, 400, 401, 404, 405, 415}


async def test_a_person_signs_in_through_the_test_client(postern: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD)
    application = build_application(postern, SETTINGS)
    async with application.test_app() as running:
        client = cast("Any", running.test_client())
        tokens = await (await client.post(LOGIN, json={"email": ada.email, "password": PASSWORD})).get_json()
        user = await client.get("/api/user", headers={"authorization": f"Bearer {tokens['access_token']}"})
        assert (user.status_code, (await user.get_json())["email"]) == (200, ada.email)
        assert (await client.get("/api/user")).status_code == 401


async def signed_in(tabs: Tabs, ada: Person) -> None:
    tab = await tabs.tab().open(SIGN_IN)
    await tab.send(email=ada.email)
    await tab.send(password="mistyped")
    assert tab.status == 400
    await tab.send(password=PASSWORD)
    assert (tab.place, tab.status) == ("/ui", 200)


async def test_a_person_signs_in_on_the_pages_behind_the_stock_connection_class(postern: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD)
    tabs = Tabs(by_stock(build_application(postern, SETTINGS)))
    await signed_in(tabs, ada)
    assert ada.email in PageReader((await tabs.tab().open("/ui")).shown.body).text


async def test_limits_origins_and_bounds_of_bodies_hold_there_too(lonely_postern: Postern) -> None:
    routes = Endpoints.of(examples)
    settings = replace(SETTINGS, cors_origins=("https://app.example",), body_limit=100)
    application = PosternApplication(lonely_postern, settings, routes)
    stock = by_stock(application)
    large = {"email": "a" * 200}
    assert (await stock.post("/orders", large)).error_code == "PAYLOAD_TOO_LARGE"
    # In pieces, and without a content length.
    in_pieces = await stock.exchange("POST", "/orders", [("content-type", "application/json")], [b"a" * 60, b"a" * 60])
    assert (in_pieces.status, in_pieces.error_code) == (413, "PAYLOAD_TOO_LARGE")
    # Larger than Quart's own limit.
    application.config["MAX_CONTENT_LENGTH"] = 50
    assert (await stock.exchange("POST", "/orders", [("content-type", "application/json")], [b"a" * 60])).status == 413
    answer = await stock.request(
        "OPTIONS", "/orders", headers=[("origin", "https://app.example"), ("access-control-request-method", "POST")]
    )
    assert answer.header("access-control-allow-origin") == "https://app.example"
    assert [(await stock.get("/limited")).status for _ in range(4)] == [200, 200, 200, 429]


def test_quarts_own_limit_is_above_the_one_that_is_set() -> None:
    application = PosternApplication(None, replace(SETTINGS, body_limit=64 << 20))
    assert application.config["MAX_CONTENT_LENGTH"] == 64 << 20
    assert PosternApplication(None, SETTINGS).config["MAX_CONTENT_LENGTH"] > SETTINGS.body_limit


async def test_what_fails_in_quart_itself_is_told_as_every_fault(lonely_postern: Postern, log: CapturedLog) -> None:
    log.allow("request_failed")
    application = build_application(lonely_postern, SETTINGS)

    @application.before_request
    async def fail() -> None:
        raise RuntimeError("private: a bug")

    api, page = await by_stock(application).get("/api/user"), await by_stock(application).get(SIGN_IN)
    assert (api.status, api.error_code) == (500, "INTERNAL_SERVER_ERROR")
    assert (page.status, page.header("content-type"), page.header("x-content-type-options")) == (500, "text/html; charset=utf-8", "nosniff")
    assert b"private" not in api.body + page.body
    assert len(log.events("request_failed")) == 2


@endpoint.get("/long", caller=ANYONE, limit=UNLIMITED, tags=examples.TAGS)
async def stream(_call: Call, _postern: Postern) -> Streamed[Sequence[int]]:
    """Answer in parts"""

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"["
        for number in range(50):
            yield b"%d," % number
        yield b"50]"

    return Streamed(parts())


async def test_a_long_answer_goes_out_in_its_parts(lonely_postern: Postern) -> None:
    stock = by_stock(PosternApplication(lonely_postern, SETTINGS, Endpoints([stream])))
    sent = await stock._speak("GET", "/long", [], [b""], leaves=False)
    assert [message.get("body") for message in sent[1:3]] == [b"[", b"0,"]
    assert (await stock.get("/long")).json() == list(range(51))
    assert (await stock.request("HEAD", "/long")).body == b""


async def test_a_client_that_leaves_ends_a_handler_unless_it_must_finish(lonely_postern: Postern) -> None:
    begun: list[str] = []
    ended: list[str] = []

    @endpoint.post("/broken-off", caller=ANYONE, limit=UNLIMITED, tags=examples.TAGS)
    async def break_off(_call: Call, _postern: Postern) -> EmptyObject:
        """Wait for a client that leaves"""
        begun.append("broken off")
        await trio.Event().wait()
        return EMPTY_OBJECT

    @endpoint.post("/finished", caller=ANYONE, limit=UNLIMITED, tags=examples.TAGS)
    async def finish(call: Call, _postern: Postern) -> EmptyObject:
        """Take what is given only once"""
        begun.append("finished")
        call.request.finish()
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(0)
        ended.append("finished")
        return EMPTY_OBJECT

    stock = by_stock(PosternApplication(lonely_postern, SETTINGS, Endpoints([break_off, finish])))

    async def handler_waits() -> None:
        while not begun:
            await trio.sleep(0)

    for path in ("/broken-off", "/finished"):
        begun.clear()
        await stock._speak("POST", path, [], [b"", handler_waits, None], leaves=True)
    assert ended == ["finished"]


async def test_websocket_is_refused(lonely_postern: Postern) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await build_application(lonely_postern, SETTINGS)(cast("Any", {"type": "websocket"}), receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
