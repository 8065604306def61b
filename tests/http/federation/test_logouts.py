"""`/oauth/logout`: people who are signed out at once, people who are asked first, and the pages they get to."""

from typing import Any
from urllib.parse import urlencode

import jwt
import pytest

from core.domain.tokens import TokenAlgorithm
from ops.browser.page_reader import PageReader
from tests.http.federation.arriving import CALLBACK, SESSION_COOKIE, Arriving, answer_in, is_page, told
from tests.http.people import BASE_URL, Person

LOGOUT = "/oauth/logout"
AFTER = "https://app.example.com/signed-out"


def asking(**asked: Any) -> str:
    return f"{LOGOUT}?{urlencode({name: value for name, value in asked.items() if value is not None})}"


def living(scene: Arriving, person: Person) -> bool:
    return bool(scene.people.rows("select from sessions where id = %s and revoked_at is null", person.session))


@pytest.fixture
def app(scene: Arriving) -> Arriving:
    scene.set(scene.app, post_logout_redirect_uris=[AFTER])
    return scene


async def test_the_token_of_this_person_for_this_application_signs_out_at_once(app: Arriving, ada: Person) -> None:
    hint, browser = await app.id_token(ada), app.browser()
    more: dict[str, str]
    for more in ({}, {"client_id": app.client_id(app.app)}):
        person = app.people.session_of(ada)
        browser = app.signed_in(person)
        answer = await browser.request("GET", asking(id_token_hint=hint, post_logout_redirect_uri=AFTER, state="a b&c", **more))
        assert (answer.status, answer.header("location")) == (303, f"{AFTER}?state=a+b%26c")
        assert not living(app, person)
        assert SESSION_COOKIE not in browser.cookies
    # Without a session there is no question.
    again = await browser.request("GET", asking(id_token_hint=hint, post_logout_redirect_uri=AFTER))
    assert (again.status, again.header("location")) == (303, AFTER)
    events = [event["name"] for event in app.told()]
    assert events == ["user.logout", "user.logout"]


@pytest.mark.parametrize("algorithm", TokenAlgorithm)
async def test_the_token_counts_also_when_its_key_was_replaced_long_ago(app: Arriving, ada: Person, algorithm: TokenAlgorithm) -> None:
    """Applications keep the ID token of the sign-in, and keys are rotated every ninety days."""
    foundation = app.postern.foundation
    said: dict[str, Any] = {"iss": BASE_URL, "sub": str(ada.user), "aud": app.client_id(app.app), "exp": 1000, "iat": 1}
    hint = await foundation.token_signer.sign_id(said, algorithm)
    await foundation.signing_keys.ensure()
    await foundation.signing_keys.rotate()
    app.people.change("update signing_keys set retires_at = now() - interval '88 days' where state = 'outgoing'")
    # The next rotation removes old keys, and the process reads the keys again.
    await foundation.signing_keys.rotate()
    published = (await app.client.get("/.well-known/jwks.json")).json()["keys"]
    assert jwt.get_unverified_header(hint)["kid"] not in {key["kid"] for key in published}
    app.allow(ada)
    browser = app.signed_in(ada)
    assert "code" in told(await browser.request("GET", app.asking(prompt="none", id_token_hint=hint)))
    answer = await browser.request("GET", asking(id_token_hint=hint, post_logout_redirect_uri=AFTER))
    assert (answer.status, answer.header("location")) == (303, AFTER)
    assert not living(app, ada)


async def test_what_was_opened_from_the_browser_ends_and_what_is_to_stay_stays(app: Arriving, ada: Person) -> None:
    browser = app.signed_in(ada)
    child = app.tenants.session(ada, app.app)
    app.people.change("update sessions set parent_id = %s, depth = 1 where id = %s", ada.session, child.session)
    root = app.tenants.session(ada, app.app)
    await browser.request("GET", asking(id_token_hint=await app.id_token(ada)))
    for person, status in ((child, 401), (root, 200)):
        answer = await app.client.get("/api/user", token=await app.tenants.token(person, app.app))
        assert answer.status == status, answer.body
    tab = await browser.tab().open(app.asking())
    assert tab.place.startswith("/ui/sign-in")


async def test_everybody_else_is_asked_first(app: Arriving, ada: Person) -> None:
    bob = app.people.add("bob@example.org")
    own = app.client_id(app.app)
    of_other = await app.id_token(ada, app.desktop)
    for asked, back in (
        ({}, None),
        ({"state": "s"}, None),
        ({"post_logout_redirect_uri": AFTER}, None),
        ({"client_id": own}, None),
        ({"client_id": own, "post_logout_redirect_uri": AFTER, "state": "s"}, f"{AFTER}?state=s"),
        ({"id_token_hint": await app.id_token(bob), "post_logout_redirect_uri": AFTER}, AFTER),
        # With a wrong hint, the other parameters do not count.
        ({"id_token_hint": "a.b.c", "client_id": own, "post_logout_redirect_uri": AFTER}, None),
        ({"id_token_hint": (await app.id_token(ada))[:-6], "post_logout_redirect_uri": AFTER}, None),
        ({"id_token_hint": await app.id_token(ada, iss="https://evil.example"), "post_logout_redirect_uri": AFTER}, None),
        ({"id_token_hint": await app.id_token(ada, aud="app"), "post_logout_redirect_uri": AFTER}, None),
        ({"id_token_hint": of_other, "client_id": own, "post_logout_redirect_uri": AFTER}, None),
        ({"id_token_hint": await app.people.token(ada), "post_logout_redirect_uri": AFTER}, None),
    ):
        person = app.people.session_of(ada)
        tab = await app.signed_in(person).tab().open(asking(**asked))
        assert tab.status == 200
        assert "Do you want to sign out?" in tab.page.text
        assert "Other applications may keep you signed in" in tab.page.text
        assert ada.email in tab.page.text
        assert living(app, person)
        await tab.send(answer="yes")
        assert not living(app, person)
        assert SESSION_COOKIE not in tab.tabs.cookies
        if back is None:
            assert tab.place == "/ui/signed-out"
            assert "the applications that asked for it are notified. Other applications may keep you signed in" in tab.page.text
        else:
            assert tab.page.refresh == back


async def test_who_does_not_want_to_stays(app: Arriving, ada: Person) -> None:
    tab = await app.signed_in(ada).tab().open(asking(client_id=app.client_id(app.app), post_logout_redirect_uri=AFTER))
    assert "App asks you to sign out" in tab.page.text
    await tab.send(answer="no")
    assert tab.place == "/ui"
    assert living(app, ada)


async def test_without_a_session_there_is_nothing_to_ask(app: Arriving) -> None:
    browser = app.browser()
    for asked, back in (
        ({}, "/ui/signed-out"),
        ({"id_token_hint": "a.b.c", "post_logout_redirect_uri": AFTER}, "/ui/signed-out"),
        ({"post_logout_redirect_uri": AFTER}, "/ui/signed-out"),
        ({"client_id": app.client_id(app.app), "post_logout_redirect_uri": AFTER, "state": "s"}, f"{AFTER}?state=s"),
    ):
        answer = await browser.request("GET", asking(**asked))
        assert (answer.status, answer.header("location")) == (303, back)


async def test_an_address_that_is_not_registered_is_a_page_and_nobody_is_signed_out(app: Arriving, ada: Person) -> None:
    browser = app.signed_in(ada)
    hint = await app.id_token(ada)
    # The application's redirect URI is refused, too, since it is not registered for sign-outs.
    for uri in (CALLBACK, f"{AFTER}?a=b", f"{AFTER}/", "https://evil.example/<script>"):
        for asked in ({"id_token_hint": hint}, {"client_id": app.client_id(app.app)}):
            answer = await browser.request("GET", asking(post_logout_redirect_uri=uri, state="s", **asked))
            is_page(answer, 400, "a redirect URI that is not registered")
            assert b"<script>" not in answer.body
            assert PageReader(answer.body).links == ["/ui"]
    assert living(app, ada)


async def test_a_service_that_says_nothing_gets_its_people_at_its_redirect_uris(scene: Arriving, ada: Person) -> None:
    answer = await scene.signed_in(ada).request(
        "GET", asking(id_token_hint=await scene.id_token(ada), post_logout_redirect_uri=CALLBACK, state="s")
    )
    assert answer.header("location") == f"{CALLBACK}?state=s"


async def test_the_question_is_bound_to_the_session(app: Arriving, ada: Person) -> None:
    browser = app.signed_in(ada)
    tab = await browser.tab().open(asking())
    fields = tab.page.forms[0].fields
    for wrong in ({**fields, "form_token": "0" * 64}, {**fields, "form_token": ""}):
        is_page(await browser.request("POST", "/oauth/logout/confirm", {**wrong, "answer": "yes"}), 403, "out of date")
    bob = app.signed_in(app.people.add("bob@example.org"))
    is_page(await bob.request("POST", "/oauth/logout/confirm", {**fields, "answer": "yes"}), 409, "another account")
    assert living(app, ada)
    # The fields of the form are checked again.
    hostile = {**fields, "answer": "yes", "client_id": app.client_id(app.app), "post_logout_redirect_uri": "https://evil.example/"}
    is_page(await browser.request("POST", "/oauth/logout/confirm", hostile), 400, "a redirect URI that is not registered")
    assert living(app, ada)


async def test_another_site_may_send_a_form(app: Arriving, ada: Person) -> None:
    person = app.signed_in(ada)
    hint = await app.id_token(ada)
    headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")]
    body = urlencode({"id_token_hint": hint, "post_logout_redirect_uri": AFTER, "state": "s"}).encode()
    answer = await app.unlimited.request("POST", LOGOUT, body=body, headers=headers)
    assert answer.status == 303
    place = answer.header("location") or ""
    assert place.startswith(f"{LOGOUT}?id_token_hint=")
    assert living(app, ada)
    assert (await person.request("GET", place)).header("location") == f"{AFTER}?state=s"
    assert not living(app, ada)


async def test_a_second_application_signs_in_without_a_password_and_both_end_together(scene: Arriving, ada: Person) -> None:
    other = scene.application(scene.acme, "other", "https://other.example.com/callback")
    for service in (scene.app, other):
        scene.allow(ada, service)
    browser = scene.signed_in(ada)
    sessions = []
    for service, uri in ((scene.app, CALLBACK), (other, "https://other.example.com/callback")):
        answer = await browser.request("GET", scene.asking(service, redirect_uri=uri))
        code = scene.code(answer_in(answer.header("location"), uri)["code"])
        assert code["parent_id"] == ada.session
        sessions.append(scene.tenants.session(ada, service))
        scene.people.change("update sessions set parent_id = %s, depth = 1 where id = %s", code["parent_id"], sessions[-1].session)
    await browser.request("GET", asking(id_token_hint=await scene.id_token(ada, other)))
    for service, session in zip((scene.app, other), sessions, strict=True):
        assert (await scene.client.get("/api/user", token=await scene.tenants.token(session, service))).status == 401


@pytest.mark.parametrize("known", [True, False])
async def test_the_pages_speak_the_language_that_the_application_asks_for(app: Arriving, ada: Person, *, known: bool) -> None:
    browser = app.signed_in(ada)
    asked = {"ui_locales": "xx de", "client_id": app.client_id(app.app) if known else None}
    is_page(
        await browser.request("GET", asking(**asked, post_logout_redirect_uri=AFTER if known else None)), 200, '<html lang="de" dir="ltr">'
    )
    if known:
        is_page(await browser.request("GET", asking(**asked, post_logout_redirect_uri=CALLBACK)), 400, '<html lang="de" dir="ltr">')
    tab = await browser.tab().open(asking(**asked))
    await tab.send(answer="yes")
    assert tab.place == "/ui/signed-out?ui_locales=xx+de"
    assert tab.shown.header("content-language") == "de"
    assert (await browser.tab().open(asking(**asked))).shown.header("content-language") == "de"
