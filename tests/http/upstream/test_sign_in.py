"""Signing in through each provider, to each place that a sign-in leads to."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from entrypoints.http.machinery.limits import AUTH
from tests.http.browsing import Tabs
from tests.http.federation.arriving import CALLBACK, CHALLENGE, VERIFIER, answer_in, is_page
from tests.http.people import BASE_URL
from tests.http.signing_in import PASSWORD, enable_mfa
from tests.http.upstream.scene import ADA, UpstreamScene


@pytest.mark.parametrize("word", ["codehost", "websuite", "officesuite"])
async def test_somebody_new_gets_an_account_and_comes_back_to_it(scene: UpstreamScene, word: str) -> None:
    fake = scene.sits(word=word)
    tabs = scene.browser()
    answer = await scene.go(tabs, word=word)
    assert (answer.status, answer.header("location")) == (303, "/ui")
    (user,) = scene.people.rows(
        "select id, email, password_hash, email_verified_at is not null as verified from users where email = %s", ADA
    )
    assert (user["password_hash"], user["verified"]) == (None, True)
    assert await scene.who(tabs) == user["id"]
    (identity,) = scene.identities()
    subject = {"codehost": "583231", "websuite": "110169484474386276334"}.get(word, f"{fake.person.get('tid')}:{fake.person.get('oid')}")
    assert (identity["user_id"], identity["provider"], identity["subject"], identity["email"]) == (user["id"], word, subject, ADA)
    again = scene.browser()
    await scene.go(again, word=word)
    assert await scene.who(again) == user["id"]
    assert len(scene.identities()) == 1
    assert scene.people.rows("select provider, success from login_events") == [{"provider": word, "success": True}] * 2
    assert scene.people.rows("select from oauth_states where used_at is null") == []


async def test_an_application_gets_a_code_and_exchanges_it(scene: UpstreamScene) -> None:
    scene.sits()
    answer = await scene.go(scene.browser(), scene.direct())
    assert answer.status == 302
    told = answer_in(answer.header("location"))
    assert told["state"] == "a b&c"
    form = {
        "grant_type": "authorization_code",
        "code": told["code"],
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
        "client_id": scene.client_id(scene.app),
    }
    tokens = (await scene.unlimited.post("/auth/token", form)).ok()
    profile = (await scene.unlimited.get("/api/user", token=tokens["access_token"])).ok()
    assert (profile["email"], profile["org"], profile["service"]) == (ADA, "acme", "app")
    events = scene.people.rows("select provider, organization_id is not null as there from login_events order by id")
    assert events == [{"provider": "websuite", "there": False}, {"provider": "websuite", "there": True}]


async def test_the_organization_learns_through_which_provider_somebody_came_to_an_ordinary_client(scene: UpstreamScene) -> None:
    """Tried by `/oauth/authorize`, and with a code that the application's server exchanges."""
    fake, tabs = scene.sits(), scene.browser()
    tab = await tabs.tab().open(scene.asking())
    link = next(link for link in tab.page.links if link.startswith("/auth/websuite"))
    left_for = (await tabs.request("GET", link)).header("location")
    assert left_for is not None
    back = await tabs.request("GET", fake.consent(left_for))
    tab = await tabs.tab().open(back.header("location") or "")
    assert tab.place.startswith("/ui/consent")
    tab = await tab.send(answer="allow")
    for place, provider in ((tab.page.refresh, "websuite"), ((await tabs.request("GET", scene.asking())).header("location"), "session")):
        form = {
            "grant_type": "authorization_code",
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            "client_id": scene.client_id(scene.app),
        }
        (await scene.unlimited.post("/auth/token", {**form, "code": answer_in(place)["code"]})).ok()
        events = scene.people.rows("select provider from login_events where organization_id = %s order by id", scene.acme.id)
        assert events[-1]["provider"] == provider


async def test_a_challenge_without_a_method_is_one_of_the_only_method(scene: UpstreamScene) -> None:
    scene.sits()
    told = answer_in((await scene.go(scene.browser(), scene.direct(code_challenge_method=""))).header("location"))
    form = {"grant_type": "authorization_code", "code": told["code"], "redirect_uri": CALLBACK, "client_id": scene.client_id(scene.app)}
    refused = await scene.unlimited.post("/auth/token", {**form, "code_verifier": CHALLENGE})
    assert (refused.status, refused.json()["error"]) == (400, "invalid_grant")
    (await scene.unlimited.post("/auth/token", {**form, "code_verifier": VERIFIER})).ok()


async def test_an_application_whose_tokens_are_bound_gets_none_in_the_fragment(scene: UpstreamScene) -> None:
    """Nobody is sent to the provider for what could not be given."""
    scene.sits()
    scene.set(scene.app, dpop_bound_access_tokens=True)
    query = scene.direct(code_challenge="", code_challenge_method="")
    answer = await scene.browser().request("GET", f"/auth/websuite{query}")
    is_page(answer, 400)
    assert "code" in answer_in((await scene.go(scene.browser(), scene.direct())).header("location"))


async def test_without_a_challenge_a_web_application_gets_the_tokens_in_the_fragment(scene: UpstreamScene) -> None:
    scene.sits()
    query = scene.direct(code_challenge="", code_challenge_method="")
    answer = await scene.go(scene.browser(), query)
    assert answer.status == 302
    place, _, fragment = (answer.header("location") or "").partition("#")
    assert place == CALLBACK
    told = dict(parse_qsl(fragment, strict_parsing=True))
    assert set(told) == {"access_token", "refresh_token", "token_type", "expires_in", "state", "iss"}
    assert (told["token_type"], told["expires_in"], told["state"], told["iss"]) == ("Bearer", "900", "a b&c", BASE_URL)
    assert (await scene.unlimited.get("/api/user", token=told["access_token"])).ok()["service"] == "app"
    # An application with a secret gets a code instead.
    secret = scene.secret(scene.app)
    told = dict(answer_in((await scene.go(scene.browser(), query)).header("location")))
    form = {"grant_type": "authorization_code", "code": told["code"], "redirect_uri": CALLBACK}
    named = {"client_id": scene.client_id(scene.app), "client_secret": secret}
    (await scene.unlimited.post("/auth/token", {**form, **named})).ok()


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": f"{CALLBACK}/"},
        {"code_challenge_method": "plain"},
        {"code_challenge": "short"},
        {"code_challenge": ""},
        {"code_challenge": "short", "code_challenge_method": ""},
        {"state": "\x00"},
        {"service": "desktop", "redirect_uri": "com.example.app:/callback", "code_challenge": "", "code_challenge_method": ""},
        {"org": ""},
    ],
)
async def test_what_is_wrong_is_a_page_and_no_redirect(scene: UpstreamScene, changes: dict[str, str]) -> None:
    service = changes.pop("service", "app")
    is_page(await scene.browser().request("GET", f"/auth/websuite{scene.direct(service, **changes)}"), 400)
    assert scene.people.rows("select from oauth_states") == []


async def test_a_server_that_cannot_redeem_a_code_gets_none(scene: UpstreamScene) -> None:
    scene.application(scene.acme, "backend", CALLBACK, kind="api")
    scene.sits()
    is_page(await scene.browser().request("GET", f"/auth/websuite{scene.direct('backend')}"), 400)
    assert scene.people.rows("select from oauth_states") == []
    # Tokens are something else.
    answer = await scene.go(scene.browser(), scene.direct("backend", code_challenge="", code_challenge_method=""))
    assert "access_token=" in (answer.header("location") or "").partition("#")[2]


async def test_unknown_places_and_providers(scene: UpstreamScene) -> None:
    tabs = scene.browser()
    is_page(await tabs.request("GET", f"/auth/websuite{scene.direct(service='nothing')}"), 404)
    is_page(await tabs.request("GET", f"/auth/websuite{scene.direct(org='nothing')}"), 404)
    is_page(await tabs.request("GET", "/auth/websuite?org=nothing"), 404)
    # As a draft does (0210), which `tests/security/providers/test_drafts.py` compares.
    is_page(await tabs.request("GET", "/auth/nothing"), 404)
    is_page(await tabs.request("GET", f"/auth/{scene.postern.foundation.ids.new()}"), 400)
    is_page(await tabs.request("GET", "/auth/websuite?saml_state=x"), 400)
    is_page(await tabs.request("GET", "/auth/websuite?user_code=ABCD-EFGH"), 404)
    scene.people.change("update all_organizations set status = 'suspended'")
    is_page(await tabs.request("GET", f"/auth/websuite{scene.direct()}"), 403)


async def test_who_leaves_for_a_provider_counts_with_all_of_auth(scene: UpstreamScene) -> None:
    """The bucket lets its capacity through, and a few more as time passes."""
    tabs = Tabs(scene.client)
    for left in range(3 * AUTH.burst):
        answer = await tabs.request("GET", "/auth/websuite")
        if answer.status == 429:
            assert left >= AUTH.burst
            assert answer.header("retry-after") == "1"
            return
        assert answer.status == 302
    raise AssertionError("nothing is limited here")


async def test_the_first_registered_address_is_the_default(scene: UpstreamScene) -> None:
    scene.sits()
    answer = await scene.go(scene.browser(), scene.direct(redirect_uri=""))
    assert answer_in(answer.header("location"))["code"]
    scene.set(scene.app, redirect_uris=[])
    is_page(await scene.browser().request("GET", f"/auth/websuite{scene.direct(redirect_uri='')}"), 400)


async def test_a_request_that_waits_on_our_pages_goes_on(scene: UpstreamScene) -> None:
    scene.sits()
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking())
    (button,) = [link for link in tab.page.links if link.startswith("/auth/websuite")]
    assert "Continue with Google" in tab.page.text
    answer = await scene.go(tabs, button.removeprefix("/auth/websuite"))
    assert (answer.status, (answer.header("location") or "").partition("?")[0]) == (303, "/ui/consent")
    tab = await tabs.tab().open(answer.header("location") or "")
    await tab.send(answer="allow")
    assert answer_in(tab.page.refresh)["code"]


async def test_a_device_is_let_in_on_the_page_that_follows(scene: UpstreamScene) -> None:
    scene.sits()
    asked = (
        await scene.unlimited.post("/auth/device/code", {"client_id": scene.client_id(scene.desktop), "org": "acme", "service": "desktop"})
    ).ok()
    tabs = scene.browser()
    answer = await scene.go(tabs, f"?user_code={asked['user_code']}")
    tab = await tabs.tab().open(answer.header("location") or "")
    assert tab.place.startswith("/ui/device/decision")
    assert asked["user_code"] in tab.page.text


async def test_a_page_of_the_application_learns_which_providers_a_device_can_be_approved_by(scene: UpstreamScene) -> None:
    told = {"client_id": scene.client_id(scene.desktop), "org": "acme", "service": "desktop"}
    code = {"user_code": (await scene.unlimited.post("/auth/device/code", told)).ok()["user_code"]}
    three = ["password", "codehost", "websuite", "officesuite"]
    assert (await scene.unlimited.post("/auth/device/verify", code)).ok()["available_providers"] == three
    own = await scene.own_provider()
    found = await scene.unlimited.post("/auth/device/verify", code)
    assert found.ok() == {"org_slug": "acme", "service_slug": "desktop", "available_providers": [*three, own]}
    assert scene.log.events("request")[-1]["db_round_trips"] == 2
    scene.people.change("update upstream_providers set enabled = false")
    assert (await scene.unlimited.post("/auth/device/verify", code)).ok()["available_providers"] == three


async def test_a_second_factor_is_asked_for_and_then_the_outcome_is_the_same(scene: UpstreamScene) -> None:
    ada = scene.verified()
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    scene.sits()
    tabs = scene.browser()
    answer = await scene.go(tabs, scene.direct())
    assert (answer.status, tabs.session) == (303, None)
    tab = await tabs.tab().open(answer.header("location") or "")
    assert tab.place.startswith("/ui/sign-in/second-factor")
    await tab.send(code=totp.now(), trust_device="yes")
    assert answer_in(tab.page.refresh)["code"]
    assert await scene.who(tabs) == ada.user
    # The device is trusted: the provider alone is enough now.
    tabs.cookies.pop("__Host-postern_session")
    answer = await scene.go(tabs, scene.direct())
    assert answer_in(answer.header("location"))["code"]


async def test_where_a_page_was_wanted_it_leads_there(scene: UpstreamScene) -> None:
    scene.sits()
    answer = await scene.go(scene.browser(), "?to=/ui/devices")
    assert answer.header("location") == "/ui/devices"
    answer = await scene.go(scene.browser(), "?to=https://evil.example")
    assert answer.header("location") == "/ui"


async def test_what_the_provider_is_asked(scene: UpstreamScene) -> None:
    fake = scene.sits()
    await scene.go(scene.browser(), f"{scene.direct()}&login_hint={ADA}")
    asked = fake.asked
    assert (asked["login_hint"], asked["prompt"]) == (ADA, "select_account")
    assert asked["redirect_uri"] == f"{BASE_URL}/auth/websuite/callback"
    assert asked["scope"] == "openid email profile"
    assert len(asked["state"]) == 43
    assert asked["code_challenge"] != CHALLENGE
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3


async def test_pages_offer_only_what_works(scene: UpstreamScene) -> None:
    tab = await scene.browser().tab().open("/ui/sign-in")
    assert [link for link in tab.page.links if link.startswith("/auth/")] == ["/auth/codehost", "/auth/websuite", "/auth/officesuite"]
    tab = await scene.browser().tab().open("/ui/sign-in?to=/ui/devices")
    assert "/auth/codehost?to=%2Fui%2Fdevices" in tab.page.links
    provider = await scene.own_provider()
    tab = await scene.browser().tab().open(scene.asking())
    assert [urlsplit(link).path for link in tab.page.links if link.startswith("/auth/")][-1] == f"/auth/{provider}"
    scene.people.change("update upstream_providers set enabled = false")
    tab = await scene.browser().tab().open(scene.asking())
    assert not any(provider in link for link in tab.page.links)


@pytest.mark.parametrize("mode", ["code", "fragment"])
async def test_whoever_gets_in_with_a_password_on_the_way_of_an_applications_own_page_is_asked_for_consent(
    scene: UpstreamScene, mode: str
) -> None:
    """Choosing an account at the provider counts as consent, but here the client does not work, so nobody has chosen one."""
    await scene.people.with_password(PASSWORD, ADA)
    fake = scene.sits()
    tabs = scene.browser()
    changes = {} if mode == "code" else {"code_challenge": "", "code_challenge_method": ""}
    place = fake.consent(await scene.leave(tabs, scene.direct(**changes)))
    fake.fails = True
    tab = await tabs.tab().open(place)
    tab = await tab.send(email=ADA)
    tab = await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/consent")
    assert scene.people.rows("select from consents") == []
    # Nor does going back help.
    back = await tabs.request("GET", f"/auth/websuite?flow={tab.place.partition('flow=')[2]}")
    assert (back.header("location") or "").startswith("/ui/consent")
    assert scene.people.rows("select from consents") == []
    tab = await tab.send(answer="allow")
    assert ("code=" if mode == "code" else "#access_token=") in tab.page.refresh
    assert len(scene.people.rows("select from consents")) == 1
    events = scene.people.rows("select provider from login_events where organization_id is not null")
    assert {row["provider"] for row in events} <= {"password"}


async def test_the_organization_sees_through_which_provider_somebody_came_and_that_they_failed(scene: UpstreamScene) -> None:
    scene.sits()
    ada = scene.people.proved(ADA)
    scene.tenants.join(ada, scene.acme)
    await scene.go(scene.browser(), scene.direct())
    scene.people.change("update users set deactivated_at = now() where id = %s", ada.user)
    await scene.go(scene.browser(), scene.direct())
    rows = scene.people.rows("select provider, reason, organization_id from login_events where service_id = %s order by id", scene.app.id)
    place = {"provider": "websuite", "organization_id": scene.acme.id}
    assert rows == [{**place, "reason": None}, {**place, "reason": "deactivated"}]
