"""Consent: asked, remembered, widened, refused and taken back."""

from functools import partial
from uuid import UUID

import pytest
import trio

from core.domain.errors import NotFound
from core.domain.federation.oauth.consents import ApplicationAccess
from core.domain.identifiers import FlowId, ServiceId, UserId
from core.domain.identity.devices import Client
from core.domain.identity.flows import FlowOver
from core.domain.record.events import Actor
from core.domain.secrets import Token
from ops.browser.page_reader import PageReader
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK, Arriving, answer_in, is_page, left, told
from tests.http.locks import behind
from tests.http.people import Person
from tests.meanwhile import meanwhile

CONSENT = "/ui/consent"


async def accesses(scene: Arriving, person: Person) -> list[ApplicationAccess]:
    return list(await scene.postern.federation.consents.list(UserId(person.user)))


async def test_the_audit_log_names_the_application(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    await tab.send(answer="allow")
    (told,) = scene.people.rows("select id, details from audit_log where action = 'user.consent.given'")
    (service,) = scene.people.rows("select slug, name from all_services where id = %s", scene.app.id)
    assert (told["details"]["service_slug"], told["details"]["service_name"]) == (service["slug"], service["name"])
    log = await scene.signed_in(scene.resident(scene.acme, "owner")).tab().open("/ui/o/acme/audit-log")
    assert f"granted {service['name']} access" in log.page.text
    assert f"/ui/o/acme/applications/{service['slug']}" in log.page.links
    await log.open(f"/ui/o/acme/audit-log/{told['id']}")
    assert f"Target {service['name']}" in log.page.text


async def test_what_was_allowed_is_remembered_and_new_scopes_are_asked_for(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking(scope="openid"))
    assert "email address" not in tab.page.text
    await tab.send(answer="allow")
    left(tab)
    told(await tab.tabs.request("GET", scene.asking(scope="openid")))
    await tab.open(scene.asking(scope="openid email offline_access organization groups profile"))
    said = ("until you revoke it", "View your role in Acme", "View your groups in Acme", "name, username, picture")
    for words in ("ada@example.org", *said):
        assert words in tab.page.text
    await tab.send(answer="allow")
    left(tab)
    for scope in ("openid email", "openid", "organization", "openid offline_access"):
        told(await tab.tabs.request("GET", scene.asking(scope=scope)))
    (kept,) = scene.people.rows("select user_id, service_id, scopes from consents")
    assert (kept["user_id"], kept["service_id"]) == (ada.user, scene.app.id)
    assert sorted(kept["scopes"]) == ["email", "groups", "offline_access", "openid", "organization", "profile"]
    given = [event for event in scene.told() if event["name"] == "user.consent.given"]
    assert [event["details"]["scopes"] for event in given] == [
        ["openid"],
        ["openid", "profile", "email", "offline_access", "organization", "groups"],
    ]
    entries = scene.audited("user.consent.%")
    assert {(entry["actor_id"], entry["organization_id"], entry["target_id"]) for entry in entries} == {
        (ada.user, scene.acme.id, str(scene.app.id))
    }
    # The consent is for this application and this person alone.
    tab = await tab.open(scene.asking(scene.application(scene.acme, "other", CALLBACK)))
    assert tab.place.startswith(CONSENT)
    tab = await scene.signed_in(scene.people.add()).tab().open(scene.asking())
    assert tab.place.startswith(CONSENT)


async def test_an_application_may_ask_again(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    tab = await scene.signed_in(ada).tab().open(scene.asking(prompt="consent"))
    assert tab.place.startswith(CONSENT)
    await tab.send(answer="allow")
    left(tab)


async def test_who_does_not_allow_it_goes_back_with_that_word(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    await tab.send(answer="deny")
    assert "Returning to App" in tab.page.text
    said = left(tab)
    assert (said["error"], said["state"]) == ("access_denied", "a b&c")
    assert scene.codes() == scene.people.rows("select * from consents") == scene.told() == []


async def test_another_account_may_be_used_instead(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    await tab.send(answer="another")
    assert tab.place.startswith("/ui/sign-in?flow=")
    assert scene.codes() == []


async def test_a_form_of_another_site_or_session_allows_nothing(scene: Arriving, ada: Person) -> None:
    browser = scene.signed_in(ada)
    tab = await browser.tab().open(scene.asking())
    fields = {**tab.page.forms[0].fields, "answer": "allow"}
    for wrong in ({"form_token": ""}, {"form_token": "0" * 64}, {"flow": str(scene.postern.foundation.ids.new())}, {"answer": "yes"}):
        answer = await browser.request("POST", CONSENT, {**fields, **wrong})
        assert answer.status in {400, 403}, wrong
    # Bob knows every field of Ada's page, and even her cookie for flows.
    bob = scene.signed_in(scene.people.add("bob@example.org"))
    is_page(await bob.request("POST", CONSENT, fields), 409, "another account")
    bob.cookies = {**browser.cookies, **bob.cookies}
    is_page(await bob.request("POST", CONSENT, fields), 409, "another account")
    stranger = scene.browser()
    answer = await stranger.request("POST", CONSENT, fields)
    assert (answer.status, (answer.header("location") or "").startswith("/ui/sign-in")) == (303, True)
    headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "cross-site"),
        ("cookie", "; ".join(f"{name}={value}" for name, value in browser.cookies.items())),
    ]
    body = "&".join(f"{name}={value}" for name, value in fields.items()).encode()
    is_page(await scene.unlimited.request("POST", CONSENT, body=body, headers=headers), 403, "not sent from a page of this site")
    assert scene.codes() == []
    left(await tab.send(answer="allow"))


async def test_a_double_click_on_allow_leads_to_the_application(scene: Arriving, ada: Person) -> None:
    """After a double click, a browser drops the first answer and the code in it."""
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    form = {**tab.page.forms[0].fields, "answer": "allow"}
    answers = await all_at_once(*[lambda: tab.tabs.request("POST", CONSENT, form)] * 10)
    codes = [answer_in(PageReader(answer.body).refresh)["code"] for answer in answers]
    assert len(set(codes)) == len(scene.codes()) == 10
    assert len(scene.audited("user.consent.given")) == 1
    # The second click neither restores a consent that was taken back meanwhile, nor works in another browser.
    access = scene.people.rows("delete from consents returning user_id")
    assert access == [{"user_id": ada.user}]
    asked_again = await tab.tabs.request("POST", CONSENT, form)
    assert (asked_again.header("location") or "").startswith(CONSENT)
    other = scene.signed_in(scene.people.add())
    is_page(await other.request("POST", CONSENT, form), 409, "another account")
    assert len(scene.codes()) == 10


async def test_a_double_click_on_deny_says_so_twice(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    form = {**tab.page.forms[0].fields, "answer": "deny"}
    answers = await all_at_once(*[lambda: tab.tabs.request("POST", CONSENT, form)] * 3)
    assert {answer_in(PageReader(answer.body).refresh)["error"] for answer in answers} == {"access_denied"}
    assert scene.codes() == []


@pytest.mark.parametrize(("first", "second"), [("allow", "deny"), ("deny", "allow")])
async def test_another_answer_right_after_the_first_is_no_double_click(scene: Arriving, ada: Person, first: str, second: str) -> None:
    """The application gets the answer that is recorded."""
    scene.allow(ada)
    tab = await scene.signed_in(ada).tab().open(scene.asking(prompt="consent"))
    form = tab.page.forms[0].fields
    before = left(await tab.send(answer=first))
    codes = len(scene.codes())
    is_page(await tab.tabs.request("POST", CONSENT, {**form, "answer": second}), 400, "out of date")
    # The first answer still counts.
    again = await tab.tabs.request("POST", CONSENT, {**form, "answer": first})
    assert set(answer_in(PageReader(again.body).refresh)) == set(before)
    assert len(scene.codes()) == 2 * codes


async def test_a_double_click_on_an_account_leads_to_the_application(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    tab = await scene.signed_in(ada).tab().open(scene.asking(prompt="select_account"))
    assert tab.place.startswith("/ui/choose-account")
    form = {**tab.page.forms[0].fields, "answer": "current"}
    answers = await all_at_once(*[lambda: tab.tabs.request("POST", "/ui/choose-account", form)] * 3)
    codes = [answer_in(PageReader(answer.body).refresh)["code"] for answer in answers]
    assert len(set(codes)) == len(scene.codes()) == 3


async def test_no_page_may_be_framed_or_kept(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking(prompt="select_account"))
    choose = tab.shown
    await tab.open(scene.asking())
    consent = tab.shown
    await tab.send(answer="allow")
    for page in (choose, consent, tab.shown):
        policy = page.header("content-security-policy") or ""
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert page.header("cache-control") == "no-store"
        assert page.header("referrer-policy") == "no-referrer"
        assert page.header("cross-origin-opener-policy") == "unsafe-none"


async def test_a_person_sees_who_has_access_and_takes_it_back(scene: Arriving, ada: Person) -> None:
    browser = scene.signed_in(ada)
    scene.allow(ada, scopes="openid email")
    child, root = scene.tenants.session(ada, scene.app), scene.tenants.session(ada, scene.app)
    scene.people.change("update sessions set parent_id = %s, depth = 1 where id = %s", ada.session, child.session)
    elsewhere = scene.tenants.session(ada, scene.desktop)
    others = scene.tenants.session(scene.people.add(), scene.app)
    first = answer_in((await browser.request("GET", scene.asking())).header("location"))["code"]
    app, desktop = await accesses(scene, ada)
    assert (app.name, app.organization_name, list(app.scopes), app.sessions) == ("App", "Acme", ["openid", "email"], 2)
    assert app.granted_at is not None
    # A trusted application, which never asks, has access, too.
    assert (desktop.name, list(desktop.scopes), desktop.granted_at, desktop.sessions) == ("Desktop", [], None, 1)

    assert (await scene.revoke(ada)).sessions == 2
    for person, service, status in (
        (child, scene.app, 401),
        (root, scene.app, 401),
        (elsewhere, scene.desktop, 200),
        (others, scene.app, 200),
    ):
        answer = await scene.client.get("/api/user", token=await scene.tenants.token(person, service))
        assert answer.status == status, answer.body
    assert first
    assert scene.codes() == []
    assert [one.name for one in await accesses(scene, ada)] == ["Desktop"]
    assert told(await browser.request("GET", scene.asking(prompt="none")))["error"] == "consent_required"
    (entry,) = scene.audited("user.consent.revoked")
    assert (entry["actor_id"], entry["organization_id"], entry["details"]["scopes"]) == (ada.user, scene.acme.id, ["openid", "email"])
    with pytest.raises(NotFound):
        await scene.revoke(ada)
    bob = scene.people.add()
    with pytest.raises(NotFound):
        await scene.revoke(bob)


async def test_what_is_taken_back_on_the_way_gets_no_code(scene: Arriving, ada: Person) -> None:
    """The request has read the consent, and waits for the account's lock when the consent is taken back."""
    scene.allow(ada)
    browser = scene.signed_in(ada)
    places: list[str] = []

    async def go() -> None:
        places.append((await browser.tab().open(scene.asking())).place)

    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(UserId(ada.user))
        access = await uow.consents.revoke(UserId(ada.user), ServiceId(scene.app.id))
        nursery.start_soon(go)
        await scene.people.somebody_waits()
        await uow.commit()
    assert access is not None
    assert places[0].startswith(CONSENT)
    assert scene.codes() == []


@pytest.mark.parametrize("change", ["delete from users where id = %s", "update users set deactivated_at = now() where id = %s"])
@pytest.mark.parametrize("trusted", [False, True])
async def test_whoever_is_gone_on_the_way_gets_no_code(
    scene: Arriving, ada: Person, monkeypatch: pytest.MonkeyPatch, change: str, *, trusted: bool
) -> None:
    """The request has read the person and the person's consents."""
    scene.allow(ada)
    scene.set(scene.app, trusted=trusted)
    browser = scene.signed_in(ada)

    def end() -> None:
        scene.people.change("update sessions set revoked_at = now()")
        scene.people.change(change, ada.user)

    meanwhile(monkeypatch, scene.postern.federation.authorizations.asked.authorization_contexts, "find", end)
    assert (await browser.tab().open(scene.asking())).place.startswith("/ui/sign-in?flow=")
    assert scene.codes() == []


async def test_whoever_is_gone_on_the_way_allows_nothing(scene: Arriving, ada: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    end = "delete from users where id = %s"
    meanwhile(
        monkeypatch,
        scene.postern.federation.authorizations.asked.authorization_contexts,
        "find",
        lambda: scene.people.change(end, ada.user),
    )
    await tab.send(answer="allow")
    assert tab.place.startswith("/ui/sign-in?flow=")
    assert scene.codes() == scene.people.rows("select * from consents") == scene.told() == []


@pytest.mark.parametrize("change", ["delete from memberships", "update all_services set trusted = false"])
@pytest.mark.parametrize("consented", [False, True])
async def test_whose_organization_stops_answering_for_them_on_the_way_is_asked(
    scene: Arriving, monkeypatch: pytest.MonkeyPatch, change: str, *, consented: bool
) -> None:
    """The request has read that the person is a member of the organization that trusts the service. The person's own consent would be
    enough.
    """
    member = scene.resident(scene.acme, "member")
    scene.set(scene.app, trusted=True)
    if consented:
        scene.allow(member)
    browser = scene.signed_in(member)
    scene.code(told(await browser.request("GET", scene.asking()))["code"])
    meanwhile(
        monkeypatch, scene.postern.federation.authorizations.asked.authorization_contexts, "find", lambda: scene.people.change(change)
    )
    answer = await browser.request("GET", scene.asking())
    if consented:
        scene.code(told(answer)["code"])
    else:
        assert (answer.header("location") or "").startswith(f"{CONSENT}?flow=")
    assert len(scene.codes()) == 1 + consented


async def test_no_code_goes_to_an_address_that_was_taken_back_on_the_way(
    scene: Arriving, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.allow(ada)
    other = f"{CALLBACK}/new"
    authorization_contexts = scene.postern.federation.authorizations.asked.authorization_contexts
    meanwhile(monkeypatch, authorization_contexts, "find", lambda: scene.set(scene.app, redirect_uris=[other]))
    is_page(await scene.signed_in(ada).request("GET", scene.asking()), 400)
    assert scene.codes() == []


async def test_allowing_takes_the_account_before_the_flow(scene: Arriving, ada: Person, database_url: str) -> None:
    """Deleting or forgetting an account takes the locks in this order, too."""
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    flow = tab.place.partition("flow=")[2]

    async def allow() -> Received:
        await tab.send(answer="allow")
        return tab.shown

    first = ("select from users where id = %s for update", ada.user)
    await behind(scene.people, database_url, first, ("select from flows where id = %s for update", flow), allow)
    left(tab)


async def test_a_service_that_goes_on_the_way_is_allowed_nothing(scene: Arriving, ada: Person) -> None:
    """The request has read the service, and waits for the account's lock when the service is deleted."""
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(UserId(ada.user))
        await uow.consents.revoke(UserId(ada.user), ServiceId(scene.app.id))
        nursery.start_soon(partial(tab.send, answer="allow"))
        await scene.people.somebody_waits()
        scene.people.change("update all_services set deleted_at = now() where id = %s", scene.app.id)
    is_page(tab.shown, 404, "not registered here")
    assert scene.codes() == scene.people.rows("select * from consents") == []


async def test_a_service_that_goes_after_it_was_read_is_allowed_nothing(
    scene: Arriving, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    end = "update all_services set deleted_at = now() where id = %s"
    meanwhile(
        monkeypatch,
        scene.postern.federation.authorizations.asked.authorization_contexts,
        "find",
        lambda: scene.people.change(end, scene.app.id),
    )
    is_page((await tab.send(answer="allow")).shown, 404, "not registered here")
    assert scene.codes() == scene.people.rows("select * from consents") == scene.audited("user.consent.given") == []


async def test_what_another_tab_has_finished_is_finished(scene: Arriving, ada: Person) -> None:
    """Both tabs have read the flow before either finished it."""
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    flows, authorizations = scene.postern.identity.flows, scene.postern.federation.authorizations
    flow = await flows.find(FlowId(UUID(tab.place.partition("flow=")[2])), Token(tab.tabs.cookies["__Host-postern_flow"]))
    caller = await scene.postern.tenancy.callers.resolve_browser(Token(tab.tabs.session or ""))
    assert caller is not None
    await tab.send(answer="allow")
    for again in (partial(authorizations.allow, flow, caller, Actor(caller.user), Client(None, "")), partial(authorizations.deny, flow)):
        with pytest.raises(FlowOver):
            await again()
    assert len(scene.codes()) == 1


async def test_a_service_that_goes_meanwhile_is_allowed_nothing(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    form = PageReader(tab.shown.body).forms[0].fields
    scene.people.change("update all_services set deleted_at = now() where id = %s", scene.app.id)
    is_page(await tab.tabs.request("POST", CONSENT, {**form, "answer": "allow"}), 400, "not registered here")
    assert scene.people.rows("select * from consents") == []


async def test_an_application_that_asks_for_nothing_needs_consent_all_the_same(scene: Arriving, ada: Person) -> None:
    tab = await scene.signed_in(ada).tab().open(scene.asking(scope=None))
    assert tab.place.startswith(CONSENT)
    await tab.send(answer="allow")
    left(tab)
    told(await tab.tabs.request("GET", scene.asking(scope=None)))
    assert [row["scopes"] for row in scene.people.rows("select scopes from consents")] == [[]]
    # That is no consent to anything else.
    await tab.open(scene.asking(scope="openid"))
    assert tab.place.startswith(CONSENT)
    (known,) = await accesses(scene, ada)
    assert list(known.scopes) == []
    await scene.revoke(ada)
    await tab.open(scene.asking(scope=None))
    assert tab.place.startswith(CONSENT)
