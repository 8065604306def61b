"""Fifty clients use the same single-use thing of the OpenID provider at once: a code, a pushed request, a device code, a sign-in link."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Final
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import trio

from core.domain.identifiers import FlowId
from core.domain.identity.account_mails import CODE_DIGITS, CODE_LENGTH, code_digest
from core.domain.identity.flows import FlowPurpose, SignInRequirements, form_token
from core.domain.mail import Email
from core.domain.secrets import Secret, Token
from core.usecases.identity.account_mails import CODES
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browser_cookies import keep_flow_secret
from entrypoints.http.machinery.browsers import HOME, bound_to
from entrypoints.http.pages.sign_in.registration_pages import MAILED_CODE
from ops.bench.cases.federation import CALLBACK, CHALLENGE, FORM, Shop, exchange_of, make_codes, make_shop
from ops.bench.cases.races import AT_ONCE, Round
from ops.bench.filling.fill import Person, copy, fill
from ops.bench.harness import DidNotStart, Server
from ops.bench.inside import browser_cookie
from ops.bench.load import Answer, Client, Target

_HOUR: Final = timedelta(hours=1)
_DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_LINK: Final = "/ui/sign-in/link"
_HIDDEN: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
_LIVING: Final = "select count(*) from sessions where user_id = %s and service_id is not distinct from %s and revoked_at is null"


async def prepare_codes(server: Server, _postern: Postern, rounds: int) -> Sequence[Round]:
    """Codes that browsers have brought to an application."""
    people, shop = await _people_and_shop(server, rounds, "codes")
    made = await trio.to_thread.run_sync(make_codes, server, shop, people, rounds)
    return [
        Round([_form("/auth/token", exchange_of(code), shop)] * AT_ONCE, one.user, shop.service)
        for one, code in zip(people, made, strict=True)
    ]


async def prepare_device_codes(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    """Device codes that somebody has approved."""
    people, shop = await _people_and_shop(server, rounds, "devices")
    made = [postern.foundation.secrets.token() for _ in people]
    now = datetime.now(UTC)
    columns = ("id", "digest", "user_code_hmac", "service_id", "scopes", "state", "created_at", "expires_at", "poll_interval", "user_id")
    with psycopg.connect(server.database_url) as connection:
        copy(
            connection,
            "device_codes",
            (*columns, "decided_at", "proved_at", "authenticated_by"),
            (
                (
                    *(uuid4(), code.digest(), uuid4().bytes, shop.service, ["openid"], "approved", now, now + _HOUR, 5, one.user),
                    now,
                    now,
                    ["pwd"],
                )
                for one, code in zip(people, made, strict=True)
            ),
        )
    return [
        Round([_form("/auth/token", {"grant_type": _DEVICE_CODE, "device_code": code.reveal()}, shop)] * AT_ONCE, one.user, shop.service)
        for one, code in zip(people, made, strict=True)
    ]


async def prepare_pushed_requests(server: Server, _postern: Postern, rounds: int) -> Sequence[Round]:
    """Requests that an application has pushed. Fifty windows of a browser come with each, of somebody who is signed in and has agreed."""
    people, shop = await _people_and_shop(server, rounds, "pushed")
    fields = {
        "response_type": "code",
        "redirect_uri": CALLBACK,
        "scope": "openid",
        "state": "s",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    push = _form("/oauth/par", fields, shop)
    found = []
    async with Client.connected(server.target("/")) as client:
        for _ in range(rounds):
            answer = await client.ask(push(server.target("/")))
            pushed = re.search(rb'"request_uri":"([^"]+)"', answer.body)
            if pushed is None:
                raise DidNotStart(f"a request could not be pushed: {answer.status}")
            found.append(pushed[1].decode())
    with psycopg.connect(server.database_url) as connection:
        connection.execute("update pushed_requests set expires_at = now() + interval '1 hour'")
    prepared = []
    for one, uri in zip(people, found, strict=True):
        cookie = await trio.to_thread.run_sync(browser_cookie, server.database_url, one)
        page = _page(f"/oauth/authorize?{urlencode({'client_id': str(shop.client_id), 'request_uri': uri})}", cookie)
        prepared.append(Round([page] * AT_ONCE, one.user, shop.service))
    return prepared


async def prepare_sign_in_links(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    """Links that fifty browsers have opened; each sends the form of its page."""
    people = await trio.to_thread.run_sync(fill, server.database_url, rounds)
    tokens = [postern.foundation.secrets.token() for _ in people]
    now = datetime.now(UTC)
    with psycopg.connect(server.database_url) as connection:
        connection.execute("update users set is_platform_owner = true where id = any (%s)", [[one.user for one in people]])
        connection.execute("update sessions set revoked_at = now() where user_id = any (%s)", [[one.user for one in people]])
        copy(
            connection,
            "mailed_tokens",
            ("digest", "purpose", "user_id", "email", "created_at", "expires_at"),
            ((token.digest(), "sign_in", one.user, one.email, now, now + _HOUR) for one, token in zip(people, tokens, strict=True)),
        )
    prepared = []
    async with Client.connected(server.target("/")) as client:
        for one, token in zip(people, tokens, strict=True):
            prepared.append(Round([await _opened(server, client, token) for _ in range(AT_ONCE)], one.user, None))
    return prepared


async def prepare_mailed_codes(server: Server, postern: Postern, rounds: int) -> Sequence[Round]:
    """Links that forty-nine browsers have opened. The browser that asked for the mail sends the code beside the link."""
    people = await trio.to_thread.run_sync(fill, server.database_url, rounds)
    key = await postern.foundation.server_secrets.get(CODES)
    token, browser = postern.foundation.secrets.token, postern.foundation.secrets.token()
    asked = []
    for one in people:
        begun = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, {"to": HOME}, SignInRequirements(), email=one.email)
        asked.append((one, token(), begun.id, postern.foundation.secrets.letters(CODE_DIGITS, CODE_LENGTH)))
    now = datetime.now(UTC)
    with psycopg.connect(server.database_url) as connection:
        connection.execute("update sessions set revoked_at = now() where user_id = any (%s)", [[one.user for one in people]])
        copy(
            connection,
            "mailed_tokens",
            ("digest", "purpose", "user_id", "email", "created_at", "expires_at", "flow_id", "code_digest"),
            (
                (
                    link.digest(),
                    "magic_link",
                    one.user,
                    one.email,
                    now,
                    now + _HOUR,
                    flow,
                    code_digest(code, link.digest(), flow, Email(one.email), key),
                )
                for one, link, flow, code in asked
            ),
        )
    prepared = []
    async with Client.connected(server.target("/")) as client:
        for one, link, flow, code in asked:
            opened = [await _opened(server, client, link) for _ in range(AT_ONCE - 1)]
            typed = _typed(flow, browser, code, postern.foundation.public_url)
            prepared.append(Round([*opened[: AT_ONCE // 2], typed, *opened[AT_ONCE // 2 :]], one.user, None))
    return prepared


def _typed(flow: FlowId, browser: Token, code: Secret, base_url: str) -> Callable[[Target], Target]:
    fields = {"flow": str(flow), "form_token": form_token(browser, bound_to(str(flow))), "mail": "sign_in_link", "code": code.reveal()}
    _, value = keep_flow_secret(browser, base_url)[0]
    headers = {**FORM, "Cookie": value.decode().partition(";")[0], "Sec-Fetch-Site": "same-origin"}
    return lambda target: Target(target.host, target.port, MAILED_CODE, headers, method="POST", body=urlencode(fields).encode())


async def _opened(server: Server, client: Client, token: Token) -> Callable[[Target], Target]:
    answer = await client.ask(_page(f"{_LINK}?token={token.reveal()}")(server.target("/")))
    fields = {name: unescape(value) for name, value in _HIDDEN.findall(answer.body.decode())}
    cookie = answer.headers.get("set-cookie", "").partition(";")[0]
    if answer.status != 200 or not fields or not cookie:
        raise DidNotStart(f"a link could not be opened: {answer.status}")
    headers = {**FORM, "Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    return lambda target: Target(target.host, target.port, _LINK, headers, method="POST", body=urlencode(fields).encode())


def given_and_living(database_url: str, one: Round, answers: Sequence[Answer]) -> int:
    """How many came in. The session of the one who came in must live, with no other beside it."""
    came_in = sum(answer.status in {200, 303} for answer in answers)
    with psycopg.connect(database_url) as connection:
        (living,) = connection.execute(_LIVING, [one.subject, one.service]).fetchone() or (0,)
    return came_in if living == 1 else -1


def codes_given(_database_url: str, _one: Round, answers: Sequence[Answer]) -> int:
    """How many windows brought a code to the application."""
    return sum(answer.headers.get("location", "").startswith(f"{CALLBACK}?code=") for answer in answers)


async def _people_and_shop(server: Server, rounds: int, slug: str) -> tuple[Sequence[Person], Shop]:
    people = await trio.to_thread.run_sync(fill, server.database_url, rounds)
    shop = await trio.to_thread.run_sync(make_shop, server, people, slug)
    with psycopg.connect(server.database_url) as connection:
        connection.execute("update sessions set revoked_at = now() where service_id = %s", [shop.service])
    return people, shop


def _form(path: str, fields: Mapping[str, str], shop: Shop) -> Callable[[Target], Target]:
    name, _, value = shop.basic.partition(": ")
    body = urlencode(fields).encode()
    return lambda target: Target(target.host, target.port, path, {**FORM, name: value}, method="POST", body=body)


def _page(path: str, cookie: str = "") -> Callable[[Target], Target]:
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "none", **({"Cookie": cookie} if cookie else {})}
    return lambda target: Target(target.host, target.port, path, headers)
