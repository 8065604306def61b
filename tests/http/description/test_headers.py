"""The headers of single endpoints: the document describes them, and no others are read or sent. `tests/http/described.py` compares every
answer of every test with the document. The tests here show that this comparison can fail, and that no header is described in vain.
"""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from core.domain.errors import Refusal
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PAGES, PosternApplication
from entrypoints.http.description import openapi
from entrypoints.http.machinery.answers import EMPTY_OBJECT, LOCATION, Answer, AnswerHeader, EmptyObject, NoBody, RequestHeader
from entrypoints.http.machinery.callers import ANYONE, CLIENT
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, InvalidDeclaration, endpoint
from entrypoints.http.machinery.errors import header_named_by, headers_of
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes import ROUTES
from ops.stand_ins.fake_providers import settings_of
from tests.http import described
from tests.http.client import Client
from tests.http.conftest import SETTINGS, postern_on, with_keys
from tests.http.federation.scim.directories import GROUP, GROUPS, USER, Directory
from tests.http.identity.test_passkeys import owner
from tests.http.identity.test_program_puzzles import ASKING
from tests.http.people import BASE_URL, People
from tests.http.signing_in import PASSWORD, Browser, enable_mfa, unlimited
from tests.http.upstream import conftest as upstream
from tests.http.upstream.scene import Fakes

fakes = upstream.fakes

Json = dict[str, Any]
ALL: Final = Endpoints([*ROUTES, *PAGES])
DOCUMENT: Final = openapi.document(ALL, base_url=BASE_URL, version="1.2.3")
DEVICE, TRUST = "X-Device-Token", "X-Device-Trust-Token"
REFUSALS: Final[list[type[Refusal]]] = sorted({one for declared in ALL for one in declared.refusals}, key=str)
COLOUR: Final = RequestHeader("X-Colour", "The colour.", "green")
SHADE: Final = AnswerHeader("X-Shade", "The shade.", "dark")


def operation(method: str, path: str) -> Json:
    found: Json = DOCUMENT["paths"][path][method]
    return found


def read(method: str, path: str) -> list[str]:
    return [one["name"] for one in operation(method, path).get("parameters", ()) if one["in"] == "header"]


def sent(method: str, path: str, status: int) -> set[str]:
    """The headers of the answer, without those that all answers have."""
    headers = operation(method, path)["responses"][str(status)]["headers"]
    assert headers["X-Request-Id"] == {"$ref": "#/components/headers/X-Request-Id"}
    return set(headers) - {"X-Request-Id"}


async def post_form(client: Client, target: str, form: str) -> None:
    await client.post(target, form.encode(), headers=[("content-type", "application/x-www-form-urlencoded")])


def test_headers_are_told_in_both_directions() -> None:
    assert read("post", "/api/auth/login") == [DEVICE, TRUST]
    assert sent("post", "/api/auth/login", 200) == {DEVICE, "Set-Cookie"}
    assert read("post", "/api/auth/refresh") == [DEVICE]
    assert read("post", "/oauth/token") == [DEVICE, "DPoP"]
    user = "/scim/v2/Users/{user_id}"
    assert (read("get", user), read("put", user), read("patch", user), read("delete", user)) == (
        ["If-None-Match"],
        *(["If-Match"],) * 3,
    )
    assert sent("get", user, 200) == sent("get", user, 304) == sent("put", user, 200) == {"ETag"}
    assert sent("post", "/scim/v2/Users", 201) == {"ETag", "Location"}
    assert sent("get", "/oauth/authorize", 303) == sent("get", "/invitations/accept", 301) == {"Location"}
    assert sent("get", "/oauth/authorize", 200) == set()
    assert sent("get", "/.well-known/jwks.json", 200) == {"Cache-Control"}
    assert sent("get", "/oauth/userinfo", 403) == sent("get", "/api/user", 401) == {"WWW-Authenticate"}
    assert sent("post", "/api/auth/login", 429) == {"Retry-After"}
    assert set(DOCUMENT["components"]["responses"]["Error"]["headers"]) == {"X-Request-Id", "Retry-After"}


def test_a_client_may_say_in_the_body_who_it_is() -> None:
    clients = [one for one in ROUTES if one.caller is CLIENT]
    assert len(clients) >= 6
    for one in clients:
        assert operation("post", one.path)["security"] == [{"client": []}, {}], one.path
    assert operation("post", "/oauth/userinfo")["security"] == [{"bearer": []}, {"dpop": []}, {}]
    assert operation("get", "/oauth/userinfo")["security"] == [{"bearer": []}, {"dpop": []}]
    assert operation("post", "/api/auth/mfa/verify")["security"] == [{"preauth": []}, {}]
    assert operation("get", "/metrics")["security"] == [{}, {"metrics": []}]
    for word in ("client_secret_basic", "client_secret_post", "private_key_jwt", "none"):
        assert f"`{word}`" in DOCUMENT["components"]["securitySchemes"]["client"]["description"]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_the_header_of_a_refusal_is_the_one_that_its_answer_has(refusal: type[Refusal]) -> None:
    made = refusal.__new__(refusal)
    vars(made).update(retry_after=1.0, scope="openid", max_age=timedelta(minutes=5))
    name = header_named_by(refusal)
    assert [one.decode() for one, _ in headers_of(made)] == ([] if name is None else [name.lower()])


def test_every_redirect_says_where_it_leads() -> None:
    redirects = [(one, status) for one in ALL for status in (one.status, *one.also) if status in {301, 302, 303, 307, 308}]
    assert len(redirects) > 12
    assert all(LOCATION in one.sends[status] for one, status in redirects)


def test_headers_of_an_answer_that_is_never_given_cannot_be_declared() -> None:
    with pytest.raises(InvalidDeclaration, match="does not give"):

        @endpoint.get("/shades", caller=ANYONE, limit=UNLIMITED, sends={201: (SHADE,)})
        async def shades(_call: Call, _postern: Postern) -> EmptyObject:
            return EMPTY_OBJECT


@endpoint.get("/secretive", caller=ANYONE, limit=UNLIMITED, tags=("operations",))
async def secretive(call: Call, _postern: Postern) -> Answer[EmptyObject]:
    """Read and send what nobody has declared"""
    call.request.says(COLOUR)
    return Answer(EMPTY_OBJECT, 200, ((b"x-shade", b"dark"),))


@endpoint.get("/forgetful", caller=ANYONE, limit=UNLIMITED, tags=("operations",), reads=(COLOUR,), sends={200: (SHADE,)})
async def forgetful(_call: Call, _postern: Postern) -> EmptyObject:
    """Declare what is never read or sent"""
    return EMPTY_OBJECT


@endpoint.get("/lost", caller=ANYONE, limit=UNLIMITED, tags=("operations",))
async def lost(_call: Call, _postern: Postern) -> Answer[NoBody]:
    """Redirect, and tell nobody"""
    return Answer(NoBody(), 302, ((b"location", b"/"),))


@pytest.mark.parametrize(
    ("one", "noticed"),
    [(secretive, "reads x-colour; sends x-shade with 200"), (forgetful, "lacks x-shade with 200"), (lost, "answers 302")],
    ids=["secretive", "forgetful", "lost"],
)
async def test_what_is_not_as_it_is_told_is_noticed(lonely_postern: Postern, one: Endpoint, noticed: str) -> None:
    client = Client(PosternApplication(lonely_postern, SETTINGS, Endpoints([one])))
    described.USED.clear()
    with pytest.raises(AssertionError, match=re.escape(noticed)):
        await client.get(one.path)
    assert not described.USED


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: Fakes) -> AsyncIterator[Postern]:
    """With a provider to go to."""
    async with postern_on(database_url, tmp_path, settings_of("codehost", fakes["codehost"])) as opened:
        await with_keys(opened)
        yield opened


async def test_no_header_is_declared_in_vain(people: People, postern: Postern) -> None:
    """An answer without a header that it always has is a fault in any test."""
    described.USED.clear()
    client = unlimited(postern)
    await sign_in_in_every_way(client, people, postern)
    await client.post("/api/user/identities/codehost/link", token=await people.token(people.add()))
    await client.post("/webhooks/billing", {})
    for asking, body in ASKING.items():
        await client.post(asking, body)
    pushed = b"client_id=0199d3a0-0000-7000-8000-000000000001"
    await client.request("POST", "/oauth/par", body=pushed, headers=[("content-type", "application/x-www-form-urlencoded")])
    await post_form(client, "/oauth/bc-authorize", pushed.decode())
    await ask_as_a_directory(Directory(postern, client, people))
    declared = {(str(one), header.name) for one in ROUTES for header in one.reads}
    declared |= {(str(one), header.name) for one in ROUTES for headers in one.sends.values() for header in headers if not header.always}
    assert declared == described.USED & declared


async def sign_in_in_every_way(client: Client, people: People, postern: Postern) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    browser = Browser(client)
    tokens = await browser.tokens(ada)
    await browser.refresh(tokens["refresh_token"])
    await client.post("/api/auth/reauthenticate", {"password": PASSWORD}, token=tokens["access_token"])
    totp = await enable_mfa(client, people, ada)
    preauth = (await browser.tokens(ada))["access_token"]
    (await browser.verify(preauth, totp.now(), trust_device=True)).ok()
    bob = await owner(client, people, postern, "bob@example.org")
    passkey, _ = await bob.add()
    (await bob.sign_in(passkey)).ok()
    for path in ("/oauth/token", "/auth/token"):
        await post_form(client, path, "grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code=x")


async def ask_as_a_directory(directory: Directory) -> None:
    await directory.connect()
    await directory.switch()
    team = (await directory.ask("POST", GROUPS, {"schemas": [GROUP], "displayName": "Sales"})).ok(201)
    assert (await directory.ask("DELETE", f"{GROUPS}/{team['id']}")).status == 204
    user = f"/scim/v2/Users/{(await directory.create('eve@example.org'))['id']}"
    for place in (user, directory.group):
        shown = await directory.ask("GET", place)
        known = [("if-none-match", shown.header("etag") or "")]
        assert (await directory.ask("GET", place, headers=known)).status == 304
        await directory.patch(place, {"op": "add", "path": "externalId", "value": "7"})
    await directory.ask("PUT", user, {"schemas": [USER], "userName": "eve@example.org"})
    await directory.ask("PUT", directory.group, {"schemas": [GROUP], "members": []})
    assert (await directory.ask("DELETE", user)).status == 204


def test_every_example_of_a_header_can_stand_in_a_header() -> None:
    """RFC 9110, section 5.5: a tool that sends the examples would stop at any other character."""
    read = [(one.path, header.name, header.example) for one in ALL for header in one.reads]
    sent = [(one.path, header.name, header.example) for one in ALL for headers in one.sends.values() for header in headers]
    examples = [*read, *sent]
    assert examples
    assert [one for one in examples if not (one[2].isascii() and one[2].isprintable())] == []


def test_an_endpoint_that_takes_a_form_or_json_says_both() -> None:
    content = DOCUMENT["paths"]["/auth/token"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/x-www-form-urlencoded", "application/json"}
