"""An application, or an organization's frontend, asks to connect an identity. Only the person can answer."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.http.browsing import Tab, Tabs
from tests.http.client import refused
from tests.http.federation.arriving import CALLBACK, VERIFIER, answer_in, is_page, left
from tests.http.people import BASE_URL, Person
from tests.http.postbox import Postbox, code_in
from tests.http.routing import route
from tests.http.signing_in import PASSWORD
from tests.http.upstream.scene import ADA, CONNECTIONS, UpstreamScene, told_in
from tests.http.upstream.test_races import looking_meanwhile

OUT_OF_DATE = "This page is out of date"
EVIL = "https://evil.example/callback"


@pytest.fixture
def ada(scene: UpstreamScene) -> Person:
    """She has just signed in."""
    ada = scene.people.add(ADA)
    scene.people.change("update users set email_verified_at = now(), password_hash = 'x' where id = %s", ada.user)
    return ada


async def link(scene: UpstreamScene, token: str, word: str = "websuite", **headers: str) -> Any:
    return await scene.unlimited.post(f"/api/user/identities/{word}/link", token=token, headers=list(headers.items()))


async def asked(scene: UpstreamScene, token: str, word: str = "websuite", **headers: str) -> str:
    """The address of the page on which the person answers."""
    answer = await link(scene, token, word, **headers)
    address: str = answer.ok()["authorization_url"]
    assert address.startswith(f"{BASE_URL}/ui/connect/{word}/")
    assert answer.header("set-cookie") is None
    return address.removeprefix(BASE_URL)


async def in_application(scene: UpstreamScene, person: Person) -> str:
    token = await scene.tenants.token_in(person, scene.app)
    scene.people.change("update sessions set proved_at = now()")
    return token


def states(scene: UpstreamScene) -> list[dict[str, Any]]:
    return scene.people.rows("select user_id, session_id, asked_in from oauth_states")


async def pressed(tabs: Tabs, place: str) -> Tab:
    tab = await tabs.tab().open(place)
    assert tab.status == 200, tab.page.text
    return await tab.send()


@pytest.mark.parametrize("owner", [False, True])
async def test_an_application_that_somebody_signs_in_to_cannot_take_over_their_account(scene: UpstreamScene, owner: bool) -> None:
    evil = scene.tenants.add("evil")
    application = scene.application(evil, "game", EVIL)
    ada = await scene.people.with_password(PASSWORD, ADA)
    scene.people.change("update users set is_platform_owner = %s where id = %s", owner, ada.user)
    adas = scene.browser()
    tab = await adas.tab().open(scene.asking(application, redirect_uri=EVIL, scope="openid"))
    tab = await tab.send(email=ADA)
    tab = await tab.send(password=PASSWORD)
    tab = await tab.send(answer="allow")
    form = {
        "grant_type": "authorization_code",
        "code": left(tab, EVIL)["code"],
        "redirect_uri": EVIL,
        "client_id": scene.client_id(application),
        "code_verifier": VERIFIER,
    }
    headers = [("content-type", "application/x-www-form-urlencoded")]
    given = await scene.unlimited.request("POST", "/auth/token", body=urlencode(form).encode(), headers=headers)
    fake = scene.sits("mallory@gmail.com", sub="mallory")
    place = await asked(scene, given.ok()["access_token"])
    assert states(scene) == [], "nothing is on its way before she presses the button"
    # Neither the application's server nor Mallory gets beyond the page, which is Ada's.
    mallory = scene.people.add("mallory@gmail.com")
    scene.people.change("update users set email_verified_at = now() where id = %s", mallory.user)
    mallorys = scene.signed_in(mallory)
    assert ((await scene.browser().request("GET", place)).header("location") or "").startswith("/ui/sign-in?to=")
    is_page(await mallorys.request("GET", place), 403, "This request is for another account")
    own = await mallorys.tab().open("/ui/settings/connections/websuite/connect")
    token = next(form.fields["form_token"] for form in own.page.forms if "form_token" in form.fields)
    is_page(await mallorys.request("POST", place, {"form_token": token}), 403, "This request is for another account")
    assert states(scene) == []
    # Ada presses the button, and Mallory gets hold of all that her browser then has in its address line.
    tab = await pressed(adas, place)
    back = fake.consent(tab.page.refresh)
    await scene.leave(mallorys)
    is_page(await mallorys.request("GET", back), 400, OUT_OF_DATE)
    # Mallory's code does not work in Ada's browser either, since it was made for another challenge.
    state = dict(parse_qsl(urlsplit(back).query))["state"]
    theirs = scene.browser()
    fake.consent(await scene.leave(theirs), code="mallorys")
    answer = await adas.request("GET", f"/auth/websuite/callback?code=mallorys&state={state}")
    assert told_in(answer.header("location"))[1]["error"] == "provider_failed"
    assert scene.identities() == []


async def test_the_page_names_application_provider_and_account_and_leads_back(scene: UpstreamScene, ada: Person) -> None:
    fake = scene.sits("her-own@gmail.com", sub="hers")
    adas = scene.signed_in(ada)
    scene.people.change("update users set name = 'Ada Lovelace', profile_updated_at = now() where id = %s", ada.user)
    place = await asked(scene, await in_application(scene, ada))
    tab = await adas.tab().open(place)
    for named in ("Connect Google?", "App", "Acme", f"Ada Lovelace {ADA}", "app.example.com", "asks you to connect"):
        assert named in tab.page.text, tab.page.text
    (cancel,) = [one for one in tab.page.links if one.startswith(CALLBACK)]
    assert told_in(cancel) == (CALLBACK, {"status": "error", "provider": "websuite", "action": "link", "error": "cancelled"})
    tab = await tab.send()
    answer = await adas.request("GET", fake.consent(tab.page.refresh))
    assert told_in(answer.header("location")) == (CALLBACK, {"status": "success", "provider": "websuite", "action": "link"})
    (one,) = scene.identities()
    assert (one["user_id"], one["subject"]) == (ada.user, "hers")
    assert scene.people.rows("select came_through from identities") == [{"came_through": scene.app.id}]


@pytest.mark.parametrize("led", [False, True])
async def test_whoever_is_signed_in_with_another_account_gets_to_that_one(scene: UpstreamScene, led: bool) -> None:
    """Also from an account that is led to a provider, which would sign them in to the same one again."""
    ada = await scene.people.with_password(PASSWORD, ADA)
    other = scene.people.add("ada@work.example")
    scene.people.change("update users set email_verified_at = now() where id = %s", other.user)
    if led:
        route(scene.people, scene.acme, "work.example")
    adas = scene.signed_in(other)
    place = await asked(scene, await in_application(scene, ada))
    tab = await adas.tab().open(place)
    assert tab.status == 403
    (onward,) = [link for link in tab.page.links if link.startswith("/ui/sign-in")]
    tab = await adas.tab().open(onward)
    assert tab.page.inputs["email"].get("value", "") == "", "the address of the account that is not meant"
    tab = await tab.send(email=ADA)
    tab = await tab.send(password=PASSWORD)
    assert (tab.place, tab.status) == (place, 200)
    assert await scene.who(adas) == ada.user


async def test_a_session_of_a_service_does_not_leave_at_once_either(scene: UpstreamScene, ada: Person) -> None:
    """Not a session by which the person signed in to the service. A session for an organization does leave at once: it is the
    person's own.
    """
    fake = scene.sits()
    scene.tenants.join(ada, scene.acme)
    adas = scene.signed_in(ada)
    elsewhere = {"origin": "https://acme.example"}
    for where, named, back, headers in ((scene.app, "App", CALLBACK, {}), (scene.acme, "Acme", CONNECTIONS, elsewhere)):
        token = await scene.tenants.token_in(ada, where)
        scene.people.change("update sessions set proved_at = now()")
        tab = await adas.tab().open(await asked(scene, token, **headers))
        assert named in tab.page.text
        tab = await tab.send()
        answer = await adas.request("GET", fake.consent(tab.page.refresh))
        assert told_in(answer.header("location")) == (back, {"status": "success", "provider": "websuite", "action": "link"})
        scene.people.change("delete from identities")
    token = await scene.tenants.token_in(ada, scene.acme)
    assert not (await link(scene, token)).ok()["authorization_url"].startswith(BASE_URL)


async def test_the_page_of_another_origin_leads_to_the_page_too(scene: UpstreamScene, ada: Person) -> None:
    """Its browser keeps no cookie of the answer, so that it could not come back."""
    fake = scene.sits()
    adas = scene.signed_in(ada)
    token = await scene.people.token(ada)
    place = await asked(scene, token, origin="https://console.example.com")
    tab = await adas.tab().open(place)
    assert "asks you to" not in tab.page.text
    tab = await tab.send()
    answer = await adas.request("GET", fake.consent(tab.page.refresh))
    assert told_in(answer.header("location"))[0] == CONNECTIONS
    answer = await link(scene, token, "codehost", origin=BASE_URL)
    assert not answer.ok()["authorization_url"].startswith(BASE_URL)
    assert answer.header("set-cookie") is not None


async def test_the_page_needs_a_fresh_proof_and_comes_back_after_it(scene: UpstreamScene) -> None:
    fake = scene.sits()
    ada = await scene.people.with_password(PASSWORD, ADA)
    place = await asked(scene, await in_application(scene, ada))
    adas = scene.signed_in(scene.people.session_of(ada), age=3600)
    tab = await adas.tab().open(place)
    assert tab.place.startswith("/ui/prove?")
    tab = await tab.send(len(tab.page.forms) - 1, password=PASSWORD)
    assert tab.place == place
    # One that has become old on the page is asked for once more, and leads back to this very page.
    shown = tab.page.forms[0]
    scene.people.change("update sessions set proved_at = now() - interval '1 hour'")
    answer = await adas.request("POST", shown.action, shown.fields)
    assert (answer.header("location") or "").startswith(f"/ui/prove?to={place}")
    assert states(scene) == []
    tab = await adas.tab().open(answer.header("location") or "")
    tab = await tab.send(len(tab.page.forms) - 1, password=PASSWORD)
    tab = await tab.send()
    answer = await adas.request("GET", fake.consent(tab.page.refresh))
    assert told_in(answer.header("location"))[1]["status"] == "success"


async def test_requests_that_are_not_ours_or_not_for_this_provider(scene: UpstreamScene, ada: Person) -> None:
    adas = scene.signed_in(ada)
    place = await asked(scene, await in_application(scene, ada))
    session, ends, mac = place.rpartition("/")[2].split("~")
    longer = str(int(ends) + 60)
    for other in (
        f"{session}~{longer}~{mac}",
        f"{ada.session}~{ends}~{mac}",
        f"{session}~{ends}~{mac[:-1]}",
        f"{session}~{ends}~%C3%A9",
        f"{session}~x~{mac}",
        f"{session}~{ends}",
        "nothing",
    ):
        is_page(await adas.request("GET", f"/ui/connect/websuite/{other}"), 400, OUT_OF_DATE)
    is_page(await adas.request("GET", place.replace("websuite", "codehost")), 400, OUT_OF_DATE)
    assert (await adas.request("GET", place.replace("websuite", "nothing"))).status == 400
    assert (await adas.request("GET", place)).status == 200


CHANGES = [
    "update sessions set revoked_at = now() where service_id is not null",
    "update all_services set deleted_at = now()",
    "update all_organizations set status = 'suspended' where slug = 'acme'",
]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_request_ends_with_what_made_it(scene: UpstreamScene, ada: Person, change: str) -> None:
    fake = scene.sits()
    adas = scene.signed_in(ada)
    place = await asked(scene, await in_application(scene, ada))
    tab = await pressed(adas, place)
    scene.people.change(change)
    is_page(await adas.request("GET", place), 400, OUT_OF_DATE)
    is_page(await adas.request("GET", fake.consent(tab.page.refresh)), 400, OUT_OF_DATE)
    assert scene.identities() == []


@pytest.mark.parametrize("change", CHANGES[:2])
async def test_it_also_ends_while_the_provider_is_asked(scene: UpstreamScene, ada: Person, change: str) -> None:
    """The provider may take long to answer."""
    fake = scene.sits()
    adas = scene.signed_in(scene.people.session_of(ada))
    tab = await pressed(adas, await asked(scene, await in_application(scene, ada)))
    looking_meanwhile(scene, lambda: scene.people.change(change))
    answer = await adas.request("GET", fake.consent(tab.page.refresh))
    assert told_in(answer.header("location"))[1]["error"] == "session_ended"
    assert scene.identities() == []


async def test_it_also_ends_with_the_session_of_the_browser(scene: UpstreamScene, ada: Person) -> None:
    """After a sign-out, the next person at the computer must not be able to finish the request."""
    fake = scene.sits()
    token = await in_application(scene, ada)
    adas = scene.signed_in(scene.people.session_of(ada))
    tab = await pressed(adas, await asked(scene, token))
    (state,) = states(scene)
    assert state["session_id"] != state["asked_in"]
    scene.people.change("update sessions set revoked_at = now() where id = %s", state["session_id"])
    is_page(await adas.request("GET", fake.consent(tab.page.refresh)), 400, OUT_OF_DATE)
    assert scene.identities() == []


async def test_a_provider_that_is_off_or_does_not_answer(scene: UpstreamScene, ada: Person) -> None:
    provider = await scene.own_provider(domain="")
    adas = scene.signed_in(ada)
    scene.tenants.join(ada, scene.acme)
    token = await scene.tenants.token_in(ada, scene.acme)
    scene.people.change("update sessions set proved_at = now()")
    elsewhere = {"origin": "https://acme.example"}
    place = await asked(scene, token, provider, **elsewhere)
    scene.people.change("update upstream_providers set issuer = issuer || '/gone'")
    tab = await adas.tab().open(place)
    tab = await tab.send()
    assert (tab.status, "Signing in at the provider failed" in tab.page.text) == (400, True)
    scene.people.change("update upstream_providers set enabled = false")
    is_page(await adas.request("GET", place), 400, "is not set up")
    assert refused(await link(scene, token, provider, **elsewhere)) == (400, "BAD_REQUEST")


async def test_coming_back_twice_leads_to_the_same_place(scene: UpstreamScene, ada: Person) -> None:
    fake = scene.sits()
    adas = scene.signed_in(ada)
    tab = await pressed(adas, await asked(scene, await in_application(scene, ada)))
    back = fake.consent(tab.page.refresh)
    answers = [await adas.request("GET", back) for _ in range(2)]
    assert [told_in(one.header("location"))[1]["status"] for one in answers] == ["success"] * 2
    assert len(fake.forms) == 1
    is_page(await scene.signed_in(scene.people.session_of(ada)).request("GET", back), 400, OUT_OF_DATE)


def connecting(scene: UpstreamScene) -> list[Any]:
    """The ways to a provider that somebody is on to connect an identity. Those who sign in there are on one, too."""
    return [one for one in states(scene) if one["user_id"] is not None]


async def by_codehost(scene: UpstreamScene) -> tuple[Tabs, dict[str, Any]]:
    """Ada has come by the code host, which does not say when she signed in there. Her browser, and what the application got."""
    scene.sits(word="codehost")
    scene.fakes["codehost"].says_when = False
    adas = scene.browser()
    came = await scene.go(adas, scene.direct(), word="codehost")
    form = {"grant_type": "authorization_code", "code": answer_in(came.header("location"))["code"], "redirect_uri": CALLBACK}
    tokens = await scene.unlimited.post("/auth/token", {**form, "client_id": scene.client_id(scene.app), "code_verifier": VERIFIER})
    scene.log.remember(tokens.ok()["access_token"])
    return adas, tokens.json()


async def test_who_came_by_a_silent_provider_connects_by_an_application(scene: UpstreamScene) -> None:
    """The application's token proves nothing of now, and the page asks for the proof that Ada can give: a code by mail."""
    adas, tokens = await by_codehost(scene)
    fake = scene.sits("her-own@gmail.com", sub="hers")
    place = await asked(scene, tokens["access_token"])
    postbox = Postbox(scene.postern)
    tab = await adas.tab().open(place)
    assert tab.place.partition("?")[0] == "/ui/prove"
    # Nothing is on its way to the provider, also for whoever sends the page's form without the page.
    other = await adas.tab().open("/ui/applications")
    token = next(form.fields["form_token"] for form in other.page.forms if "form_token" in form.fields)
    sent = await adas.request("POST", place, {"form_token": token})
    assert (sent.header("location") or "").startswith("/ui/prove?")
    assert connecting(scene) == []
    await tab.send([form.action for form in tab.page.forms].index("/ui/prove/mail"))
    (mail,) = [one for one in await postbox.empty() if one.subject == "Your verification code"]
    scene.log.remember(code_in(mail))
    await tab.send([form.action for form in tab.page.forms].index("/ui/prove"), mailed_code=code_in(mail))
    assert (tab.place, tab.status) == (place, 200)
    for named in ("App", "Acme", ADA, "asks you to connect"):
        assert named in tab.page.text
    await tab.send()
    answer = await adas.request("GET", fake.consent(tab.page.refresh))
    assert told_in(answer.header("location")) == (CALLBACK, {"status": "success", "provider": "websuite", "action": "link"})
    assert {one["provider"] for one in scene.identities()} == {"codehost", "websuite"}
    # To disconnect stays the person's own act: 401 by API, however lately they have proved it on a page.
    gone = await scene.unlimited.request("DELETE", "/api/user/identities/websuite", token=tokens["access_token"])
    assert refused(gone) == (401, "REAUTHENTICATION_REQUIRED")


async def test_a_stolen_token_of_an_application_connects_nobody(scene: UpstreamScene) -> None:
    """Whoever has the token may ask as often as they like. They get an address that opens for Ada alone, and no state at the provider."""
    adas, tokens = await by_codehost(scene)
    fake = scene.sits("mallory@gmail.com", sub="mallory")
    places = [await asked(scene, tokens["access_token"]) for _ in range(3)]
    assert connecting(scene) == []
    mallory = await scene.people.with_password(PASSWORD, "mallory@gmail.com")
    mallorys = scene.browser()
    tab = await mallorys.tab().open("/ui/sign-in")
    tab = await tab.send(email=mallory.email)
    tab = await tab.send(password=PASSWORD)
    for place in places:
        assert ((await scene.browser().request("GET", place)).header("location") or "").startswith("/ui/sign-in?to=")
        is_page(await mallorys.request("GET", place), 403, "This request is for another account")
    # A form of another person's page presses no button in Ada's browser, and Mallory's way to the provider does not end there.
    forged = await adas.request("POST", places[0], {"form_token": "x"})
    assert (forged.status, (forged.header("location") or "").partition("?")[0]) in {(400, ""), (403, ""), (303, "/ui/prove")}
    leaving = await scene.leave(mallorys)
    is_page(await adas.request("GET", fake.consent(leaving)), 400, OUT_OF_DATE)
    assert connecting(scene) == []
    assert [one["provider"] for one in scene.identities()] == ["codehost"]
    # It ends with the session that asked.
    assert (await scene.unlimited.post("/api/auth/logout", token=tokens["access_token"])).status == 200
    assert refused(await link(scene, tokens["access_token"]))[0] == 401


async def test_a_token_of_the_persons_own_still_needs_a_proof(scene: UpstreamScene, ada: Person) -> None:
    """It would leave for the provider at once, or let a frontend elsewhere ask."""
    token = await scene.people.token(ada)
    scene.people.change("update sessions set proved_at = now() - interval '11 minutes'")
    assert refused(await link(scene, token)) == (401, "REAUTHENTICATION_REQUIRED")
    assert refused(await link(scene, token, origin="https://console.example.com")) == (401, "REAUTHENTICATION_REQUIRED")
    assert connecting(scene) == []
