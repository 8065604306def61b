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
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, client, log)


@pytest.fixture
def ada(scene: Arriving) -> Person:
    return scene.people.add("ada@example.org")


@pytest.fixture
def services(scene: Arriving) -> list[tuple[UsedService, Iterable[str]]]:
    """Each service with the addresses that are hostile to it. The second service gets only some of the generally hostile addresses, so that
    the test takes one second, not three; `tests/domain/federation` tries all addresses for both.
    """
    scene.set(scene.app, redirect_uris=[REGISTERED])
    scene.set(scene.desktop, redirect_uris=[LOOPBACK])
    return [(scene.app, (*ALWAYS, *FOR_THE_WEB, *NEAR_REGISTERED)), (scene.desktop, (*ALWAYS[::9], *NEAR_LOOPBACK))]


def is_refused_here(answer: Received, uri: str) -> None:
    """Checks that the answer is a page of ours that leads nowhere else, and does not contain the hostile address."""
    assert answer.status == 400, (uri, answer.status)
    assert answer.header("location") is None, uri
    assert b'http-equiv="refresh"' not in answer.body, uri
    assert b"evil" not in answer.body, uri
    assert b"<script>" not in answer.body, uri


async def test_nobody_is_redirected_to_a_hostile_address(
    scene: Arriving, ada: Person, services: list[tuple[UsedService, Iterable[str]]]
) -> None:
    browser = scene.signed_in(ada)
    for service, hostile in services:
        scene.allow(ada, service)
        modes = cycle([{}, {"prompt": "none", "response_mode": "form_post"}])
        asking = scene.asking(service, redirect_uri=None)
        for uri, mode in zip(hostile, modes, strict=False):
            is_refused_here(await browser.request("GET", f"{asking}&{urlencode({'redirect_uri': uri, **mode}, errors='replace')}"), uri)
    assert scene.codes() == []


async def test_no_request_with_a_hostile_address_is_kept(scene: Arriving, services: list[tuple[UsedService, Iterable[str]]]) -> None:
    for service, hostile in services:
        client_id = scene.client_id(service)
        for uri in hostile:
            asked = {"client_id": client_id, "redirect_uri": uri, "response_type": "code", "scope": "openid"}
            body = urlencode({**asked, "code_challenge": CHALLENGE, "code_challenge_method": "S256"}, errors="replace").encode()
            answer = await scene.unlimited.request("POST", "/oauth/par", body=body, headers=FORM)
            assert (answer.status, answer.json()["error"]) == (400, "invalid_request"), uri
            assert b"evil" not in answer.body
    assert scene.people.rows("select * from pushed_requests") == []


async def test_nobody_who_signs_out_is_redirected_to_a_hostile_address(
    scene: Arriving, ada: Person, services: list[tuple[UsedService, Iterable[str]]]
) -> None:
    browser = scene.signed_in(ada)
    for service, hostile in services:
        hint = await scene.id_token(ada, service)
        for uri in filter(None, hostile):
            asked = {"id_token_hint": hint, "post_logout_redirect_uri": uri, "state": "s"}
            is_refused_here(await browser.request("GET", f"/oauth/logout?{urlencode(asked, errors='replace')}"), uri)
    assert browser.session is not None


async def test_a_state_cannot_break_out_of_its_place(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    for state in ('"><script>alert(1)</script>', "&code=mine&iss=https://evil.example", "#x", "a b+c%20d", "';//"):
        assert told(await browser.request("GET", scene.asking(state=state)))["state"] == state
        answer = await browser.request("GET", scene.asking(state=state, response_mode="form_post"))
        assert b"<script>alert" not in answer.body
        tab = await browser.tab().open(scene.asking(state=state, prompt="consent"))
        await tab.send(answer="allow")
        assert b"<script>alert" not in tab.shown.body
        assert left(tab)["state"] == state


async def test_a_hostile_name_stays_text(scene: Arriving, ada: Person) -> None:
    name = '<img src=x onerror="alert(1)">'
    scene.set(scene.app, name=name)
    scene.people.change("update all_organizations set name = %s where id = %s", name, scene.acme.id)
    browser = scene.signed_in(ada)
    for asked in ({"prompt": "select_account"}, {}, {"response_mode": "form_post"}):
        tab = await browser.tab().open(scene.asking(**asked))
        assert b"<img" not in tab.shown.body
        assert b"&lt;img" in tab.shown.body
    page = await browser.request("GET", f"/oauth/logout?client_id={scene.client_id(scene.app)}")
    assert b"<img" not in page.body
    scene.set(scene.app, sign_in_policy="members")
    tab = await browser.tab().open(scene.asking())
    assert tab.status == 403
    assert b"<img" not in tab.shown.body


async def test_an_answer_says_who_gave_it(scene: Arriving, ada: Person) -> None:
    """Mix-up: a client that compares `iss` never sends our code to another provider (RFC 9207)."""
    scene.allow(ada)
    browser = scene.signed_in(ada)
    for asked in ({}, {"prompt": "none", "scope": "openid profile"}, {"response_type": "token"}):
        assert told(await browser.request("GET", scene.asking(**asked)))["iss"] == "https://id.example.org"
    metadata = (await scene.client.get("/.well-known/openid-configuration")).json()
    assert metadata["issuer"] == "https://id.example.org"
    assert metadata["authorization_response_iss_parameter_supported"] is True


async def test_a_code_is_of_no_use_to_anybody_else(scene: Arriving, ada: Person) -> None:
    """Injection: without the verifier of its request, for another client, or with another redirect URI, nobody redeems it."""
    scene.set(scene.app, redirect_uris=[CALLBACK, "https://app.example.com/other"])
    thief = scene.application(scene.tenants.add("globex"), "thief", CALLBACK)
    scene.allow(ada)
    browser = scene.signed_in(ada)

    async def redeem(code: str, **changes: str | None) -> Received:
        asked: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "client_id": scene.client_id(scene.app),
            "code_verifier": VERIFIER,
            **changes,
        }
        body = urlencode({name: value for name, value in asked.items() if value is not None}).encode()
        return await scene.unlimited.request("POST", "/oauth/token", body=body, headers=FORM)

    for wrong in (
        {"code_verifier": "a" * 43},
        {"code_verifier": None},
        {"client_id": scene.client_id(thief)},
        {"redirect_uri": "https://app.example.com/other"},
        {"redirect_uri": None},
    ):
        code = told(await browser.request("GET", scene.asking()))["code"]
        answer = await redeem(code, **wrong)
        assert (answer.status, answer.json()["error"]) in {(400, "invalid_grant"), (400, "invalid_request")}, wrong
    code = told(await browser.request("GET", scene.asking()))["code"]
    tokens = (await redeem(code)).ok()
    (session,) = scene.people.rows("select * from sessions where service_id = %s", scene.app.id)
    assert (session["user_id"], session["parent_id"]) == (ada.user, ada.session)
    # The code ends with the consent.
    assert (await scene.client.get("/api/user", token=tokens["access_token"])).status == 200
    await scene.revoke(ada)
    assert (await scene.client.get("/api/user", token=tokens["access_token"])).status == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": scene.client_id(scene.app)}
    answer = await scene.unlimited.request("POST", "/oauth/token", body=urlencode(refresh).encode(), headers=FORM)
    assert (answer.status, answer.json()["error"]) == (400, "invalid_grant")


async def test_a_flow_belongs_to_its_browser(scene: Arriving, ada: Person) -> None:
    """Login CSRF and fixation: nobody can continue a flow that a stranger has begun."""
    stranger = scene.browser()
    tab = await stranger.tab().open(scene.asking())
    flow = tab.place.partition("flow=")[2]
    victim = scene.signed_in(ada)
    for place in (f"/ui/authorize?flow={flow}", f"/ui/consent?flow={flow}", f"/ui/choose-account?flow={flow}", f"/ui/sign-in?flow={flow}"):
        assert (await victim.request("GET", place)).status == 400, place
    await victim.tab().open(scene.asking())
    for place in (f"/ui/authorize?flow={flow}", f"/ui/consent?flow={flow}"):
        assert (await victim.request("GET", place)).status == 400, place
    assert scene.codes() == []


async def test_a_tenant_gets_nothing_by_the_consent_for_another(scene: Arriving, ada: Person) -> None:
    globex = scene.tenants.add("globex")
    theirs = scene.application(globex, "app", CALLBACK)
    scene.set(theirs, trusted=True)
    scene.allow(ada)
    scene.tenants.join(ada, scene.acme)
    browser = scene.signed_in(ada)
    # A service with the same name and address, even trusted, but of another organization, and without Ada's consent.
    assert told(await browser.request("GET", scene.asking(theirs, prompt="none")))["error"] == "consent_required"
    assert "code" in told(await browser.request("GET", scene.asking(prompt="none")))
    await scene.revoke(ada)
    with pytest.raises(NotFound):
        await scene.revoke(ada, theirs)


async def test_what_a_browser_sends_itself_is_not_in_the_log(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser: Tabs = scene.signed_in(ada)
    hint = await scene.id_token(ada)
    said = told(await browser.request("GET", scene.asking(id_token_hint=hint, login_hint="ada@example.org", nonce="a-nonce-of-its-own")))
    scene.log.remember(said["code"], hint, "a-nonce-of-its-own", browser.session or "", Token(CHALLENGE))
    await browser.request("GET", f"/oauth/logout?{urlencode({'id_token_hint': hint})}")
    assert scene.log.events("request") != []


async def test_prompt_none_tells_nothing_of_people_who_have_allowed_it_nothing(scene: Arriving, ada: Person) -> None:
    """All answers are the same to the byte, for every person and every request of the application."""
    eve = scene.tenants.join(scene.people.add("eve@example.org"), scene.acme)
    moe = scene.people.add("moe@example.org")
    enabled = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now() - interval '1 day')"
    scene.people.change(enabled, moe.user)
    browsers = [scene.signed_in(one) for one in (ada, eve, moe)]
    browsers.append(scene.signed_in(scene.people.session_of(moe), amr="{pwd,otp,mfa}"))
    hints: list[dict[str, str]] = [
        {},
        {"login_hint": ada.email},
        {"id_token_hint": await scene.id_token(ada)},
        {"claims": f'{{"id_token": {{"sub": {{"value": "{ada.user}"}}}}}}'},
        {"acr_values": TWO_FACTORS},
        {"max_age": "1"},
        {"max_age": "9999"},
    ]
    answers = set()
    for policy in ("anyone", "members"):
        scene.set(scene.app, sign_in_policy=policy)
        for tabs in browsers:
            for hint in hints:
                answer = await tabs.request("GET", scene.asking(prompt="none", **hint))
                assert told(answer)["error"] == "consent_required", (policy, hint)
                answers.add(answer.header("location"))
    assert len(answers) == 1


async def test_without_prompt_nobody_is_sent_back_for_what_they_lack_before_they_allow_it(scene: Arriving, ada: Person) -> None:
    """Otherwise a request without `prompt` would reveal what a request with `prompt=none` hides."""
    asked = scene.asking(acr_values=TWO_FACTORS)
    tab = await scene.signed_in(ada).tab().open(asked)
    assert tab.place.startswith("/ui/consent?")
    await tab.send(answer="allow")
    assert left(tab)["error"] == "unmet_authentication_requirements"
    assert scene.people.rows("select from consents") == []
