"""`/oauth/authorize`: the answers to the application, the questions to the person, and requests without questions."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from uuid import uuid4

import pytest

from adapters.postgres.upkeep.housekeeping import sweeps
from core.domain.identity.sessions import TWO_FACTORS
from ops.browser.page_reader import PageReader
from tests.http.browsing import Tab, choices
from tests.http.cast import all_at_once
from tests.http.federation.arriving import AUTHORIZE, CALLBACK, CHALLENGE, SESSION_COOKIE, Arriving, is_page, left, posted, told
from tests.http.people import BASE_URL, Person
from tests.http.postbox import Postbox, token_in
from tests.http.signing_in import PASSWORD, enable_mfa


async def test_a_session_that_is_enough_gets_its_code_at_once(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada, amr="{pwd,otp,mfa}")
    answer = await browser.request("GET", scene.asking(nonce="n", scope="email openid phone"))
    said = told(answer)
    assert set(said) == {"code", "state", "iss"}
    assert said["state"] == "a b&c"
    assert len(said["code"]) == 43
    kept = scene.code(said["code"])
    assert (kept["service_id"], kept["user_id"], kept["parent_id"]) == (scene.app.id, ada.user, ada.session)
    assert (kept["redirect_uri"], kept["code_challenge"], kept["nonce"]) == (CALLBACK, CHALLENGE, "n")
    assert (kept["scopes"], kept["authenticated_by"]) == (["openid", "email"], ["pwd", "otp", "mfa"])
    assert timedelta(seconds=50) < datetime.now(UTC) - kept["auth_time"] < timedelta(seconds=120)
    assert kept["expires_at"] - kept["created_at"] == timedelta(seconds=60)
    assert answer.header("cache-control") == "no-store"
    assert answer.header("referrer-policy") == "no-referrer"
    assert answer.header("cross-origin-opener-policy") == "unsafe-none"


async def test_it_waits_four_times_for_the_database(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    for _ in range(2):
        told(await browser.request("GET", scene.asking()))
    (*_, request) = scene.log.events("request")
    assert (request["route"], request["db_round_trips"]) == (AUTHORIZE, 4)


async def test_a_stranger_signs_in_allows_and_comes_back(scene: Arriving) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    tab = await scene.browser().tab().open(scene.asking(ui_locales="en"))
    assert tab.place.startswith("/ui/sign-in?flow=")
    assert "App" in tab.page.text
    await (await tab.send(email=person.email)).send(password=PASSWORD)
    assert tab.place.startswith("/ui/consent?flow=")
    for words in (
        "Allow App to access your account?",
        "Acme",
        "Recognize you when you return",
        "View your email address",
        "app.example.com",
    ):
        assert words in tab.page.text
    await tab.send(answer="allow")
    code = scene.code(left(tab)["code"])
    (session,) = scene.people.rows("select * from sessions")
    assert (code["user_id"], code["parent_id"], code["auth_time"]) == (person.user, session["id"], session["proved_at"])
    # The person is not asked the second time, nor for a second application that has all consents.
    told(await tab.tabs.request("GET", scene.asking()))


async def test_a_sign_in_leads_on_without_a_question_when_everything_is_allowed(scene: Arriving) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    scene.allow(person)
    tab = await scene.browser().tab().open(scene.asking())
    await (await tab.send(email=person.email)).send(password=PASSWORD)
    assert scene.code(left(tab)["code"])["user_id"] == person.user
    # The page leads away by itself, without a form, because browsers may block a redirect after a form.
    policy = tab.shown.header("content-security-policy") or ""
    assert "form-action 'self'" in policy
    assert CALLBACK not in policy


async def test_the_log_names_the_way_in_which_somebody_signed_in_for_the_request(scene: Arriving) -> None:
    """Sign-ins with a password, on a new and on a known device, and with a second factor. The entry of a later session names the way, too,
    even if a page came in between.
    """
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    scene.allow(person)
    browser = scene.browser()
    assert scene.code(left(await _with_password(browser.tab(), scene.asking()))["code"])["provider"] == "password"
    assert scene.code(told(await browser.request("GET", scene.asking()))["code"])["provider"] == "session"
    chosen = await (await browser.tab().open(scene.asking(prompt="select_account"))).send(answer="current")
    assert scene.code(left(chosen)["code"])["provider"] == "session"
    again = await (await browser.tab().open(scene.asking(prompt="login"))).send(password=PASSWORD)
    assert scene.code(left(again)["code"])["provider"] == "password"
    # A new session on a known device takes one round trip. The page in between reads the flow again.
    for asked in ({}, {"prompt": "consent"}):
        del browser.cookies[SESSION_COOKIE]
        tab = await _with_password(browser.tab(), scene.asking(**asked))
        assert scene.code(left(await tab.send(answer="allow") if asked else tab)["code"])["provider"] == "password"
    totp = await enable_mfa(scene.unlimited, scene.people, person)
    tab = await _with_password(scene.browser().tab(), scene.asking())
    await tab.send(code=totp.now())
    assert scene.code(left(tab)["code"])["provider"] == "password"


async def test_whoever_signed_in_for_a_request_and_went_on_in_another_session_came_by_that(scene: Arriving) -> None:
    """The code belongs to another session than the flow's own."""
    ada = await scene.people.with_password(PASSWORD, "ada@example.org")
    browser = scene.browser()
    tab = await _with_password(browser.tab(), scene.asking())
    assert tab.place.startswith("/ui/consent")
    scene.allow(ada)
    browser.cookies[SESSION_COOKIE] = scene.signed_in(scene.people.session_of(ada)).cookies[SESSION_COOKIE]
    await tab.open(tab.place)
    assert [(one["user_id"], one["provider"]) for one in scene.codes()] == [(ada.user, "session")]


async def _with_password(tab: Tab, address: str) -> Tab:
    await tab.open(address)
    await tab.send(email="ada@example.org")
    return await tab.send(password=PASSWORD)


async def test_a_form_may_bring_the_answer(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    answer = await browser.request("GET", scene.asking(response_mode="form_post"))
    fields = posted(answer)
    assert set(fields) == {"code", "state", "iss"}
    assert fields["state"] == "a b&c"
    policy = answer.header("content-security-policy") or ""
    assert "form-action" not in policy
    assert "script-src 'self'" in policy
    assert b"data-leave" in answer.body
    assert answer.body.count(b"<button") == 1
    fields = posted(await browser.request("GET", scene.asking(response_mode="form_post", response_type="token")))
    assert fields["error"] == "unsupported_response_type"


async def test_a_form_may_bring_it_after_a_sign_in_too(scene: Arriving) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    scene.allow(person)
    tab = await scene.browser().tab().open(scene.asking(response_mode="form_post"))
    await (await tab.send(email=person.email)).send(password=PASSWORD)
    assert tab.place.startswith("/ui/authorize?flow=")
    fields = posted(tab.shown)
    assert scene.code(fields["code"])["user_id"] == person.user
    assert "form-action" not in (tab.shown.header("content-security-policy") or "")


async def test_another_site_may_send_a_form(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    body = scene.asking().partition("?")[2].encode()
    # As browsers send the form: from another site, and without our cookies.
    headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "cross-site"),
        ("origin", "https://app.example.com"),
    ]
    answer = await scene.unlimited.request("POST", AUTHORIZE, body=body, headers=headers)
    assert answer.status == 303
    place = answer.header("location") or ""
    assert place == scene.asking()
    told(await browser.request("GET", place))
    assert scene.codes() != []
    hostile = b"client_id=a%0d%0aSet-Cookie:%20a=b&state=\xff&state=\xe4"
    place = (await scene.unlimited.request("POST", AUTHORIZE, body=hostile, headers=headers)).header("location") or ""
    assert place == f"{AUTHORIZE}?client_id=a%0D%0ASet-Cookie%3A+a%3Db&state=%EF%BF%BD&state=%EF%BF%BD" or place.isascii()
    is_page(await scene.unlimited.request("POST", AUTHORIZE, body=b"&".join([b"a=b"] * 200), headers=headers), 400)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "id_token"}, "unsupported_response_type"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"request": "e30.e30."}, "request_not_supported"),
        ({"request_uri": "https://app.example.com/r"}, "request_uri_not_supported"),
        ({"registration": "{}"}, "registration_not_supported"),
        ({"prompt": "none login"}, "invalid_request"),
        ({"max_age": "soon"}, "invalid_request"),
        ({"nonce": "\x00"}, "invalid_request"),
        ({"id_token_hint": "a.b.c"}, "invalid_request"),
        ({"state": None, "response_mode": "web_message"}, "invalid_request"),
    ],
)
async def test_what_is_wrong_is_told_to_the_application(scene: Arriving, ada: Person, changes: dict[str, Any], word: str) -> None:
    for browser in (scene.browser(), scene.signed_in(scene.people.session_of(ada))):
        said = told(await browser.request("GET", scene.asking(**changes)))
        assert said["error"] == word
        assert said.get("state") == ("a b&c" if "state" not in changes else None)
        assert set(said) <= {"error", "error_description", "state", "iss"}
    assert scene.codes() == []


async def test_without_a_known_receiver_there_is_a_page(scene: Arriving, ada: Person) -> None:
    browser = scene.signed_in(ada)
    unknown = str(scene.postern.foundation.ids.new())
    for changes, words in (
        ({"client_id": unknown}, "not registered here"),
        ({"client_id": None}, "not registered here"),
        ({"client_id": "' or 1=1 --"}, "not registered here"),
        ({"redirect_uri": None}, "did not send a redirect URI"),
        ({"redirect_uri": "https://evil.example/<script>"}, "a redirect URI that is not registered"),
    ):
        for prompt in (None, "none"):
            answer = await browser.request("GET", scene.asking(**changes, prompt=prompt))
            is_page(answer, 400, words)
            assert b"<script>" not in answer.body
            assert b"evil" not in answer.body
    is_page(await browser.request("GET", f"{scene.asking()}&redirect_uri={CALLBACK}"), 400)
    is_page(await browser.request("GET", f"{scene.asking()}&client_id={scene.client_id(scene.app)}"), 400)
    scene.people.change("update all_services set deleted_at = now() where id = %s", scene.app.id)
    is_page(await browser.request("GET", scene.asking()), 400, "not registered here")


SECRETS: Final = {"state": "st-secret", "nonce": "no-secret", "login_hint": "hint@secret.example", "id_token_hint": "ey.secret.ey"}


def refusals(scene: Arriving) -> list[dict[str, Any]]:
    """The logged refusals since the last call, without the fields of every line."""
    entries = scene.log.events("authorization_refused")
    for entry in entries:
        assert not any("secret" in str(value) for value in entry.values()), entry
    kept = ("client_id", "redirect_uri", "scope", "response_type", "reason", "description")
    scene.log.entries.clear()
    return [{name: entry[name] for name in kept if name in entry} for entry in entries]


async def test_a_page_that_refuses_names_the_request_and_the_log_says_why(scene: Arriving, ada: Person) -> None:
    browser, client = scene.signed_in(ada), scene.client_id(scene.app)
    said = {"client_id": client, "redirect_uri": CALLBACK, "scope": "openid email", "response_type": "code"}
    for changes, reason, kept in (
        ({"client_id": "x" * 300}, "application_unknown", {**said, "client_id": "x" * 200}),
        ({"redirect_uri": f"{CALLBACK}/other?code=secret#secret"}, "redirect_unregistered", {**said, "redirect_uri": f"{CALLBACK}/other"}),
        ({"redirect_uri": None, "scope": "s" * 300}, "redirect_missing", {**said, "redirect_uri": None, "scope": "s" * 200}),
    ):
        answer = await browser.request("GET", scene.asking(**SECRETS, **changes))
        number = answer.header("x-request-id")
        assert number
        is_page(answer, 400, number)
        assert "settings" not in answer.body.decode()
        (entry,) = scene.log.events("authorization_refused")
        assert (entry["request_id"], entry["level"]) == (number, "info")
        (line,) = refusals(scene)
        assert line.pop("description")
        assert line == {**{name: value for name, value in kept.items() if value is not None}, "reason": reason}
    page = (await scene.client.get("/metrics")).body.decode()
    assert 'sso_authorizations_refused_total{reason="redirect_unregistered"} 1.0' in page
    assert 'sso_authorizations_refused_total{reason="login_required"} 0.0' in page


async def test_whoever_looks_after_an_application_is_led_to_its_failed_requests(scene: Arriving, ada: Person) -> None:
    """Nobody else learns that they exist, and nothing is added by a press (0233)."""
    failed = "/ui/o/acme/applications/app/refusals"
    globex = scene.tenants.add("globex")
    chief, admin = scene.resident(scene.acme, "owner"), scene.resident(scene.acme, "admin")
    owner = scene.signed_in(chief)
    others = (scene.resident(scene.acme, "member"), scene.resident(globex, "owner"), ada)
    browsers = {owner: True, **dict.fromkeys(map(scene.signed_in, others), False), scene.browser(): False}
    for changes in ({"redirect_uri": f"{CALLBACK}/other"}, {"redirect_uri": None}):
        for browser, sees in browsers.items():
            tab = await browser.tab().open(scene.asking(**changes))
            assert tab.status == 400
            assert (failed in tab.page.links, "View failed requests" in tab.page.text) == (sees, sees), changes
            assert not tab.page.forms, "nothing to press"
    tab = await owner.tab().open(scene.asking(client_id=str(uuid4()), redirect_uri="https://other.example/"))
    assert "View failed requests" not in tab.page.text
    # A role that is taken away, and an organization that is suspended, end it with the next request.
    browser = scene.signed_in(admin)
    wrong = scene.asking(redirect_uri="https://other.example/")
    assert failed in (await browser.tab().open(wrong)).page.links
    (await scene.request("PATCH", f"/api/organizations/acme/members/{admin.user}", {"role": "member"}, by=chief)).ok()
    assert failed not in (await browser.tab().open(wrong)).page.links
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    assert failed not in (await owner.tab().open(wrong)).page.links


async def test_what_an_application_is_told_is_in_the_log_too(scene: Arriving, ada: Person) -> None:
    browser, client = scene.signed_in(ada), scene.client_id(scene.app)
    said = {"client_id": client, "redirect_uri": CALLBACK, "scope": "openid email", "response_type": "code"}
    for changes, word in (
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"prompt": "none"}, "consent_required"),
        ({"claims": '{"secret"'}, "invalid_request"),
    ):
        answer = await browser.request("GET", scene.asking(**{**SECRETS, "id_token_hint": None, **changes}))
        told_of = told(answer)
        assert told_of["error"] == word
        (line,) = refusals(scene)
        expected = {**said, "response_type": changes.get("response_type", "code")}
        assert line == {**expected, "reason": word, "description": told_of["error_description"]}
    # Refusals that are found only after the person has done something.
    tab = await browser.tab().open(scene.asking(acr_values=TWO_FACTORS))
    assert refusals(scene) == []
    await tab.send(answer="allow")
    (line,) = refusals(scene)
    assert line == {**said, "reason": "unmet_authentication_requirements", "description": left(tab)["error_description"]}
    # A success, and a denial by the person, are no refusals of ours.
    tab = await browser.tab().open(scene.asking())
    await tab.send(answer="allow")
    assert refusals(scene) == []


async def test_a_closed_application_and_a_pushed_request_are_in_the_log(scene: Arriving, ada: Person) -> None:
    secret = scene.secret(scene.app)
    scene.log.remember(secret)
    asked = {"client_id": scene.client_id(scene.app), "client_secret": secret, "response_type": "code", "scope": "openid", **SECRETS}
    body = urlencode({**asked, "redirect_uri": "https://other.example/?secret"}).encode()
    answer = await scene.unlimited.request("POST", "/oauth/par", body=body, headers=[("content-type", "application/x-www-form-urlencoded")])
    assert answer.status == 400
    (line,) = refusals(scene)
    said = (scene.client_id(scene.app), "redirect_unregistered", "https://other.example/")
    assert (line["client_id"], line["reason"], line["redirect_uri"]) == said
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    answer = await scene.signed_in(ada).request("GET", scene.asking())
    assert answer.status == 403
    (line,) = refusals(scene)
    assert line["reason"] == "application_closed"


async def test_nobody_is_asked_where_nobody_may_be(scene: Arriving, ada: Person) -> None:
    assert told(await scene.browser().request("GET", scene.asking(prompt="none")))["error"] == "login_required"
    browser = scene.signed_in(ada, age=3600)

    async def error(**asked: Any) -> str | None:
        return told(await browser.request("GET", scene.asking(**{"prompt": "none", **asked}))).get("error")

    assert await error() == "consent_required"
    scene.allow(ada)
    assert await error() is None
    assert await error(scope="openid profile") == "consent_required"
    assert await error(max_age="10") == "login_required"
    assert await error(max_age="10000") is None
    assert await error(login_hint="bob@example.org") == "account_selection_required"
    assert await error(login_hint="Ada@example.org") is None
    assert await error(acr_values="http://schemas.openid.net/pape/policies/2007/06/multi-factor") == "unmet_authentication_requirements"
    assert await error(acr_values="http://schemas.openid.net/pape/policies/2007/06/multi-factor urn:postern:acr:one-factor") is None
    assert await error(acr_values="1 2") is None
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, '', now(), now())", ada.user)
    assert await error(acr_values="http://schemas.openid.net/pape/policies/2007/06/multi-factor") == "interaction_required"
    scene.set(scene.app, sign_in_policy="members")
    assert await error() == "access_denied"
    scene.set(scene.app, sign_in_policy="anyone")
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    assert await error() == "access_denied"
    assert scene.people.rows("select id from flows") == []


@pytest.mark.parametrize("asked", [{"prompt": "login"}, {"max_age": "0"}, {"max_age": "10"}, {"prompt": "login consent"}])
async def test_somebody_who_is_signed_in_may_have_to_do_it_again(scene: Arriving, asked: dict[str, Any]) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    scene.allow(person)
    tab = await scene.browser().tab().open("/ui/sign-in")
    await (await tab.send(email=person.email)).send(password=PASSWORD)
    scene.people.change("update sessions set proved_at = proved_at - interval '1 hour'")
    (before,) = scene.people.rows("select proved_at from sessions")
    await tab.open(scene.asking(**asked))
    assert tab.place.startswith("/ui/sign-in")
    # Nobody gets past this page by the address of the next page.
    flow = tab.place.partition("flow=")[2]
    other = await tab.tabs.tab().open(f"/ui/authorize?flow={flow}")
    assert other.place.startswith("/ui/sign-in")
    assert scene.codes() == []
    await tab.send(password=PASSWORD)
    if "consent" in asked.get("prompt", ""):
        assert tab.place.startswith("/ui/consent")
        await tab.send(answer="allow")
    code = scene.code(left(tab)["code"])
    assert code["auth_time"] > before["proved_at"] + timedelta(minutes=50)


async def test_the_id_token_of_a_person_says_who_is_expected(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    now = int(datetime.now(UTC).timestamp())

    async def hint(**claims: Any) -> str:
        return await scene.id_token(ada, exp=now - 9, iat=now - 99, **claims)

    for prompt in (None, "none"):
        assert "code" in told(await browser.request("GET", scene.asking(prompt=prompt, id_token_hint=await hint())))
    bob = scene.people.add("bob@example.org")
    of_bob = await hint(sub=str(bob.user))
    assert told(await browser.request("GET", scene.asking(prompt="none", id_token_hint=of_bob)))["error"] == "login_required"
    tab = await browser.tab().open(scene.asking(id_token_hint=of_bob))
    assert tab.place.startswith("/ui/sign-in")
    for wrong in (await hint(aud=scene.client_id(scene.desktop)), await hint(iss="https://evil.example"), (await hint())[:-8]):
        assert told(await browser.request("GET", scene.asking(id_token_hint=wrong)))["error"] == "invalid_request"
    token = await scene.people.token(ada, aud=scene.client_id(scene.app))
    assert told(await browser.request("GET", scene.asking(id_token_hint=token)))["error"] == "invalid_request"


async def test_who_signs_in_is_the_one_who_is_expected_or_nobody(scene: Arriving, ada: Person) -> None:
    bob = await scene.people.with_password(PASSWORD, "bob@example.org")
    tab = await scene.browser().tab().open(scene.asking(id_token_hint=await scene.id_token(ada)))
    await (await tab.send(email=bob.email)).send(password=PASSWORD)
    assert left(tab)["error"] == "login_required"
    assert scene.codes() == []


@pytest.mark.parametrize("by_claims", [False, True])
async def test_whoever_is_expected_signs_in_where_somebody_else_is_signed_in(scene: Arriving, ada: Person, *, by_claims: bool) -> None:
    bob = await scene.people.with_password(PASSWORD, "bob@example.org")
    scene.allow(bob)
    tab = scene.signed_in(ada).tab()

    async def asking(person: Person, **more: str) -> str:
        if by_claims:
            return scene.asking(claims=json.dumps({"id_token": {"sub": {"value": str(person.user)}}}), **more)
        return scene.asking(id_token_hint=await scene.id_token(person), **more)

    for hint in ({}, {"prompt": "login"}):
        await tab.open(await asking(bob, **hint))
        assert tab.place.startswith("/ui/sign-in?flow=")
        assert not tab.page.inputs["email"].get("value")
        assert ada.email not in tab.page.text
    # Ada herself would have had to give only her password.
    own = await tab.tabs.tab().open(await asking(ada, prompt="login"))
    assert own.place.startswith("/ui/sign-in/password?flow=")
    assert own.page.inputs["email"]["value"] == ada.email
    await (await tab.send(email=bob.email)).send(password=PASSWORD)
    assert scene.code(left(tab)["code"])["user_id"] == bob.user


async def test_a_person_chooses_the_account(scene: Arriving, ada: Person) -> None:
    bob = await scene.people.with_password(PASSWORD, "bob@example.org")
    scene.allow(ada)
    scene.allow(bob)
    for asked in ({"prompt": "select_account"}, {"login_hint": "bob@example.org"}):
        tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking(**asked))
        assert tab.place.startswith("/ui/choose-account?flow=")
        assert "Continue as ada@example.org" in tab.page.text
        await tab.send(answer="current")
        assert scene.code(left(tab)["code"])["user_id"] == ada.user
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking(prompt="select_account"))
    await tab.send(answer="another")
    assert tab.place.startswith("/ui/sign-in?flow=")
    await (await tab.send(email=bob.email)).send(password=PASSWORD)
    assert scene.code(left(tab)["code"])["user_id"] == bob.user


async def test_two_tabs_with_two_requests_do_not_disturb_each_other(scene: Arriving) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    other = scene.application(scene.acme, "other", "https://other.example.com/callback")
    tabs = scene.browser()
    one = await tabs.tab().open(scene.asking(state="one"))
    two = await tabs.tab().open(scene.asking(other, redirect_uri="https://other.example.com/callback", state="two"))
    await (await one.send(email=person.email)).send(password=PASSWORD)
    await two.send(email=person.email)
    if two.page.forms and "password" in two.page.inputs:
        await two.send(password=PASSWORD)
    for tab, name in ((two, "Other"), (one, "App")):
        await tab.open(tab.place)
        assert f"Allow {name} to access your account?" in tab.page.text
    await two.send(answer="allow")
    assert left(two, "https://other.example.com/callback")["state"] == "two"
    await one.send(answer="allow")
    said = left(one)
    assert said["state"] == "one"
    assert {(code["service_id"], code["redirect_uri"]) for code in scene.codes()} == {
        (scene.app.id, CALLBACK),
        (other.id, "https://other.example.com/callback"),
    }


@pytest.mark.parametrize(("asked", "answer"), [({}, "allow"), ({"prompt": "select_account"}, "current")])
async def test_whoever_signs_in_again_in_another_tab_still_gets_to_the_application(
    scene: Arriving, ada: Person, asked: dict[str, str], answer: str
) -> None:
    """The consent page belongs to its account, and leads to the choice of it. The page of the choice says whom it means."""
    bob = await scene.people.with_password(PASSWORD, "bob@example.org")
    tabs = scene.signed_in(ada)
    one = await tabs.tab().open(scene.asking(**asked))
    place, form = one.place, one.page.forms[0].fields
    two = await tabs.tab().open("/ui/sign-in?to=/ui&again=another")
    await (await two.send(email=bob.email)).send(password=PASSWORD)
    await one.send(answer=answer)
    if answer == "allow":
        is_page(one.shown, 409, "another account")
        assert (scene.codes(), one.page.links) == ([], [f"/ui/accounts?{urlencode({'to': place})}"])
        is_page((await tabs.tab().open(place)).shown, 409, "another account")
        await one.open(one.page.links[0])
        await one.send(account=choices(one)[ada.email])
        assert one.place == place
        assert one.page.forms[0].fields["form_token"] == form["form_token"]
    assert ada.email in one.page.text
    await one.send(answer="allow")
    assert scene.code(left(one)["code"])["user_id"] == ada.user
    assert bob.user not in {one["user_id"] for one in scene.codes()}


async def test_going_back_and_sending_twice_do_no_harm(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    consent, place = tab.shown, tab.place
    form = PageReader(consent.body).forms[0].fields
    await tab.send(answer="allow")
    left(tab)
    scene.people.change("update flows set completed_at = completed_at - interval '11 seconds'")
    for answer in ("allow", "deny"):
        is_page(await tab.tabs.request("POST", "/ui/consent", {**form, "answer": answer}), 400, "out of date")
    for stale in (place, place.replace("/ui/consent", "/ui/authorize")):
        is_page((await tab.tabs.tab().open(stale)).shown, 400, "out of date")
    assert len(scene.codes()) == 1


async def at_the_password(scene: Arriving) -> Callable[[], Awaitable[tuple[str, str]]]:
    """Each click sends the same form, with the earlier cookies, and gets a new cookie and an address."""
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    scene.allow(person)
    tab = await (await scene.browser().tab().open(scene.asking())).send(email=person.email)
    form, before = {**tab.page.forms[0].fields, "password": PASSWORD}, dict(tab.tabs.cookies)

    async def clicked() -> tuple[str, str]:
        again = scene.browser()
        again.cookies.update(before)
        answer = await again.request("POST", "/ui/sign-in/password", form)
        assert answer.status == 200, answer.body
        (cookie,) = [value for name, value in again.cookies.items() if name.endswith("session")]
        return cookie, PageReader(answer.body).refresh or ""

    return clicked


async def test_a_double_click_on_the_password_leads_to_the_application(scene: Arriving) -> None:
    """After a double click, a browser drops the first answer and its cookie."""
    clicked = await at_the_password(scene)
    (cookie, first), (again, second) = await clicked(), await clicked()
    assert cookie == again
    codes = [parse_qs(urlsplit(place).query)["code"][0] for place in (first, second)]
    assert len(set(codes)) == len(scene.codes()) == 2
    assert len(scene.people.rows("select from sessions where parent_id is null")) == 1
    assert {one for one, _ in await all_at_once(*[clicked] * 5)} == {cookie}


async def test_a_double_click_leads_to_an_application_that_wants_a_form(scene: Arriving) -> None:
    """The second click may come while the answer to the first is under way."""
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    scene.allow(person)
    tab = await (await scene.browser().tab().open(scene.asking(response_mode="form_post"))).send(email=person.email)
    form, before = {**tab.page.forms[0].fields, "password": PASSWORD}, dict(tab.tabs.cookies)
    codes = set()
    for _ in range(2):
        clicked = scene.browser()
        clicked.cookies.update(before)
        answer = await clicked.request("POST", "/ui/sign-in/password", form)
        codes.add(posted(await clicked.request("GET", answer.header("location") or ""))["code"])
    assert len(codes) == len(scene.codes()) == 2


async def test_double_clicks_at_the_same_moment_all_lead_to_the_application(scene: Arriving) -> None:
    clicks = await all_at_once(*[await at_the_password(scene)] * 6)
    assert all("code=" in place for _, place in clicks)


async def test_who_is_signed_in_keeps_that_when_the_application_is_closed(scene: Arriving) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    tab = await (await scene.browser().tab().open(scene.asking())).send(email=person.email)
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    await tab.send(password=PASSWORD)
    is_page(tab.shown, 403, "currently not available")
    assert (await tab.tabs.request("GET", "/ui")).status == 200


async def test_the_session_that_ends_meanwhile_gets_nothing(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    told(await browser.request("GET", scene.asking()))
    scene.people.change("update sessions set revoked_at = now() where id = %s", ada.session)
    assert told(await browser.request("GET", scene.asking(prompt="none")))["error"] == "login_required"
    scene.people.change("update sessions set revoked_at = null where id = %s", ada.session)
    scene.people.change("update users set deactivated_at = now() where id = %s", ada.user)
    assert told(await browser.request("GET", scene.asking(prompt="none")))["error"] == "login_required"
    assert len(scene.codes()) == 1


async def test_a_redirect_uri_that_is_gone_meanwhile_gets_nothing(scene: Arriving, ada: Person) -> None:
    """It gets neither a code nor an error, whatever the person does on a page that was open already."""
    tab = scene.signed_in(ada).tab()
    for way in ("allow", "deny", "look again", "go on"):
        scene.set(scene.app, redirect_uris=[CALLBACK])
        await tab.open(scene.asking())
        assert tab.place.startswith("/ui/consent?flow=")
        scene.set(scene.app, redirect_uris=["https://app.example.com/new"])
        match way:
            case "look again":
                await tab.open(tab.place)
            case "go on":
                await tab.open(tab.place.replace("/ui/consent", "/ui/authorize"))
            case _:
                await tab.send(answer=way)
        is_page(tab.shown, 400, "a redirect URI that is not registered")
    assert scene.codes() == scene.people.rows("select * from consents") == []
    # A redirect URI that is registered again works again.
    scene.set(scene.app, redirect_uris=[CALLBACK])
    left(await (await tab.open(tab.place.replace("/ui/authorize", "/ui/consent"))).send(answer="allow"))


@pytest.mark.parametrize("asked", [{}, {"prompt": "login"}, {"response_mode": "form_post"}])
async def test_nobody_signs_in_to_a_redirect_uri_that_is_gone_meanwhile(scene: Arriving, asked: dict[str, Any]) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    scene.allow(person)
    tab = await (await scene.browser().tab().open(scene.asking(**asked))).send(email=person.email)
    scene.set(scene.app, redirect_uris=["https://app.example.com/new"])
    await tab.send(password=PASSWORD)
    is_page(tab.shown, 400, "a redirect URI that is not registered")
    assert scene.codes() == []


async def test_a_chosen_account_does_not_lead_to_a_redirect_uri_that_is_gone_meanwhile(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    tab = await scene.signed_in(ada).tab().open(scene.asking(prompt="select_account"))
    scene.set(scene.app, redirect_uris=["https://app.example.com/new"])
    is_page((await tab.send(answer="current")).shown, 400, "a redirect URI that is not registered")
    assert scene.codes() == []


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_any_port_of_the_device_counts_while_its_address_is_registered(scene: Arriving, ada: Person, answer: str) -> None:
    browser, uri = scene.signed_in(ada), "http://127.0.0.1:51004/callback"
    tab = await browser.tab().open(scene.asking(scene.desktop, redirect_uri=uri))
    scene.set(scene.desktop, redirect_uris=["http://127.0.0.1:1/callback"])
    left(await tab.send(answer=answer), uri)
    tab = await browser.tab().open(scene.asking(scene.desktop, redirect_uri=uri))
    scene.set(scene.desktop, redirect_uris=["http://127.0.0.1/other", "http://localhost/callback"])
    is_page((await tab.send(answer=answer)).shown, 400, "a redirect URI that is not registered")


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_a_service_that_is_gone_meanwhile_is_told_nothing(scene: Arriving, ada: Person, answer: str) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    scene.people.change("update all_services set deleted_at = now() where id = %s", scene.app.id)
    is_page((await tab.send(answer=answer)).shown, 400, "not registered here")


async def test_a_refusal_waits_five_times_for_the_database(scene: Arriving, ada: Person) -> None:
    """The session, the flow, the service, the end of the flow, and the commit."""
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    assert left(await tab.send(answer="deny"))["error"] == "access_denied"
    (*_, request) = scene.log.events("request")
    assert (request["method"], request["route"], request["db_round_trips"]) == ("POST", "/ui/consent", 5)


@pytest.mark.parametrize(("asked", "page"), [({}, "/ui/consent"), ({"prompt": "select_account"}, "/ui/choose-account")])
@pytest.mark.parametrize("answer", ["first", "another"])
async def test_a_session_that_ends_on_the_way_does_not_lose_the_application(
    scene: Arriving, asked: dict[str, Any], page: str, answer: str
) -> None:
    """The form of the page leads back to the application, as the page's address does."""
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    tab = await scene.signed_in(scene.people.session_of(person)).tab().open(scene.asking(**asked))
    place = tab.place
    assert place.startswith(f"{page}?flow=")
    first = "allow" if page == "/ui/consent" else "current"
    scene.people.change("update sessions set revoked_at = now()")
    await tab.send(answer=first if answer == "first" else answer)
    chose = page != "/ui/consent"
    flow = place.partition("?")[2]
    assert tab.place == (f"/ui/sign-in?{flow}" if chose else f"/ui/sign-in?to={quote(place, safe='/')}")
    await (await tab.send(email=person.email)).send(password=PASSWORD)
    # The sign-in was for this request, so it has chosen the account.
    assert tab.place == (f"/ui/consent?{flow}" if chose else place)
    await tab.send(answer="allow")
    assert scene.code(left(tab)["code"])["user_id"] == person.user


async def test_an_application_of_a_suspended_organization_is_closed(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    for status in ("suspended", "pending", "rejected"):
        scene.people.change("update all_organizations set status = %s where id = %s", status, scene.acme.id)
        for browser in (scene.browser(), scene.signed_in(scene.people.session_of(ada))):
            is_page(await browser.request("GET", scene.asking()), 403, "owner of the organization")
    assert scene.codes() == []


async def test_an_application_for_people_with_a_role_says_who_can_help(scene: Arriving, ada: Person) -> None:
    scene.set(scene.app, sign_in_policy="assigned")
    scene.tenants.join(ada, scene.acme)
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking())
    assert tab.status == 403
    for words in ("You have no role in App", "ada@example.org", "Ask an administrator of Acme for a role"):
        assert words in tab.page.text
    scene.tenants.assign(scene.app, user_id=ada.user)
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking())
    assert "Allow App" in tab.page.text


async def test_an_application_for_members_says_who_can_help(scene: Arriving, ada: Person) -> None:
    scene.set(scene.app, sign_in_policy="members")
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    assert tab.status == 403
    for words in ("Only members of Acme", "ada@example.org", "Ask an administrator of the organization to invite you"):
        assert words in tab.page.text
    await tab.send(answer="deny")
    assert left(tab)["error"] == "access_denied"
    assert scene.codes() == []
    scene.tenants.join(ada, scene.acme)
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking())
    assert "Allow App" in tab.page.text


async def test_an_organization_that_trusts_its_application_answers_for_its_members(scene: Arriving, ada: Person) -> None:
    scene.set(scene.app, trusted=True)
    browser = scene.signed_in(ada)
    assert told(await browser.request("GET", scene.asking(prompt="none")))["error"] == "consent_required"
    scene.tenants.join(ada, scene.acme)
    told(await browser.request("GET", scene.asking(prompt="none")))
    assert scene.people.rows("select * from consents") == []
    # A program on the device could be any program.
    scene.set(scene.desktop, trusted=True)
    for uri in ("http://127.0.0.1:51004/callback", "com.example.app:/callback"):
        scene.allow(ada, scene.desktop) if uri.startswith("http") else None
        said = told(await browser.request("GET", scene.asking(scene.desktop, redirect_uri=uri, prompt="none")), uri)
        assert said["error"] == "consent_required"
        tab = await browser.tab().open(scene.asking(scene.desktop, redirect_uri=uri))
        assert "Continue only if you just started it yourself." in tab.page.text
        await tab.send(answer="allow")
        assert scene.code(left(tab, uri)["code"])["redirect_uri"] == uri


async def test_a_client_with_a_secret_may_do_without_pkce(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    browser = scene.signed_in(ada)
    without = scene.asking(code_challenge=None, code_challenge_method=None)
    assert told(await browser.request("GET", without))["error"] == "invalid_request"
    scene.secret(scene.app)
    assert scene.code(told(await browser.request("GET", without))["code"])["code_challenge"] is None


async def test_a_server_that_cannot_redeem_a_code_is_refused_before_anybody_signs_in(scene: Arriving, ada: Person) -> None:
    """Unlike a web application, which may run in the browser, a server must authenticate."""
    backend = scene.application(scene.acme, "backend", CALLBACK, kind="api")
    for browser in (scene.browser(), scene.signed_in(ada)):
        for prompt in (None, "none"):
            said = told(await browser.request("GET", scene.asking(backend, prompt=prompt)))
            assert (said["error"], said["state"]) == ("unauthorized_client", "a b&c")
    assert scene.people.rows("select id from flows") == []
    assert scene.codes() == []
    scene.secret(backend)
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking(backend))
    assert "Allow Backend" in tab.page.text
    # Nor by continuing a request that has begun.
    scene.people.change("delete from client_secrets")
    await tab.send(answer="allow")
    assert left(tab)["error"] == "unauthorized_client"
    assert scene.codes() == []
    scene.set(backend, jwks='{"keys": []}')
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking(backend))
    assert "Allow Backend" in tab.page.text


async def test_parameters_that_nobody_knows_are_ignored(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    more = urlencode({"extra": "foobar", "display": "popup", "claims_locales": "se", "ui_locales": "se", "resource": "a"})
    told(await scene.signed_in(ada).request("GET", f"{scene.asking()}&{more}&resource=b&extra=twice"))


async def test_a_second_factor_is_asked_of_whoever_has_one(scene: Arriving) -> None:
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    totp = await enable_mfa(scene.unlimited, scene.people, person)
    scene.allow(person)
    two = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
    browser = scene.signed_in(scene.people.session_of(person))
    told(await browser.request("GET", scene.asking()))
    tab = await browser.tab().open(scene.asking(acr_values=two))
    assert tab.place.startswith("/ui/sign-in")
    await tab.send(password=PASSWORD)
    assert "second-factor" in tab.place
    await tab.send(code=totp.now())
    assert "mfa" in scene.code(left(tab)["code"])["authenticated_by"]
    # The second factor has been shown in this session now.
    told(await browser.request("GET", scene.asking(acr_values=two, prompt="none")))


async def test_a_newcomer_may_be_led_to_an_account_of_their_own(scene: Arriving, ada: Person) -> None:
    for browser in (scene.browser(), scene.signed_in(ada)):
        tab = await browser.tab().open(scene.asking(prompt="create"))
        assert tab.place.startswith("/ui/register?flow=")
        assert tab.status == 200
    assert scene.codes() == []


async def test_a_newcomer_who_confirms_their_address_gets_on_to_the_application(scene: Arriving) -> None:
    """The person gets on in the tab that the mail opens."""
    browser = scene.browser()
    tab = await browser.tab().open(scene.asking(prompt="create"))
    await tab.send(email="bob@example.org", password=PASSWORD)
    link = await Postbox(scene.postern).link()
    scene.log.remember(token_in(link))
    mailed = await (await browser.tab().open(link.removeprefix(BASE_URL))).send()
    assert "is verified" in mailed.page.text
    await mailed.open(mailed.page.links[-1])
    assert mailed.page.inputs["email"]["value"] == "bob@example.org"
    await mailed.send(password=PASSWORD)
    assert scene.code(left(await mailed.send(answer="allow"))["code"])


async def test_what_was_pushed_and_never_fetched_is_swept(scene: Arriving) -> None:
    scene.people.change(
        "insert into pushed_requests (id, digest, service_id, request, expires_at) select gen_random_uuid(), sha256(n::text::bytea), %s,"
        " '{}', now() - interval '1 hour' + n * interval '1 minute' from generate_series(-2, 1) as n",
        scene.app.id,
    )
    (sweep,) = [
        one
        for one in sweeps(
            scene.postern.foundation.pool,
            login_event_retention=timedelta(days=1),
            delivery_retention=timedelta(days=1),
            event_retention=timedelta(days=90),
        )
        if one.name == "ExpiredPushedRequests"
    ]
    assert await sweep.delete_expired(2) == 2
    assert await sweep.delete_expired(100) == 1
    assert len(scene.people.rows("select * from pushed_requests")) == 1


async def test_every_page_for_an_application_speaks_the_language_that_it_asks_for(scene: Arriving, ada: Person) -> None:
    """A page before any flow does, too."""
    scene.allow(ada)
    browser = scene.signed_in(ada)

    async def is_german(**asked: str) -> None:
        answer = await browser.request("GET", scene.asking(ui_locales="xx de", **asked))
        assert answer.header("content-language") == "de", asked

    await is_german(response_mode="form_post")
    await is_german(redirect_uri="https://other.example")
    await is_german(client_id="app")
    scene.people.change("update organizations set status = 'suspended'")
    await is_german()


@pytest.mark.parametrize(
    ("wished", "said"), [({}, "de"), ({"ui_locales": "pl ar"}, "ar"), ({"ui_locales": "pl"}, "de"), ({"ui_locales": "sv de-AT"}, "de")]
)
async def test_pages_for_an_application_speak_a_language_of_its_organization(
    wished: dict[str, str], said: str, scene: Arriving, ada: Person
) -> None:
    scene.people.change("update organizations set languages = 'de,ar'")
    for browser in (scene.browser(), scene.signed_in(ada)):
        browser.language = "pl"
        tab = await browser.tab().open(scene.asking(**wished))
        assert tab.status == 200
        assert tab.shown.header("content-language") == said
        assert f'<html lang="{said}"'.encode() in tab.shown.body
