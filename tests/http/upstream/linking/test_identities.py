"""Listing, connecting and disconnecting the accounts at providers."""

from typing import Any

import psycopg
import pytest
import trio

from core.domain.errors import NotFound
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.upstream.providers import Provider
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.frozen import replace
from tests.http.browsing import Tabs
from tests.http.client import Received, refused
from tests.http.federation.arriving import CALLBACK, is_page
from tests.http.people import BASE_URL, Person
from tests.http.postbox import Postbox
from tests.http.upstream.scene import ADA, CONNECTIONS, UpstreamScene, told_in

PATH = "/api/user/identities"


@pytest.fixture
def ada(scene: UpstreamScene) -> Person:
    ada = scene.people.add("ada@home.example")
    scene.people.change("update users set email_verified_at = now(), password_hash = 'x' where id = %s", ada.user)
    return ada


class Connecting:
    """A program of the person, with cookies as in a browser."""

    def __init__(self, scene: UpstreamScene, person: Person, tabs: Tabs | None = None) -> None:
        self.scene = scene
        self.person = person
        self.tabs = tabs or scene.browser()

    async def link(self, word: str = "websuite", token: str | None = None) -> Received:
        headers = [("cookie", "; ".join(f"{name}={value}" for name, value in self.tabs.cookies.items()))] if self.tabs.cookies else []
        answer = await self.scene.unlimited.post(
            f"{PATH}/{word}/link", token=token or await self.scene.people.token(self.person), headers=headers
        )
        for name, value in answer.headers:
            if name == "set-cookie":
                cookie, _, kept = value.partition(";")[0].partition("=")
                self.tabs.cookies[cookie] = kept
        return answer

    async def come_back(self, word: str = "websuite", token: str | None = None, **person: Any) -> Received:
        url = (await self.link(word, token)).ok()["authorization_url"]
        return await self.tabs.request("GET", self.scene.fakes[word].consent(url, **person))

    async def answer(self, word: str, token: str) -> str:
        """The person presses the button on the page to which a token for a service leads. Returns the address at the provider."""
        page = (await self.link(word, token)).ok()["authorization_url"]
        assert page.startswith(f"{BASE_URL}/ui/connect/{word}/")
        tab = await self.tabs.tab().open(page.removeprefix(BASE_URL))
        assert tab.status == 200, tab.page.text
        await tab.send()
        return tab.page.refresh


async def listed(scene: UpstreamScene, token: str) -> list[dict[str, Any]]:
    answer = await scene.unlimited.get(PATH, token=token)
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json()
    return found


async def test_an_identity_is_connected_listed_and_disconnected(scene: UpstreamScene, ada: Person, postbox: Postbox) -> None:
    token = await scene.people.token(ada)
    assert await listed(scene, token) == []
    # The provider need not vouch for any address: the person is signed in.
    scene.sits(verified=False)
    answer = await Connecting(scene, ada).come_back()
    assert answer.status == 302
    assert told_in(answer.header("location")) == (CONNECTIONS, {"status": "success", "provider": "websuite", "action": "link"})
    (one,) = await listed(scene, token)
    assert one.pop("linked_at")
    assert one == {"provider": "websuite", "provider_user_id": "110169484474386276334", "email": ADA}
    (mail,) = await postbox.empty()
    assert (mail.to, mail.subject) == ("ada@home.example", "Google is connected to your account")
    # Now it lets them in.
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == ada.user
    await postbox.empty()
    assert (await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=token)).status == 204
    assert await listed(scene, token) == []
    (mail,) = await postbox.empty()
    assert mail.subject == "Google is no longer connected to your account"
    assert "All other devices were signed out." in " ".join(mail.text.split())
    answer = await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=token)
    assert refused(answer) == (404, "NOT_FOUND")
    events = [one["name"] for one in scene.told("audit_log") if one["name"].startswith("user.identity")]
    assert events == ["user.identity.linked", "user.identity.unlinked"]


async def test_connecting_twice_is_no_error(scene: UpstreamScene, ada: Person) -> None:
    scene.sits()
    for _ in range(2):
        answer = await Connecting(scene, ada).come_back()
        assert told_in(answer.header("location"))[1]["status"] == "success"
    assert len(scene.identities()) == 1


@pytest.fixture
def postbox(scene: UpstreamScene) -> Postbox:
    return Postbox(scene.postern)


async def test_an_identity_of_somebody_else_and_a_second_one_of_a_provider(scene: UpstreamScene, ada: Person) -> None:
    scene.sits()
    await scene.go(scene.browser())
    answer = await Connecting(scene, ada).come_back()
    assert told_in(answer.header("location"))[1] == {"status": "error", "provider": "websuite", "action": "link", "error": "taken"}
    answer = await Connecting(scene, ada).come_back(sub="another", email="other@example.org")
    assert told_in(answer.header("location"))[1]["status"] == "success"
    answer = await Connecting(scene, ada).come_back(sub="a third")
    assert told_in(answer.header("location"))[1]["error"] == "other_connected"


async def test_the_only_way_in_stays(scene: UpstreamScene) -> None:
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    (session,) = scene.people.rows("select id, user_id from sessions")
    token = await scene.people.token(Person(session["user_id"], session["id"], ADA))
    answer = await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=token)
    assert refused(answer) == (400, "BAD_REQUEST")
    scene.sits(word="codehost")
    await scene.go(scene.browser(), word="codehost")
    statuses = [(await scene.unlimited.request("DELETE", f"{PATH}/{word}", token=token)).status for word in ("websuite", "codehost")]
    assert statuses == [204, 400]


# Changes after which an organization's own provider lets nobody in.
SHUT = {
    "turned off": "update upstream_providers set enabled = false",
    "suspended": "update organizations set status = 'suspended'",
    "domain lost": "delete from domains",
    "moved": "update users set email = 'ada@home.example', email_key = 'ada@home.example' where email = 'ada@example.org'",
    "owner of the platform": "update users set is_platform_owner = true where email = 'ada@example.org'",
}


async def both_ways(scene: UpstreamScene) -> tuple[str, str]:
    """Ada can sign in by acme's own provider and by the code host. Returns the provider and a token of hers."""
    provider = await scene.own_provider()
    for word, way in (("own", provider), ("codehost", "codehost")):
        scene.sits(word=word)
        await scene.go(scene.browser(), word=way)
        # An organization's own provider proves no address, so the other one would take the account over.
        scene.people.change("update users set email_verified_at = now() where email = %s", ADA)
    ada, *_ = scene.people.rows("select id, user_id from sessions where user_id = (select id from users where email = %s)", ADA)
    return provider, await scene.people.token(Person(ada["user_id"], ada["id"], ADA))


@pytest.mark.parametrize("change", [None, *SHUT.values()], ids=["open", *SHUT])
async def test_a_provider_that_would_not_let_the_person_in_is_no_other_way(scene: UpstreamScene, change: str | None) -> None:
    provider, token = await both_ways(scene)
    if change is not None:
        scene.people.change(change)
    answer = await scene.unlimited.request("DELETE", f"{PATH}/codehost", token=token)
    assert answer.status == (204 if change is None else 400), answer.body
    assert [one["provider"] for one in scene.identities()] == ([provider] if change is None else [provider, "codehost"])


@pytest.mark.parametrize("change", SHUT.values(), ids=SHUT)
async def test_one_that_lets_nobody_in_may_go_although_it_leaves_a_single_way(scene: UpstreamScene, change: str) -> None:
    provider, token = await both_ways(scene)
    scene.people.change(change)
    assert (await scene.unlimited.request("DELETE", f"{PATH}/{provider}", token=token)).status == 204
    assert [one["provider"] for one in scene.identities()] == ["codehost"]


@pytest.mark.parametrize("own_client", [False, True], ids=["nobody's client", "an organization's client"])
async def test_one_of_the_three_that_is_turned_off_is_no_other_way(
    scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch, *, own_client: bool
) -> None:
    provider, token = await both_ways(scene)
    installed: Any = scene.postern.identity.identities.providers._installed
    monkeypatch.setitem(installed, Provider.CODEHOST, replace(installed[Provider.CODEHOST], client=None))
    if own_client:
        scene.people.change(
            "insert into oauth_credentials (id, org_id, provider, client_id, sealed_client_secret, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'codehost', 'x', 'x', now(), now())",
            scene.acme.id,
        )
    answer = await scene.unlimited.request("DELETE", f"{PATH}/{provider}", token=token)
    assert answer.status == (204 if own_client else 400), answer.body
    if not own_client:
        # The identity lets nobody in, so it may be disconnected.
        assert (await scene.unlimited.request("DELETE", f"{PATH}/codehost", token=token)).status == 204


async def test_of_two_that_go_at_once_one_stays(scene: UpstreamScene, ada: Person) -> None:
    import trio  # noqa: PLC0415 - here alone

    scene.people.change("update users set password_hash = null where id = %s", ada.user)
    for word in ("websuite", "codehost"):
        scene.sits(word=word)
        await Connecting(scene, ada).come_back(word)
    token = await scene.people.token(ada)
    statuses: list[int] = []

    async def go(word: str) -> None:
        statuses.append((await scene.unlimited.request("DELETE", f"{PATH}/{word}", token=token)).status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go, "websuite")
        nursery.start_soon(go, "codehost")
    assert sorted(statuses) == [204, 400]


async def test_both_need_a_fresh_proof(scene: UpstreamScene, ada: Person) -> None:
    scene.sits()
    await Connecting(scene, ada).come_back()
    scene.people.change("update sessions set proved_at = now() - interval '11 minutes'")
    assert refused(await Connecting(scene, ada).link("codehost")) == (401, "REAUTHENTICATION_REQUIRED")
    answer = await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=await scene.people.token(ada))
    assert refused(answer) == (401, "REAUTHENTICATION_REQUIRED")


@pytest.mark.parametrize("word", ["nothing", "password", "00000000-0000-0000-0000-00000000000g"])
async def test_an_unknown_provider(scene: UpstreamScene, ada: Person, word: str) -> None:
    assert refused(await Connecting(scene, ada).link(word)) == (400, "BAD_REQUEST")
    answer = await scene.unlimited.request("DELETE", f"{PATH}/{word}", token=await scene.people.token(ada))
    assert refused(answer) == (400, "BAD_REQUEST")


async def test_a_link_that_a_stranger_sends_connects_nothing(scene: UpstreamScene, ada: Person) -> None:
    """Eve requests the address with her own account and makes Ada open it. Ada's identity must not be connected to Eve's account."""
    eve = scene.people.add("eve@example.net")
    asked = Connecting(scene, eve)
    scene.sits()
    url = (await asked.link()).ok()["authorization_url"]
    place = scene.fakes["websuite"].consent(url)
    adas = scene.signed_in(ada)
    is_page(await adas.request("GET", place), 400, "This page is out of date")
    is_page(await scene.browser().request("GET", place), 400, "This page is out of date")
    assert scene.identities() == []
    # Nor in another browser of Eve's own: there somebody could have led her to it, with a code of theirs.
    is_page(await scene.signed_in(eve).request("GET", place), 400, "This page is out of date")
    answer = await asked.tabs.request("GET", place)
    assert told_in(answer.header("location"))[1]["status"] == "success"


async def test_what_ends_meanwhile_connects_nothing(scene: UpstreamScene, ada: Person) -> None:
    scene.sits()
    for change in (
        "update sessions set revoked_at = now()",
        "update users set deactivated_at = now()",
        f"update oauth_states set user_id = '{scene.people.add().user}'",
    ):
        asked = Connecting(scene, ada)
        url = (await asked.link()).ok()["authorization_url"]
        place = scene.fakes["websuite"].consent(url)
        scene.people.change(change)
        is_page(await asked.tabs.request("GET", place), 400, "This page is out of date")
        scene.people.change("update sessions set revoked_at = null")
        scene.people.change("update users set deactivated_at = null")
    assert scene.identities() == []


async def test_a_session_that_ends_while_the_provider_answers_connects_nothing(
    scene: UpstreamScene, ada: Person, database_url: str
) -> None:
    """When all access is ended, an identity that was under way must not be connected afterwards."""
    scene.sits()
    asked = Connecting(scene, ada)
    place = scene.fakes["websuite"].consent((await asked.link()).ok()["authorization_url"])
    answers: list[Received] = []

    async def come_back() -> None:
        answers.append(await asked.tabs.request("GET", place))

    with psycopg.connect(database_url) as meanwhile:
        meanwhile.execute("select from users where id = %s for no key update", [ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_back)
            await scene.people.somebody_waits()
            meanwhile.execute("update sessions set revoked_at = now() where user_id = %s", [ada.user])
            meanwhile.commit()
    assert told_in(answers[0].header("location"))[1]["error"] == "session_ended"
    assert scene.identities() == []


async def test_what_an_identity_opened_ends_when_it_is_disconnected(scene: UpstreamScene, ada: Person) -> None:
    """As with a new password: a thief who connected an identity is out, and the owner's session goes on."""
    scene.sits()
    token = await scene.people.token(ada)
    await Connecting(scene, ada).come_back()
    thief = scene.browser()
    await scene.go(thief)
    assert await scene.who(thief) == ada.user
    scene.people.change("update users set pending_email = 'thief@evil.example', pending_email_key = 'thief@evil.example'")
    assert (await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=token)).status == 204
    assert await scene.who(thief) is None
    assert (await scene.unlimited.get("/api/user", token=token)).status == 200
    assert scene.people.rows("select pending_email from users where pending_email is not null") == []


async def test_errors_come_back_as_words(scene: UpstreamScene, ada: Person) -> None:
    fake = scene.sits()
    asked = Connecting(scene, ada)
    fake.consent((await asked.link()).ok()["authorization_url"])
    answer = await asked.tabs.request("GET", fake.back(fake.asked, error="access_denied", error_description="secret words"))
    assert told_in(answer.header("location"))[1]["error"] == "cancelled"
    fake.fails = True
    answer = await asked.come_back()
    assert told_in(answer.header("location"))[1]["error"] == "provider_failed"


async def test_an_application_sees_and_changes_what_is_used_in_its_service(scene: UpstreamScene, postbox: Postbox) -> None:
    other = scene.application(scene.acme, "other", "https://other.example.com/callback")
    scene.sits()
    await scene.go(scene.browser(), scene.direct())
    (user,) = scene.people.rows("select id from users where email = %s", ADA)
    ada = Person(user["id"], scene.postern.foundation.ids.new(), ADA)
    here, there = await scene.tenants.token_in(ada, scene.app), await scene.tenants.token_in(ada, other)
    assert [one["provider"] for one in await listed(scene, here)] == ["websuite"]
    assert await listed(scene, there) == []
    scene.people.change("update sessions set proved_at = now()")
    # The only way in, and it came through this service.
    assert refused(await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=here)) == (400, "BAD_REQUEST")
    assert refused(await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=there)) == (404, "NOT_FOUND")
    # Once another service uses it, too, it goes from this one alone.
    await scene.go(scene.browser(), scene.direct("other", redirect_uri="https://other.example.com/callback"))
    assert len(await listed(scene, there)) == 1
    assert (await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=there)).status == 204
    assert (len(await listed(scene, there)), len(await listed(scene, here)), len(scene.identities())) == (0, 1, 1)
    scene.people.change("update users set password_hash = 'x' where id = %s", ada.user)
    elsewhere = await scene.people.token(scene.people.session_of(ada))
    await postbox.empty()
    assert (await scene.unlimited.request("DELETE", f"{PATH}/websuite", token=here)).status == 204
    assert scene.identities() == []
    # An application signs nobody out elsewhere, and the mail does not say so.
    assert (await scene.unlimited.get("/api/user", token=elsewhere)).status == 200
    (mail,) = await postbox.empty()
    assert mail.subject == "Google is no longer connected to your account"
    assert "signed out" not in mail.text


@pytest.mark.parametrize(
    "change",
    ["update all_services set deleted_at = now()", "update all_organizations set status = 'suspended'", "delete from all_services"],
)
async def test_an_application_whose_service_ends_meanwhile_disconnects_nothing(scene: UpstreamScene, ada: Person, change: str) -> None:
    """Its request was let in a moment before. Tried with an identity that was never used there, and with one that came through it."""
    fake = scene.sits()
    identities = scene.postern.identity.identities
    in_service = Caller(UserId(ada.user), Email(ada.email), SessionId(ada.session), False, organization="acme", service="app")
    scene.people.connect(ada, "websuite", fake.issuer, fake.person["sub"])
    with pytest.raises(NotFound):
        await identities.disconnect(in_service, "websuite", Actor(UserId(ada.user)))
    (one,) = scene.people.rows("select id from identities")
    scene.people.change("update identities set came_through = %s", scene.app.id)
    scene.people.change(
        "insert into identity_grants (id, identity_id, service_id, client_id, scopes, updated_at) values (%s, %s, %s, 'x', '{}', now())",
        scene.postern.foundation.ids.new(),
        one["id"],
        scene.app.id,
    )
    scene.people.change(change)
    with pytest.raises(NotFound):
        await identities.disconnect(in_service, "websuite", Actor(UserId(ada.user)))
    assert len(scene.identities()) == 1


async def test_an_application_connects_and_people_come_back_to_it(scene: UpstreamScene, ada: Person) -> None:
    fake = scene.sits()
    token = await scene.tenants.token_in(ada, scene.app)
    asked = Connecting(scene, ada, scene.signed_in(ada))
    scene.people.change("update sessions set proved_at = now()")
    answer = await asked.tabs.request("GET", fake.consent(await asked.answer("websuite", token)))
    assert told_in(answer.header("location")) == (CALLBACK, {"status": "success", "provider": "websuite", "action": "link"})
    assert [one["provider"] for one in await listed(scene, token)] == ["websuite"]


async def test_an_organizations_own_provider_is_not_for_everybody(scene: UpstreamScene, ada: Person) -> None:
    provider = await scene.own_provider()
    scene.tenants.join(ada, scene.acme)
    token = await scene.tenants.token_in(ada, scene.acme)
    scene.people.change("update sessions set proved_at = now()")
    scene.sits(word="own")
    asked = Connecting(scene, ada)
    url = (await asked.link(provider, token)).ok()["authorization_url"]
    answer = await asked.tabs.request("GET", scene.fakes["own"].consent(url))
    # Her address is not in the organization's domain: its owner could make the provider say that it is she.
    assert told_in(answer.header("location"))[1]["error"] == "not_for_account"
    scene.people.change("update domains set domain = 'home.example'")
    url = (await asked.link(provider, token)).ok()["authorization_url"]
    answer = await asked.tabs.request("GET", scene.fakes["own"].consent(url))
    assert told_in(answer.header("location"))[1] == {"status": "success", "provider": provider, "action": "link"}


async def test_the_client_of_the_organization_that_somebody_looks_after_is_used_there_and_back(scene: UpstreamScene, ada: Person) -> None:
    """On the platform, the client of the organization chosen in the browser; in an organization, that organization's client."""
    boss = scene.resident(scene.acme, "owner", "boss")
    fake = scene.sits()
    fake.client_id, fake.client_secret = "acmes-client", "acmes-secret-31337"
    body = {"client_id": fake.client_id, "client_secret": fake.client_secret}
    (await scene.request("POST", "/api/organizations/acme/oauth-credentials/websuite", body, by=boss)).ok()
    scene.tenants.join(ada, scene.acme)
    tabs = scene.signed_in(ada, age=1)
    scene.people.change("update browser_sessions set chosen_organization = %s", scene.acme.id)
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    await tab.send(len(tab.page.forms) - 1)
    answer = await tabs.request("GET", fake.consent(tab.page.refresh))
    assert "status=success" in (answer.header("location") or "")
    scene.people.change("delete from identities")
    token = await scene.tenants.token_in(ada, scene.acme)
    scene.people.change("update sessions set proved_at = now()")
    answer = await Connecting(scene, ada).come_back(token=token)
    assert "status=success" in (answer.header("location") or "")


# On the pages.


async def test_the_page_lists_connects_and_disconnects(scene: UpstreamScene, ada: Person) -> None:
    scene.sits()
    tabs = scene.signed_in(ada, age=1)
    tab = await tabs.tab().open("/ui/settings/connections")
    assert "No connected accounts" in tab.page.text
    assert "/ui/settings/connections/websuite/connect" in tab.page.links
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    await tab.send(1 if len(tab.page.forms) > 1 else 0)
    answer = await tabs.request("GET", scene.fakes["websuite"].consent(tab.page.refresh))
    place, query = told_in(answer.header("location"))
    assert place == CONNECTIONS
    tab = await tabs.tab().open(f"/ui/settings/connections?{'&'.join(f'{name}={value}' for name, value in query.items())}")
    assert "Account connected." in tab.page.text
    assert "Google" in tab.page.text
    tab = await tabs.tab().open("/ui/settings/connections/websuite/disconnect")
    await tab.send(1 if len(tab.page.forms) > 1 else 0)
    assert "Account disconnected." in tab.page.text
    assert scene.identities() == []
    tab = await tabs.tab().open("/ui/settings/connections/websuite/disconnect")
    assert tab.status == 404


async def test_the_page_keeps_the_only_way_in_and_tells_what_went_wrong(scene: UpstreamScene) -> None:
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    tab = await tabs.tab().open("/ui/settings/connections/websuite/disconnect")
    await tab.send(1 if len(tab.page.forms) > 1 else 0)
    assert (tab.status, "only sign-in method" in tab.page.text) == (400, True)
    for error, words in (
        ("taken", "already connected to another account here"),
        ("cancelled", "did not finish"),
        ("<b>", "Signing in at the provider failed"),
    ):
        tab = await tabs.tab().open(f"/ui/settings/connections?status=error&action=link&error={error}")
        assert words in tab.page.text
    assert (await tabs.tab().open("/ui/settings/connections/nothing/connect")).status == 400
    scene.fakes["websuite"].fails = True
    provider = await scene.own_provider(domain="")
    scene.people.change("update upstream_providers set issuer = issuer || '/gone'")
    (user,) = scene.people.rows("select id from users where email = %s", ADA)
    scene.tenants.join(Person(user["id"], user["id"], ADA), scene.acme)
    scene.people.change("update browser_sessions set chosen_organization = %s", scene.acme.id)
    tab = await tabs.tab().open(f"/ui/settings/connections/{provider}/connect")
    await tab.send(1 if len(tab.page.forms) > 1 else 0)
    assert (tab.status, "Signing in at the provider failed" in tab.page.text) == (400, True)


async def test_the_page_asks_for_a_fresh_proof(scene: UpstreamScene, ada: Person) -> None:
    tabs = scene.signed_in(ada, age=3600)
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    assert tab.place.startswith("/ui/prove")


async def test_an_organization_sees_what_is_used_in_its_services_and_the_person_sees_all(scene: UpstreamScene) -> None:
    boss = scene.resident(scene.acme, "owner", "boss")
    for word in ("websuite", "codehost"):
        scene.sits(word=word)
        await scene.go(scene.browser(), scene.direct() if word == "websuite" else "", word=word)
    (user,) = scene.people.rows("select id from users where email = %s", ADA)
    scene.tenants.uses(Person(user["id"], user["id"], ADA), scene.app)
    detail = (await scene.request("GET", f"/api/organizations/acme/users/{user['id']}", by=boss)).ok()
    assert [(one["provider"], one["email"]) for one in detail["linked_identities"]] == [("websuite", ADA)]
    (session,) = scene.people.rows("select id from sessions where user_id = %s limit 1", user["id"])
    token = await scene.people.token(Person(user["id"], session["id"], ADA))
    package = (await scene.unlimited.get(f"/api/privacy/export/{user['id']}", token=token)).ok()
    assert [one["provider"] for one in package["oauth_identities"]] == ["websuite", "codehost"]
    # An owner of the organization gets what belongs to it.
    scene.tenants.join(Person(user["id"], user["id"], ADA), scene.acme)
    package = (await scene.request("GET", f"/api/privacy/export/{user['id']}", by=boss)).ok()
    assert [one["provider"] for one in package["oauth_identities"]] == ["websuite"]
    owner = scene.people.add(platform_owner=True)
    token = await scene.people.token(owner)
    (await scene.unlimited.request("DELETE", f"/api/privacy/forget/{user['id']}", token=token)).ok()
    assert scene.identities() == []
    assert scene.people.rows("select from identity_grants") == []
    tabs = scene.browser()
    scene.sits()
    await scene.go(tabs)
    assert await scene.who(tabs) not in {None, user["id"]}, "the provider's word makes a new account now"
