"""Attacks on people who are signing in to an application: open redirects, codes and answers in the wrong hands, forms and frames of other
sites, and requests of another tenant.
"""

from collections.abc import Iterable
from itertools import cycle
from typing import Final
from urllib.parse import urlencode

import pytest

from core.domain.errors import NotFound
from core.domain.identity.sessions import TWO_FACTORS
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.hostile_uris import ALWAYS, FOR_THE_WEB, LOOPBACK, NEAR_LOOPBACK, NEAR_REGISTERED, REGISTERED
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.client import Client, Received
from tests.http.federation.arriving import CALLBACK, CHALLENGE, VERIFIER, Arriving, left, told
from tests.http.people import People, Person
from tests.http.tenants import UsedService

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client

FORM: Final = [("content-type", "application/x-www-form-urlencoded")]


@pytest.fixture
def house(postern: Postern, people: People, client: Client, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, client, log)


@pytest.fixture
def ada(house: Arriving) -> Person:
    return house.people.add("ada@example.org")


@pytest.fixture
def services(house: Arriving) -> list[tuple[UsedService, Iterable[str]]]:
    """Each service with the addresses that are hostile to it. The second service gets only some of the generally hostile addresses, so that
    the test takes one second, not three; `tests/domain/federation` tries all addresses for both.
    """
    house.set(house.app, redirect_uris=[REGISTERED])
    house.set(house.desktop, redirect_uris=[LOOPBACK])
    return [(house.app, (*ALWAYS, *FOR_THE_WEB, *NEAR_REGISTERED)), (house.desktop, (*ALWAYS[::9], *NEAR_LOOPBACK))]


def is_refused_here(answer: Received, uri: str) -> None:
    """Checks that the answer is a page of ours that leads nowhere else, and does not contain the hostile address."""
    assert answer.status == 400, (uri, answer.status)
    assert answer.header("location") is None, uri
    assert b'http-equiv="refresh"' not in answer.body, uri
    assert b"evil" not in answer.body, uri
    assert b"<script>" not in answer.body, uri


async def test_nobody_is_redirected_to_a_hostile_address(
    house: Arriving, ada: Person, services: list[tuple[UsedService, Iterable[str]]]
) -> None:
    browser = house.signed_in(ada)
    for service, hostile in services:
        house.allow(ada, service)
        modes = cycle([{}, {"prompt": "none", "response_mode": "form_post"}])
        asking = house.asking(service, redirect_uri=None)
        for uri, mode in zip(hostile, modes, strict=False):
            is_refused_here(await browser.request("GET", f"{asking}&{urlencode({'redirect_uri': uri, **mode}, errors='replace')}"), uri)
    assert house.codes() == []


async def test_no_request_with_a_hostile_address_is_kept(house: Arriving, services: list[tuple[UsedService, Iterable[str]]]) -> None:
    for service, hostile in services:
        client_id = house.client_id(service)
        for uri in hostile:
            asked = {"client_id": client_id, "redirect_uri": uri, "response_type": "code", "scope": "openid"}
            body = urlencode({**asked, "code_challenge": CHALLENGE, "code_challenge_method": "S256"}, errors="replace").encode()
            answer = await house.unlimited.request("POST", "/oauth/par", body=body, headers=FORM)
            assert (answer.status, answer.json()["error"]) == (400, "invalid_request"), uri
            assert b"evil" not in answer.body
    assert house.people.rows("select * from pushed_requests") == []


async def test_nobody_who_signs_out_is_redirected_to_a_hostile_address(
    house: Arriving, ada: Person, services: list[tuple[UsedService, Iterable[str]]]
) -> None:
    browser = house.signed_in(ada)
    for service, hostile in services:
        hint = await house.id_token(ada, service)
        for uri in filter(None, hostile):
            asked = {"id_token_hint": hint, "post_logout_redirect_uri": uri, "state": "s"}
            is_refused_here(await browser.request("GET", f"/oauth/logout?{urlencode(asked, errors='replace')}"), uri)
    assert browser.session is not None


async def test_a_state_cannot_break_out_of_its_place(house: Arriving, ada: Person) -> None:
    house.allow(ada)
    browser = house.signed_in(ada)
    for state in ('"><script>alert(1)</script>', "&code=mine&iss=https://evil.example", "#x", "a b+c%20d", "';//"):
        assert told(await browser.request("GET", house.asking(state=state)))["state"] == state
        answer = await browser.request("GET", house.asking(state=state, response_mode="form_post"))
        assert b"<script>alert" not in answer.body
        tab = await browser.tab().open(house.asking(state=state, prompt="consent"))
        await tab.send(answer="allow")
        assert b"<script>alert" not in tab.shown.body
        assert left(tab)["state"] == state


async def test_a_hostile_name_stays_text(house: Arriving, ada: Person) -> None:
    name = '<img src=x onerror="alert(1)">'
    house.set(house.app, name=name)
    house.people.change("update all_organizations set name = %s where id = %s", name, house.acme.id)
    browser = house.signed_in(ada)
    for asked in ({"prompt": "select_account"}, {}, {"response_mode": "form_post"}):
        tab = await browser.tab().open(house.asking(**asked))
        assert b"<img" not in tab.shown.body
        assert b"&lt;img" in tab.shown.body
    page = await browser.request("GET", f"/oauth/logout?client_id={house.client_id(house.app)}")
    assert b"<img" not in page.body
    house.set(house.app, sign_in_policy="members")
    tab = await browser.tab().open(house.asking())
    assert tab.status == 403
    assert b"<img" not in tab.shown.body


async def test_an_answer_says_who_gave_it(house: Arriving, ada: Person) -> None:
    """Mix-up: a client that compares `iss` never sends our code to another provider (RFC 9207)."""
    house.allow(ada)
    browser = house.signed_in(ada)
    for asked in ({}, {"prompt": "none", "scope": "openid profile"}, {"response_type": "token"}):
        assert told(await browser.request("GET", house.asking(**asked)))["iss"] == "https://id.example.org"
    metadata = (await house.client.get("/.well-known/openid-configuration")).json()
    assert metadata["issuer"] == "https://id.example.org"
    assert metadata["authorization_response_iss_parameter_supported"] is True


async def test_a_code_is_of_no_use_to_anybody_else(house: Arriving, ada: Person) -> None:
    """Injection: without the verifier of its request, for another client, or with another redirect URI, nobody redeems it."""
    house.set(house.app, redirect_uris=[CALLBACK, "https://app.example.com/other"])
    thief = house.application(house.tenants.add("globex"), "thief", CALLBACK)
    house.allow(ada)
    browser = house.signed_in(ada)

    async def redeem(code: str, **changes: str | None) -> Received:
        asked: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "client_id": house.client_id(house.app),
            "code_verifier": VERIFIER,
            **changes,
        }
        body = urlencode({name: value for name, value in asked.items() if value is not None}).encode()
        return await house.unlimited.request("POST", "/oauth/token", body=body, headers=FORM)

    for wrong in (
        {"code_verifier": "a" * 43},
        {"code_verifier": None},
        {"client_id": house.client_id(thief)},
        {"redirect_uri": "https://app.example.com/other"},
        {"redirect_uri": None},
    ):
        code = told(await browser.request("GET", house.asking()))["code"]
        answer = await redeem(code, **wrong)
        assert (answer.status, answer.json()["error"]) in {(400, "invalid_grant"), (400, "invalid_request")}, wrong
    code = told(await browser.request("GET", house.asking()))["code"]
    tokens = (await redeem(code)).ok()
    (session,) = house.people.rows("select * from sessions where service_id = %s", house.app.id)
    assert (session["user_id"], session["parent_id"]) == (ada.user, ada.session)
    # The code ends with the consent.
    assert (await house.client.get("/api/user", token=tokens["access_token"])).status == 200
    await house.revoke(ada)
    assert (await house.client.get("/api/user", token=tokens["access_token"])).status == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": house.client_id(house.app)}
    answer = await house.unlimited.request("POST", "/oauth/token", body=urlencode(refresh).encode(), headers=FORM)
    assert (answer.status, answer.json()["error"]) == (400, "invalid_grant")


async def test_a_flow_belongs_to_its_browser(house: Arriving, ada: Person) -> None:
    """Login CSRF and fixation: nobody can continue a flow that a stranger has begun."""
    stranger = house.browser()
    tab = await stranger.tab().open(house.asking())
    flow = tab.place.partition("flow=")[2]
    victim = house.signed_in(ada)
    for place in (f"/ui/authorize?flow={flow}", f"/ui/consent?flow={flow}", f"/ui/choose-account?flow={flow}", f"/ui/sign-in?flow={flow}"):
        assert (await victim.request("GET", place)).status == 400, place
    await victim.tab().open(house.asking())
    for place in (f"/ui/authorize?flow={flow}", f"/ui/consent?flow={flow}"):
        assert (await victim.request("GET", place)).status == 400, place
    assert house.codes() == []


async def test_a_tenant_gets_nothing_by_the_consent_for_another(house: Arriving, ada: Person) -> None:
    globex = house.tenants.add("globex")
    theirs = house.application(globex, "app", CALLBACK)
    house.set(theirs, trusted=True)
    house.allow(ada)
    house.tenants.join(ada, house.acme)
    browser = house.signed_in(ada)
    # A service with the same name and address, even trusted, but of another organization, and without Ada's consent.
    assert told(await browser.request("GET", house.asking(theirs, prompt="none")))["error"] == "consent_required"
    assert "code" in told(await browser.request("GET", house.asking(prompt="none")))
    await house.revoke(ada)
    with pytest.raises(NotFound):
        await house.revoke(ada, theirs)


async def test_what_a_browser_sends_itself_is_not_in_the_log(house: Arriving, ada: Person) -> None:
    house.allow(ada)
    browser: Tabs = house.signed_in(ada)
    hint = await house.id_token(ada)
    said = told(await browser.request("GET", house.asking(id_token_hint=hint, login_hint="ada@example.org", nonce="a-nonce-of-its-own")))
    house.log.remember(said["code"], hint, "a-nonce-of-its-own", browser.session or "", Token(CHALLENGE))
    await browser.request("GET", f"/oauth/logout?{urlencode({'id_token_hint': hint})}")
    assert house.log.events("request") != []


async def test_prompt_none_tells_nothing_of_people_who_have_allowed_it_nothing(house: Arriving, ada: Person) -> None:
    """All answers are the same to the byte, for every person and every request of the application."""
    eve = house.tenants.join(house.people.add("eve@example.org"), house.acme)
    moe = house.people.add("moe@example.org")
    enabled = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now() - interval '1 day')"
    house.people.change(enabled, moe.user)
    browsers = [house.signed_in(one) for one in (ada, eve, moe)]
    browsers.append(house.signed_in(house.people.session_of(moe), amr="{pwd,otp,mfa}"))
    hints: list[dict[str, str]] = [
        {},
        {"login_hint": ada.email},
        {"id_token_hint": await house.id_token(ada)},
        {"claims": f'{{"id_token": {{"sub": {{"value": "{ada.user}"}}}}}}'},
        {"acr_values": TWO_FACTORS},
        {"max_age": "1"},
        {"max_age": "9999"},
    ]
    answers = set()
    for policy in ("anyone", "members"):
        house.set(house.app, sign_in_policy=policy)
        for tabs in browsers:
            for hint in hints:
                answer = await tabs.request("GET", house.asking(prompt="none", **hint))
                assert told(answer)["error"] == "consent_required", (policy, hint)
                answers.add(answer.header("location"))
    assert len(answers) == 1


async def test_without_prompt_nobody_is_sent_back_for_what_they_lack_before_they_allow_it(house: Arriving, ada: Person) -> None:
    """Otherwise a request without `prompt` would reveal what a request with `prompt=none` hides."""
    asked = house.asking(acr_values=TWO_FACTORS)
    tab = await house.signed_in(ada).tab().open(asked)
    assert tab.place.startswith("/ui/consent?")
    await tab.send(answer="allow")
    assert left(tab)["error"] == "unmet_authentication_requirements"
    assert house.people.rows("select from consents") == []
