"""An organization leads the people of its domain to a provider, from every page on which they may sign in, with the organization's client
there. Nobody gets in by another provider if only this one is allowed.
"""

from typing import Any, Final

import pytest
import trio

import adapters.upstream
from adapters.upstream import Upstreams, keys
from core.domain.identity.upstream.providers import ProviderSite
from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_providers import PEOPLE, WORK
from tests.http.cast import all_at_once
from tests.http.client import refused
from tests.http.federation.arriving import CALLBACK, is_page
from tests.http.federation.scim.directories import PATCH_OP, USER, USERS
from tests.http.people import Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.routing import change_route, route
from tests.http.signing_in import LOGIN, PASSWORD
from tests.http.tenants import UsedService
from tests.http.upstream.scene import ADA, UpstreamScene
from tests.http.upstream.test_races import meanwhile

NAME: Final = "example.org"
FALLBACK: Final = "password_fallback_if_provider_unavailable"
PEOPLE_AT_ONCE: Final = 10


@pytest.fixture
def app(scene: UpstreamScene) -> UsedService:
    """An application of another organization than the one that leads its people."""
    return scene.application(scene.tenants.add("globex"), "site", CALLBACK)


async def own(scene: UpstreamScene, login: str = "upstream_only", join: str = "off") -> str:
    """Acme's own provider, and the route that leads there."""
    provider = await scene.own_provider(domain="")
    route(scene.people, scene.acme, NAME, provider=None, login="password_allowed", join=join)
    change_route(scene.people, NAME, own_provider=provider, login_policy=login)
    scene.sits(word="own")
    return provider


async def test_the_address_leads_to_the_own_provider_and_from_there_into_another_organizations_application(
    scene: UpstreamScene, app: UsedService
) -> None:
    await own(scene)
    scene.allow(scene.verified(), app)
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking(app))
    tab = await tab.send(email=ADA)
    leading = tab.page.refresh
    assert leading.startswith("/auth/")
    assert "org=acme" in leading
    answer = await tabs.request("GET", leading)
    assert answer.status == 302
    back = await tabs.request("GET", scene.fakes["own"].consent(answer.header("location") or ""))
    while (back.header("location") or "").startswith("/"):
        back = await tabs.request("GET", back.header("location") or "")
    assert (back.header("location") or back.body.decode()).find("code=") > 0


async def test_an_applications_own_page_leads_there(scene: UpstreamScene, app: UsedService) -> None:
    provider = await own(scene)
    ada = scene.verified()
    answer = await scene.go(scene.browser(), scene.direct("site", org="globex"), word=provider)
    assert "code=" in (answer.header("location") or "")
    assert [row["user_id"] for row in scene.people.rows("select user_id from authorization_codes")] == [ada.user]
    assert app.slug == "site"


@pytest.mark.parametrize("what", ["no route", "not proved", "another provider"])
async def test_an_own_provider_counts_elsewhere_only_where_it_is_led_to(scene: UpstreamScene, app: UsedService, what: str) -> None:
    provider = await own(scene)
    if what == "no route":
        scene.people.change("delete from domain_routes")
    elif what == "not proved":
        scene.people.change("update domain_routes set verified_at = null, next_check_at = null")
    else:
        change_route(scene.people, NAME, login_policy="password_allowed", own_provider=None)
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking(app))
    flow = tab.place.partition("flow=")[2]
    is_page(await tabs.request("GET", f"/auth/{provider}?org=acme&flow={flow}"), 400, "is not set up")


async def test_a_shared_provider_is_used_with_the_client_of_the_organization_that_leads_there(
    scene: UpstreamScene, app: UsedService
) -> None:
    """Nothing is asked for there in the name of another organization's service."""
    scene.set(app, websuite_scopes=["https://www.example/calendar"])
    route(scene.people, scene.acme, NAME, provider="websuite")
    scene.sits()
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking(app))
    flow = tab.place.partition("flow=")[2]
    by_acme = await scene.leave(tabs, f"?org=acme&flow={flow}")
    assert "client_id=c&" in by_acme
    assert "calendar" not in by_acme
    by_ours = await scene.leave(tabs, f"?flow={flow}")
    assert "client_id=websuite-client&" in by_ours
    assert "calendar" in by_ours


@pytest.mark.parametrize("local", ["none", "proved", "never proved", "connected"])
async def test_another_provider_lets_nobody_in_and_writes_nothing(scene: UpstreamScene, local: str) -> None:
    scene.sits()
    if local == "connected":
        await scene.go(scene.browser())
    elif local != "none":
        person = scene.verified()
        if local == "never proved":
            scene.people.change("update users set email_verified_at = null where id = %s", person.user)
    await own(scene)
    before = scene.identities(), scene.people.rows("select id, email_verified_at, password_hash from users order by id")
    tabs = scene.browser()
    is_page(await scene.go(tabs), 400, "sign in with their organization\N{RIGHT SINGLE QUOTATION MARK}s identity provider")
    assert tabs.session is None
    assert (scene.identities(), scene.people.rows("select id, email_verified_at, password_hash from users order by id")) == before


async def test_the_owners_of_the_platform_are_not_led(scene: UpstreamScene) -> None:
    owner = scene.verified()
    scene.people.change("update users set is_platform_owner = true where id = %s", owner.user)
    await own(scene)
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == owner.user


@pytest.mark.parametrize("local", ["none", "proved", "never proved", "connected"])
@pytest.mark.parametrize("by", ["own", "websuite"])
async def test_whoever_comes_by_the_provider_becomes_a_member(scene: UpstreamScene, local: str, by: str) -> None:
    scene.sits(word=by)
    person = None if local in {"none", "connected"} else scene.verified()
    if local == "never proved" and person is not None:
        scene.people.change("update users set email_verified_at = null where id = %s", person.user)
    if by == "own":
        provider = await own(scene, join="on")
        query = "?org=acme"
    else:
        provider, query = "websuite", ""
        route(scene.people, scene.acme, NAME, provider="websuite", join="on")
        scene.people.change("delete from oauth_credentials")
    if local == "connected":
        change_route(scene.people, NAME, join_policy="off")
        await scene.go(scene.browser(), query, word=provider)
        change_route(scene.people, NAME, join_policy="on")
    tabs = scene.browser()
    await scene.go(tabs, query, word=provider)
    user = await scene.who(tabs)
    assert user is not None
    assert scene.people.rows("select role from memberships where user_id = %s", user) == [{"role": "member"}]


async def test_a_provider_that_is_down_lets_people_in_otherwise_where_the_policy_says_so(scene: UpstreamScene) -> None:
    person = await scene.people.with_password(PASSWORD, ADA)
    provider = await own(scene, FALLBACK)
    fake = scene.fakes["own"]
    login = {"email": ADA, "password": PASSWORD}
    assert refused(await scene.unlimited.post(LOGIN, login)) == (403, "FORBIDDEN")
    tabs = scene.browser()
    leaving = await scene.leave(tabs, "?org=acme", word=provider)
    fake.fails = True
    is_page(await tabs.request("GET", fake.consent(leaving)), 503, "did not respond as expected")
    assert [row["provider"] for row in scene.people.rows("select provider from provider_outages")] == [provider]
    page = scene.postern.foundation.metrics.render().decode()
    assert 'sso_upstream_sign_ins_total{outcome="away",provider="upstream"} 1.0' in page
    assert (await scene.unlimited.post(LOGIN, login)).status == 200
    fake.fails = False
    await scene.go(tabs, "?org=acme", word=provider)
    assert scene.people.rows("select from provider_outages") == []
    assert refused(await scene.unlimited.post(LOGIN, login)) == (403, "FORBIDDEN")
    assert await scene.who(tabs) == person.user


async def lead(scene: UpstreamScene, policy: str, by: str) -> tuple[str, str]:
    """The provider's word and the query that leads there."""
    if by == "own":
        return await own(scene, policy), "?org=acme"
    shared(scene, by, policy)
    scene.sits(word=by)
    return by, "?org=acme"


def outages(scene: UpstreamScene) -> list[str]:
    return [row["provider"] for row in scene.people.rows("select provider from provider_outages")]


@pytest.mark.parametrize("by", ["own", "codehost", "websuite", "officesuite"])
async def test_one_that_is_wholly_away_lets_people_in_otherwise_where_the_policy_says_so(
    scene: UpstreamScene, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody comes back from such a provider, so we check it before we send people there. A check of a minute ago still counts."""
    person = await scene.people.with_password(PASSWORD, ADA)
    provider, query = await lead(scene, FALLBACK, by)
    fake = scene.fakes[by]
    login = {"email": ADA, "password": PASSWORD}
    await scene.leave(scene.browser(), query, word=provider)
    assert refused(await scene.unlimited.post(LOGIN, login)) == (403, "FORBIDDEN")
    fake.fails = True
    await scene.leave(scene.browser(), query, word=provider)
    assert outages(scene) == []
    monkeypatch.setattr(keys, "LOOK_COUNTS_FOR", -1.0)
    tabs, asked = scene.browser(), len(fake.calls)
    answer = await tabs.request("GET", f"/auth/{provider}{query}")
    if by == "own":
        # A page with a button comes first.
        answer = await tabs.request("GET", next(link for link in PageReader(answer.body).links if link.startswith("/auth/")))
    is_page(answer, 400, "Signing in at the provider failed")
    assert (outages(scene), len(fake.calls) - asked) == ([provider], 1)
    assert (await scene.unlimited.post(LOGIN, login)).status == 200
    # The next person gets the same answer without a call, since the failure was a moment ago.
    await tabs.request("GET", f"/auth/{provider}{query}")
    assert len(fake.calls) - asked == 1
    # Only a person who comes back proves that the provider works again; people who leave rely on the remembered check.
    fake.fails = False
    monkeypatch.setattr(keys, "FAILURE_COUNTS_FOR", -1.0)
    leaving = await scene.leave(tabs, query, word=provider)
    assert outages(scene) == [provider]
    await tabs.request("GET", fake.consent(leaving))
    assert outages(scene) == []
    assert await scene.who(tabs) == person.user


@pytest.mark.parametrize("by", ["own", "codehost", "websuite", "officesuite"])
async def test_the_first_person_who_tries_a_password_is_let_in(scene: UpstreamScene, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The try itself looks whether the provider answers. A look of a person who left a moment before does not count for it."""
    await scene.people.with_password(PASSWORD, ADA)
    provider, query = await lead(scene, FALLBACK, by)
    fake = scene.fakes[by]
    tabs = scene.browser()
    await scene.leave(tabs, query, word=provider)
    monkeypatch.setattr(keys, "ATTEMPT_COUNTS_FOR", -1.0)
    fake.fails = True
    way = (await scene.unlimited.post("/api/auth/lookup-email", {"email": ADA})).ok()
    assert way["auth_method"] == ("upstream" if by == "own" else "oauth")
    await scene.leave(tabs, query, word=provider)
    assert refused(await scene.unlimited.post(LOGIN, {"email": ADA, "password": "not her password"})) == (401, "UNAUTHORIZED")
    assert outages(scene) == [provider]
    assert (await scene.unlimited.post(LOGIN, {"email": ADA, "password": PASSWORD})).status == 200
    assert (await scene.unlimited.post("/api/auth/lookup-email", {"email": ADA})).ok()["auth_method"] == "password"


@pytest.mark.parametrize("by", ["own", "codehost", "websuite", "officesuite"])
async def test_a_password_is_no_way_in_once_somebody_has_come_back(scene: UpstreamScene, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failed look is a moment old, and still remembered. It is older than the success, and nobody's try makes news of it."""
    await scene.people.with_password(PASSWORD, ADA)
    provider, query = await lead(scene, FALLBACK, by)
    fake = scene.fakes[by]
    tabs = scene.browser()
    leaving = await scene.leave(tabs, query, word=provider)
    monkeypatch.setattr(keys, "ATTEMPT_COUNTS_FOR", -1.0)
    fake.fails = True
    login = {"email": ADA, "password": PASSWORD}
    assert (await scene.unlimited.post(LOGIN, login)).status == 200
    assert outages(scene) == [provider]
    fake.fails = False
    await tabs.request("GET", fake.consent(leaving))
    assert outages(scene) == []
    for password in (PASSWORD, "not her password"):
        tried = await scene.unlimited.post(LOGIN, {"email": ADA, "password": password})
        assert refused(tried) == (403, "FORBIDDEN")
        assert outages(scene) == []
    # Nor is anybody kept from the provider.
    monkeypatch.setattr(keys, "LOOK_COUNTS_FOR", -1.0)
    await scene.leave(scene.browser(), query, word=provider)
    assert outages(scene) == []


@pytest.mark.parametrize("by", ["own", "websuite"])
async def test_what_is_remembered_of_an_outage_does_not_lengthen_it(scene: UpstreamScene, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, query = await lead(scene, FALLBACK, by)
    await scene.leave(scene.browser(), query, word=provider)
    monkeypatch.setattr(keys, "LOOK_COUNTS_FOR", -1.0)
    scene.fakes[by].fails = True

    async def leave() -> None:
        tabs = scene.browser()
        answer = await tabs.request("GET", f"/auth/{provider}{query}")
        if by == "own":
            answer = await tabs.request("GET", next(link for link in PageReader(answer.body).links if link.startswith("/auth/")))
        is_page(answer, 400, "Signing in at the provider failed")

    await leave()
    (noted,) = scene.people.rows("select failed_at from provider_outages")
    asked = len(scene.fakes[by].calls)
    await leave()
    assert scene.people.rows("select failed_at from provider_outages") == [noted]
    assert len(scene.fakes[by].calls) == asked


async def test_a_provider_that_never_answers_is_waited_for_a_moment(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.people.with_password(PASSWORD, ADA)
    provider, _ = await lead(scene, FALLBACK, "own")
    monkeypatch.setattr(keys, "ATTEMPT_COUNTS_FOR", -1.0)
    monkeypatch.setattr(adapters.upstream, "LOOK_PATIENCE", 0.0)
    assert (await scene.unlimited.post(LOGIN, {"email": ADA, "password": PASSWORD})).status == 200
    assert outages(scene) == [provider]


async def test_a_password_looks_nowhere_where_nothing_falls_back(scene: UpstreamScene) -> None:
    await scene.people.with_password(PASSWORD, ADA)
    await lead(scene, "upstream_only", "websuite")
    scene.fakes["websuite"].fails = True
    asked = len(scene.fakes["websuite"].calls)
    assert refused(await scene.unlimited.post(LOGIN, {"email": ADA, "password": PASSWORD})) == (403, "FORBIDDEN")
    assert (len(scene.fakes["websuite"].calls), outages(scene)) == (asked, [])


@pytest.mark.parametrize("by", ["own", "codehost", "websuite", "officesuite"])
async def test_where_nothing_falls_back_nobody_looks(scene: UpstreamScene, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "LOOK_COUNTS_FOR", -1.0)
    provider, query = await lead(scene, "upstream_only", by)
    await scene.leave(scene.browser(), query, word=provider)
    asked = len(scene.fakes[by].calls)
    scene.fakes[by].fails = True
    await scene.leave(scene.browser(), query, word=provider)
    assert (len(scene.fakes[by].calls), outages(scene)) == (asked, [])
    # Nor where the domain is not proved any more, or the person was not led there by it.
    change_route(scene.people, NAME, login_policy=FALLBACK)
    if by != "own":
        await scene.leave(scene.browser(), word=provider)
    scene.people.change("update domain_routes set verified_at = null, next_check_at = null")
    await scene.leave(scene.browser(), query, word=provider)
    assert (len(scene.fakes[by].calls), outages(scene)) == (asked, [])


@pytest.mark.parametrize("by", ["own", "websuite"])
async def test_what_it_publishes_wrongly_is_no_outage(scene: UpstreamScene, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, query = await lead(scene, FALLBACK, by)
    await scene.leave(scene.browser(), query, word=provider)
    monkeypatch.setattr(keys, "LOOK_COUNTS_FOR", -1.0)
    monkeypatch.setattr(scene.fakes[by], "metadata", list)
    scene.fakes[by].published.clear()
    await scene.leave(scene.browser(), query, word=provider)
    assert outages(scene) == []


async def test_of_many_who_leave_at_once_one_looks(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have read that the provider is there before the first of them looks. Whoever reads it later knows of the outage."""
    provider, query = await lead(scene, FALLBACK, "websuite")
    await scene.leave(scene.browser(), query, word=provider)
    monkeypatch.setattr(keys, "LOOK_COUNTS_FOR", 0.0)
    fake = scene.fakes["websuite"]
    fake.fails, asked = True, len(fake.calls)
    look, all_are_there = Upstreams.look, trio.Event()
    known: list[bool] = []

    async def look_together(self: Upstreams, site: ProviderSite, **named: bool) -> None:
        known.append(named["is_away"])
        if len(known) == PEOPLE_AT_ONCE:
            all_are_there.set()
        await all_are_there.wait()
        await look(self, site, **named)

    monkeypatch.setattr(Upstreams, "look", look_together)
    answers = await all_at_once(*[lambda: scene.browser().request("GET", f"/auth/{provider}{query}")] * PEOPLE_AT_ONCE)
    assert {answer.status for answer in answers} == {400}
    assert (known, len(fake.calls) - asked) == ([False] * PEOPLE_AT_ONCE, 1)
    # The next person reads that it is away.
    await scene.browser().request("GET", f"/auth/{provider}{query}")
    assert (known[PEOPLE_AT_ONCE:], len(fake.calls) - asked) == ([True], 1)


async def test_a_refusal_is_no_outage(scene: UpstreamScene) -> None:
    provider = await own(scene, FALLBACK)
    tabs = scene.browser()
    fake = scene.fakes["own"]
    back = fake.consent(await scene.leave(tabs, "?org=acme", word=provider))
    fake.codes.clear()
    is_page(await tabs.request("GET", back), 502)
    tabs = scene.browser()
    back = fake.back(dict(fake.asked), error="server_error")
    await tabs.request("GET", back)
    assert scene.people.rows("select from provider_outages") == []


async def test_a_passkey_that_is_a_second_factor_is_asked_for(scene: UpstreamScene) -> None:
    ada = scene.verified()
    scene.people.give_passkey(ada, second_factor=True)
    scene.sits()
    tabs = scene.browser()
    answer = await scene.go(tabs)
    assert (answer.header("location") or "").startswith("/ui/sign-in/second-factor")
    assert tabs.session is None


def shared(scene: UpstreamScene, word: str = "websuite", login: str = "upstream_only", join: str = "off") -> None:
    """The people of the domain sign in at one of the three, with the installation's client."""
    route(scene.people, scene.acme, NAME, provider=word, login=login, join=join)
    scene.people.change("delete from oauth_credentials")


def personal(word: str, email: str = "ada@home.example", *, verified: bool = True) -> dict[str, Any]:
    """Another account at the provider."""
    subject, name = {"codehost": ("id", 99), "websuite": ("sub", "99"), "officesuite": ("oid", "99")}[word]
    return {**PEOPLE[word](email, verified), subject: name}


def connected(scene: UpstreamScene, word: str, ada: Person, **person: Any) -> None:
    fake = scene.fakes[word]
    fake.person = {**fake.person, **person}
    subject = {"codehost": "id", "websuite": "sub", "officesuite": "oid"}[word]
    name, issuer = str(fake.person[subject]), fake.issuer
    if word == "officesuite":
        name, issuer = f"{WORK}:{name}", f"{fake.url}/{WORK}/v2.0"
    scene.people.connect(ada, word, issuer, name)


@pytest.mark.parametrize("word", ["codehost", "websuite", "officesuite"])
@pytest.mark.parametrize("login", ["upstream_only", FALLBACK])
@pytest.mark.parametrize(
    ("email", "verified", "lets_in"),
    [
        (ADA, True, True),
        ("Ada@EXAMPLE.org", True, True),
        ("lovelace@example.org", True, True),
        (ADA, False, False),
        ("", False, False),
        ("ada@home.example", True, False),
        ("ada@sub.example.org", True, False),
        ("ada@acme.test", True, True),
        ("ada@globex.test", True, False),
        ("ada@unproved.test", True, False),
    ],
)
async def test_the_provider_must_know_the_person_by_an_address_of_the_organization_now(
    scene: UpstreamScene, word: str, login: str, email: str, *, verified: bool, lets_in: bool
) -> None:
    """A person who has left the organization has no such address any more, and anybody can have an account at the provider."""
    ada = scene.verified()
    scene.sits(email, word=word, verified=verified)
    connected(scene, word, ada)
    shared(scene, word, login, join="on")
    route(scene.people, scene.acme, "acme.test", provider=None, login="password_allowed")
    route(scene.people, scene.acme, "unproved.test", provider=None, login="password_allowed", proved=False)
    route(scene.people, scene.tenants.add("globex"), "globex.test", provider=None, login="password_allowed")
    tabs = scene.browser()
    answer = await scene.go(tabs, word=word)
    if lets_in:
        assert await scene.who(tabs) == ada.user
    else:
        is_page(answer, 400, "has no verified email address of your organization")
        assert tabs.session is None
    assert len(scene.people.rows("select from memberships where user_id = %s", ada.user)) == lets_in


@pytest.mark.parametrize("told", ["ada@straße.test", "ada@xn--strae-oqa.test"])
async def test_a_domain_that_only_an_older_rule_takes_for_the_organizations_is_another(scene: UpstreamScene, told: str) -> None:
    """`straße` and `strasse` are two domains in IDNA 2008, and may be two owners'. In IDNA 2003 they were one."""
    ada = scene.verified("ada@strasse.test")
    scene.sits(told)
    connected(scene, "websuite", ada)
    route(scene.people, scene.acme, "strasse.test", provider="websuite", login="upstream_only")
    tabs = scene.browser()
    is_page(await scene.go(tabs), 400, "has no verified email address of your organization")
    assert tabs.session is None


async def test_an_account_connected_in_a_session_does_not_do_either(scene: UpstreamScene) -> None:
    shared(scene)
    fake = scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    ada = await scene.who(tabs)
    assert ada is not None
    scene.people.change("delete from identities")
    scene.people.connect(Person(ada, scene.postern.foundation.ids.new(), ADA), "websuite", fake.issuer, "99")
    other = scene.browser()
    is_page(await scene.go(other, **personal("websuite")), 400, "has no verified email address of your organization")
    assert other.session is None
    # Nor in the session that they have.
    cookie = tabs.session
    is_page(await scene.go(tabs, **personal("websuite")), 400)
    assert tabs.session == cookie


@pytest.mark.parametrize("what", ["password_allowed", "not proved", "suspended", "away"])
async def test_where_other_ways_are_open_any_account_there_will_do(scene: UpstreamScene, what: str) -> None:
    ada = scene.verified()
    scene.sits("ada@home.example")
    connected(scene, "websuite", ada)
    shared(scene, login=FALLBACK if what == "away" else "upstream_only")
    if what == "password_allowed":
        change_route(scene.people, NAME, login_policy=what)
    elif what == "not proved":
        scene.people.change("update domain_routes set verified_at = null, next_check_at = null")
    elif what == "suspended":
        scene.people.change("update all_organizations set status = 'suspended'")
    else:
        change_route(scene.people, NAME, shared_provider="codehost")
        scene.people.change("insert into provider_outages (provider, failed_at) values ('codehost', now())")
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == ada.user


async def test_the_owners_of_the_platform_come_in_by_any_account_there(scene: UpstreamScene) -> None:
    owner = scene.verified()
    scene.people.change("update users set is_platform_owner = true where id = %s", owner.user)
    scene.sits("ada@home.example")
    connected(scene, "websuite", owner)
    shared(scene)
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == owner.user


@pytest.mark.parametrize("local", ["none", "proved", "never proved", "connected"])
@pytest.mark.parametrize("begun", ["here", "by another organization's application"])
async def test_whoever_comes_with_another_client_is_led_on_to_the_organizations(
    scene: UpstreamScene, app: UsedService, local: str, begun: str
) -> None:
    """It may let in fewer people than the installation's."""
    fake = scene.sits()
    person = None if local == "none" else scene.verified()
    if local == "connected" and person is not None:
        connected(scene, "websuite", person)
    elif local == "never proved" and person is not None:
        scene.people.change("update users set email_verified_at = null where id = %s", person.user)
    route(scene.people, scene.acme, NAME, provider="websuite")
    before = scene.identities(), scene.people.rows("select id, email_verified_at from users order by id")
    tabs = scene.browser()
    answer = await scene.go(tabs, scene.direct("site", org="globex") if begun != "here" else "")
    leading = answer.header("location") or ""
    assert (answer.status, tabs.session) == (302, None)
    assert leading.startswith("/auth/websuite?flow=")
    assert leading.endswith("&org=acme")
    assert (scene.identities(), scene.people.rows("select id, email_verified_at from users order by id")) == before
    # A browser that comes back twice is led there, too.
    assert (await tabs.request("GET", fake.back(fake.asked, code="again"))).header("location") == leading
    fake.client_id, fake.client_secret = "c", "secret"
    onward = await tabs.request("GET", leading)
    back = await tabs.request("GET", fake.consent(onward.header("location") or ""))
    assert back.status in {302, 303}
    user = await scene.who(tabs)
    assert user is not None
    assert person is None or user == person.user
    assert ("code=" in (back.header("location") or "")) == (begun != "here")
    assert app.slug == "site"


async def test_an_application_of_the_organization_leads_there_with_its_client_at_once(scene: UpstreamScene) -> None:
    scene.verified()
    fake = scene.sits()
    route(scene.people, scene.acme, NAME, provider="websuite")
    fake.client_id, fake.client_secret = "c", "secret"
    assert "code=" in ((await scene.go(scene.browser(), scene.direct())).header("location") or "")


@pytest.mark.parametrize("told", ["ada@home.example", "", "ada@example.com"])
async def test_the_organizations_account_takes_the_place_of_one_that_does_not_do(scene: UpstreamScene, told: str) -> None:
    """The personal account was connected before the route was there. Otherwise nobody could sign in any more."""
    ada = scene.verified()
    scene.sits(ADA)
    connected(scene, "websuite", ada, **personal("websuite", told))
    scene.people.change("update identities set email = %s", told)
    shared(scene)
    postbox = Postbox(scene.postern)
    await postbox.empty()
    scene.sits(ADA)
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == ada.user
    (identity,) = scene.identities()
    assert (identity["subject"], identity["email"]) == ("110169484474386276334", ADA)
    subjects = {mail.subject for mail in await postbox.empty()}
    assert {"Google is no longer connected to your account", "Google is connected to your account"} <= subjects
    events = [(one["name"], one["details"].get("how")) for one in scene.told("audit_log") if one["name"].startswith("user.identity")]
    assert events == [("user.identity.unlinked", None), ("user.identity.linked", "replaced")]
    tabs = scene.browser()
    await scene.go(tabs, **personal("websuite"))
    assert await scene.who(tabs) not in {None, ada.user}, "it has an account of its own now"


@pytest.mark.parametrize("what", ["an address of the domain", "password_allowed", "another provider", "platform owner", "not verified"])
async def test_otherwise_nobody_takes_the_place_of_an_account_that_is_connected(scene: UpstreamScene, what: str) -> None:
    """Addresses get new owners."""
    ada = scene.verified()
    scene.sits(ADA)
    connected(scene, "websuite", ada, **personal("websuite"))
    scene.people.change("update identities set email = 'ada@home.example'")
    shared(scene)
    if what == "an address of the domain":
        scene.people.change("update identities set email = 'Ada.L@Example.org'")
    elif what == "password_allowed":
        change_route(scene.people, NAME, login_policy=what)
    elif what == "another provider":
        change_route(scene.people, NAME, shared_provider="codehost")
    elif what == "platform owner":
        scene.people.change("update users set is_platform_owner = true where id = %s", ada.user)
    before = scene.identities()
    scene.sits(ADA, verified=what != "not verified")
    tabs = scene.browser()
    is_page(await scene.go(tabs), 400)
    assert tabs.session is None
    assert scene.identities() == before


@pytest.mark.parametrize(
    ("change", "lets_in"),
    [
        ("delete from identities", True),
        ("update identities set email = 'ada.l@example.org'", False),
        ("update identities set email = 'ada@another.example'", True),
    ],
)
async def test_an_account_that_changes_before_its_place_is_taken(scene: UpstreamScene, change: str, lets_in: bool) -> None:
    ada = scene.verified()
    scene.sits(ADA)
    connected(scene, "websuite", ada, **personal("websuite"))
    scene.people.change("update identities set email = 'ada@home.example'")
    shared(scene)
    scene.sits(ADA)
    meanwhile(scene, lambda: scene.people.change(change))
    tabs = scene.browser()
    await scene.go(tabs)
    assert (await scene.who(tabs) == ada.user) == lets_in


class TestRoutes:
    @pytest.fixture
    def scene(self, scene: UpstreamScene) -> UpstreamScene:
        scene.speaker = scene.resident(scene.acme, "owner", "boss")
        return scene

    async def test_a_route_names_a_provider_of_its_own_organization_which_then_stays(self, scene: UpstreamScene) -> None:
        provider = await scene.own_provider(domain="")
        routes, providers = "/api/organizations/acme/domain-routes", f"/api/organizations/acme/upstream-providers/{provider}"
        body = {"domain": "acme.test", "upstream_provider_id": provider, "login_policy": "upstream_only"}
        made = (await scene.request("POST", routes, body)).ok(201)
        assert made["upstream_provider_id"] == provider
        assert refused(await scene.request("DELETE", providers)) == (409, "CONFLICT")
        # Turned off, it can be.
        (await scene.request("PATCH", providers, {"enabled": False})).ok()
        cleared = {"upstream_provider_id": None, "login_policy": "password_allowed"}
        (await scene.request("PATCH", f"{routes}/{made['id']}", cleared)).ok()
        assert (await scene.request("DELETE", providers)).status == 204
        assert refused(await scene.request("PATCH", f"{routes}/{made['id']}", {"upstream_provider_id": provider})) == (400, "BAD_REQUEST")

    async def test_a_route_names_no_provider_of_another_organization(self, scene: UpstreamScene) -> None:
        provider = await scene.own_provider(domain="")
        globex = scene.tenants.add("globex")
        eve = scene.resident(globex, "owner", "eve")
        body = {"domain": "globex.test", "upstream_provider_id": provider}
        answer = await scene.request("POST", "/api/organizations/globex/domain-routes", body, by=eve)
        assert refused(answer) == (400, "BAD_REQUEST")

    async def test_a_route_may_name_what_the_installation_has(self, scene: UpstreamScene) -> None:
        body = {"domain": "acme.test", "upstream_provider_id": "officesuite"}
        assert (await scene.request("POST", "/api/organizations/acme/domain-routes", body)).ok(201)["upstream_provider_id"] == "officesuite"


async def test_the_lookup_names_what_the_installation_has(scene: UpstreamScene) -> None:
    route(scene.people, scene.acme, NAME, provider="codehost")
    scene.people.change("delete from oauth_credentials")
    told = (await scene.unlimited.post("/api/auth/lookup-email", {"email": ADA})).ok()
    assert (told["provider_name"], told["auth_method"]) == ("codehost", "oauth")


@pytest.mark.parametrize("local", ["none", "proved", "connected"])
@pytest.mark.parametrize("told", ["ada@bücher.example", "ada@xn--bcher-kva.example", "Ada@BÜCHER.example"])
async def test_a_domain_with_other_letters_is_the_same_domain_however_it_is_written(scene: UpstreamScene, local: str, told: str) -> None:
    """The policy counts for both ways to write it, so the provider's word must, too: or nobody would get in."""
    person = None if local == "none" else scene.verified("ada@bücher.example")
    provider = await scene.own_provider(domain="")
    route(scene.people, scene.acme, "xn--bcher-kva.example", provider=None, login="password_allowed", join="on")
    change_route(scene.people, "xn--bcher-kva.example", own_provider=provider, login_policy="upstream_only")
    if local == "connected":
        scene.people.change(
            "insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, linked_at)"
            " values (gen_random_uuid(), %s, %s, %s, %s, 'u-1', '', now())",
            person and person.user,
            provider,
            provider,
            scene.fakes["own"].issuer,
        )
    scene.sits(told, word="own")
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=provider)
    user = await scene.who(tabs)
    assert user is not None
    assert scene.people.rows("select role from memberships where user_id = %s", user) == [{"role": "member"}]
    if person is not None and (local == "connected" or "xn--" not in told):
        assert user == person.user


async def test_what_a_service_may_do_at_the_provider_outlives_a_sign_in_with_another_organizations_client(
    scene: UpstreamScene, app: UsedService
) -> None:
    scene.set(app, websuite_scopes=["https://www.example/calendar"])
    fake = scene.sits()
    ada = scene.verified()
    assert "code=" in ((await scene.go(scene.browser(), scene.direct("site", org="globex"))).header("location") or "")
    token = await scene.tenants.token_in(ada, app)
    given = (await scene.unlimited.get("/api/provider-token/websuite", token=token)).ok()
    route(scene.people, scene.acme, NAME, provider="websuite")
    fake.client_id, fake.client_secret = "c", "secret"
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking(app))
    flow = tab.place.partition("flow=")[2]
    await scene.go(tabs, f"?org=acme&flow={flow}")
    assert await scene.who(tabs) == ada.user
    assert (await scene.unlimited.get("/api/provider-token/websuite", token=token)).ok() == given
    # Nor is anything kept of what came with the other client.
    scene.people.change("delete from identity_grants")
    await scene.go(tabs, f"?org=acme&flow={(await tabs.tab().open(scene.asking(app, prompt='login'))).place.partition('flow=')[2]}")
    (grant,) = scene.people.rows("select sealed_access_token, sealed_refresh_token, scopes from identity_grants")
    assert grant == {"sealed_access_token": None, "sealed_refresh_token": None, "scopes": []}


@pytest.mark.parametrize("by", ["acme", "evil"])
@pytest.mark.parametrize("came", [True, False], ids=["has come", "never came"])
async def test_no_other_directory_keeps_people_out_of_their_own_provider(scene: UpstreamScene, by: str, *, came: bool) -> None:
    """The directory makes an account for a person of acme's domain and blocks it. A link opens what a stranger has blocked."""
    provider = await own(scene)
    tenant = scene.acme if by == "acme" else scene.tenants.add(by)
    boss = scene.resident(tenant, "owner", f"boss-of-{by}")
    token = (await scene.request("POST", f"/api/organizations/{by}/scim-tokens", {"name": "x"}, by=boss)).ok()["token"]
    made = (await scene.unlimited.post(USERS, {"schemas": [USER], "userName": ADA}, token=token)).ok(201)["id"]
    if came:
        tabs = scene.browser()
        await scene.go(tabs, "?org=acme", word=provider)
        assert await scene.who(tabs) is not None
    body = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    assert (await scene.unlimited.request("PATCH", f"{USERS}/{made}", body=body, token=token)).status == 200
    assert scene.people.rows("select from users where email = %s and deactivated_at is not null", ADA)
    await Postbox(scene.postern).empty()
    (await scene.unlimited.post("/api/auth/forgot-password", {"email": ADA})).ok()
    mails = await Postbox(scene.postern).empty()
    if by == "acme":
        assert mails == []
    else:
        token = token_in(link_in(mails[-1]))
        scene.log.remember(token, PASSWORD)
        (await scene.unlimited.post("/api/auth/reset-password", {"token": token, "new_password": PASSWORD})).ok()
        # The password is of no use, and the account is nobody's.
        assert (await scene.unlimited.post(LOGIN, {"email": ADA, "password": PASSWORD})).status == 403
        assert scene.people.rows("select origin_org_id from users where email = %s", ADA) == [{"origin_org_id": None}]
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=provider)
    assert (await scene.who(tabs) is not None) is (by == "evil")
