"""Changes between the look at an account and the use of the provider's statement."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio

from core.domain.errors import Unavailable
from core.domain.identity.browser_sessions import MOST_ACCOUNTS
from core.domain.identity.upstream.identities import LEASE
from core.domain.mail import Email
from core.frozen import replace
from core.usecases.identity.upstream import provider_tokens
from ops.browser.page_reader import PageReader
from tests.changed_fields import answer_by, put
from tests.http.browsing import Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.federation.arriving import SESSION_COOKIE, answer_in, is_page
from tests.http.locks import behind
from tests.http.signing_in import enable_mfa
from tests.http.upstream.linking.test_identities import Connecting
from tests.http.upstream.scene import ADA, UpstreamScene, told_in
from tests.http.upstream.test_provider_tokens import TokenHolder
from tests.patience import SOONER


class Meanwhile:
    """The look-up of a use case, and a change that happens right after it."""

    def __init__(self, lookup: Any, then: Callable[[], None], *, always: bool = False) -> None:
        self._lookup = lookup
        self._then = then
        self._always = always
        self._looked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lookup, name)

    async def meet(self, *given: Any, **more: Any) -> Any:
        met = await self._lookup.meet(*given, **more)
        if self._always or not self._looked:
            self._looked = True
            self._then()
        return met


def meanwhile(scene: UpstreamScene, then: Callable[[], None], *, always: bool = False) -> None:
    use_case: Any = scene.postern.identity.upstream_proofs
    put(use_case, lookup=Meanwhile(use_case.lookup, then, always=always))


def looking_meanwhile(scene: UpstreamScene, then: Callable[[], None]) -> None:
    """Like `meanwhile`, for a person who connects an identity."""
    use_case: Any = scene.postern.identity.identities
    put(use_case, upstream=Meanwhile(use_case.upstream, then))


async def test_somebody_registers_the_address(scene: UpstreamScene) -> None:
    scene.sits()
    meanwhile(scene, lambda: scene.people.change("insert into users (id, email, email_key) values (gen_random_uuid(), %s, %s)", ADA, ADA))
    tabs = scene.browser()
    await scene.go(tabs)
    (user,) = scene.people.rows("select id, email_verified_at is not null as verified from users where email = %s", ADA)
    assert (await scene.who(tabs), user["verified"]) == (user["id"], True)


def connect_to_another(scene: UpstreamScene) -> None:
    fake = scene.fakes["websuite"]
    scene.people.connect(scene.people.add(), "websuite", fake.issuer, fake.person["sub"])


@pytest.mark.parametrize("local", ["none", "verified", "unverified"])
async def test_somebody_else_connects_the_identity(scene: UpstreamScene, local: str) -> None:
    scene.sits()
    if local == "verified":
        scene.verified()
    if local == "unverified":
        scene.people.add(ADA)
    before = scene.people.rows("select id, password_hash, email_verified_at from users where email = %s", ADA)
    meanwhile(scene, lambda: connect_to_another(scene))
    tabs = scene.browser()
    await scene.go(tabs)
    (identity,) = scene.identities()
    assert await scene.who(tabs) == identity["user_id"]
    assert scene.people.rows("select id, password_hash, email_verified_at from users where email = %s", ADA) == before


@pytest.mark.parametrize(
    "change",
    [
        "update users set email = 'new@example.net', email_key = 'new@example.net'",
        "update users set deactivated_at = now()",
        "update users set email_verified_at = null",
    ],
)
async def test_the_account_moves_on(scene: UpstreamScene, change: str) -> None:
    ada = scene.verified()
    scene.sits()
    meanwhile(scene, lambda: scene.people.change(f"{change} where id = %s", ada.user))
    tabs = scene.browser()
    await scene.go(tabs)
    who = await scene.who(tabs)
    if "email_key" in change:
        assert who not in {None, ada.user}
    elif "deactivated" in change:
        assert who is None
    else:
        assert who == ada.user, "it is hers by the provider's word"
        assert scene.people.rows("select password_hash from users where id = %s", ada.user) == [{"password_hash": None}]


async def test_the_owner_proves_the_address(scene: UpstreamScene) -> None:
    """The owner has just proved the account, so it is not reset: the identity is connected, and the password stays."""
    ada = scene.people.add(ADA)
    scene.people.change("update users set password_hash = 'x' where id = %s", ada.user)
    scene.sits()
    meanwhile(scene, lambda: scene.people.change("update users set email_verified_at = now()"))
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs) == ada.user
    assert scene.people.rows("select password_hash from users where id = %s", ada.user) == [{"password_hash": "x"}]


async def test_it_changes_back_and_forth(scene: UpstreamScene) -> None:
    ada = scene.verified()
    scene.sits()
    names = iter(range(100))
    meanwhile(
        scene,
        lambda: scene.people.change("update users set language = %s where id = %s", ["de", "fr"][next(names) % 2], ada.user),
        always=True,
    )
    is_page(await scene.go(scene.browser()), 503)


@pytest.mark.parametrize(
    "change",
    ["delete from identities", "update users set deactivated_at = now()", "update users set password_changed_at = now() + interval '1 s'"],
)
async def test_what_ends_before_the_session_opens_nobody_comes_in_with(scene: UpstreamScene, change: str) -> None:
    scene.sits()
    await scene.go(scene.browser())
    meanwhile(scene, lambda: scene.people.change(change))
    tabs = scene.browser()
    assert (await scene.go(tabs)).status == 400
    assert tabs.session is None


async def test_a_second_factor_that_is_enabled_meanwhile_is_asked_for(scene: UpstreamScene) -> None:
    ada = scene.verified()
    scene.sits()
    enabled = "insert into mfa_secrets (user_id, sealed_secret, enabled_at, created_at) values (%s, 'x', now(), now())"
    meanwhile(scene, lambda: scene.people.change(enabled, ada.user))
    tabs = scene.browser()
    assert (await scene.go(tabs)).status == 400
    assert tabs.session is None
    answer = await scene.go(tabs)
    assert (answer.header("location") or "").startswith("/ui/sign-in/second-factor")


@pytest.mark.parametrize(
    "change",
    [
        "update flows set signed_in_at = now(), proof_digest = 'another'",
        "update flows set expires_at = now() - interval '1 s'",
        "delete from flows",
    ],
)
async def test_a_flow_that_ends_before_the_session_opens_leads_nobody_on(scene: UpstreamScene, change: str) -> None:
    scene.sits()
    await scene.go(scene.browser())
    tabs = scene.browser()
    place = scene.fakes["websuite"].consent(await scene.leave(tabs))
    meanwhile(scene, lambda: scene.people.change(change))
    is_page(await tabs.request("GET", place), 400, "This page is out of date")
    assert tabs.session is None
    assert scene.people.rows("select count(*) from login_events where success") == [{"count": 1}]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("select 1", 303),
        ("delete from identities", 400),
        ("update flows set signed_in_at = now(), proof_digest = 'another' where signed_in_at is null", 400),
    ],
)
async def test_whoever_is_signed_in_already_goes_on_in_their_session_unless_something_ends_meanwhile(
    scene: UpstreamScene, change: str, status: int
) -> None:
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    cookie, before = tabs.session, scene.people.rows("select id, proved_at from sessions")
    meanwhile(scene, lambda: scene.people.change(change))
    assert (await scene.go(tabs)).status == status
    after = scene.people.rows("select id, proved_at from sessions")
    assert [one["id"] for one in after] == [one["id"] for one in before]
    assert ((tabs.session, after) == (cookie, before)) == (status == 400)


@pytest.mark.parametrize("change", ["update flows set browser_digest = 'another'", "update flows set expires_at = now()"])
async def test_who_comes_back_to_a_flow_that_is_over_or_another_browsers_is_not_asked_about(scene: UpstreamScene, change: str) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs))
    scene.people.change(change)
    is_page(await tabs.request("GET", place), 400, "This page is out of date")
    assert tabs.session is None
    assert fake.forms == [], "the code goes to nobody"


async def test_an_identity_that_becomes_somebody_elses_meanwhile_lets_nobody_in(scene: UpstreamScene) -> None:
    scene.sits()
    await scene.go(scene.browser())
    other = scene.people.add("other@example.org")
    meanwhile(scene, lambda: scene.people.change("update identities set user_id = %s", other.user))
    tabs = scene.browser()
    assert (await scene.go(tabs)).status == 400
    assert tabs.session is None


OWN_ENDS = {
    "disabled": "update upstream_providers set enabled = false",
    "deleted": "delete from upstream_providers",
    "suspended": "update all_organizations set status = 'suspended'",
    "domain lost": "update domains set verified_at = null, next_check_at = null",
    "another domain": "update domains set domain = 'example.com'",
}


@pytest.mark.parametrize("local", ["none", "proved", "never proved", "connected", "in a service"])
@pytest.mark.parametrize("change", OWN_ENDS)
@pytest.mark.parametrize("moment", ["while it is asked", "after the look"])
async def test_an_own_provider_that_ends_meanwhile_lets_nobody_in_and_writes_nothing(
    scene: UpstreamScene, local: str, change: str, moment: str
) -> None:
    provider = await scene.own_provider()
    fake = scene.sits(word="own")
    query = scene.direct() if local == "in a service" else "?org=acme"
    if local in {"connected", "in a service"}:
        await scene.go(scene.browser(), query, word=provider)
    elif local != "none":
        person = scene.verified()
        if local == "never proved":
            scene.people.change("update users set email_verified_at = null where id = %s", person.user)
    before = scene.identities(), scene.people.rows("select id, email_verified_at, password_hash from users order by id")
    if moment == "after the look":
        meanwhile(scene, lambda: scene.people.change(OWN_ENDS[change]))
    else:
        tokens = fake.tokens

        def late(issued: Any) -> Any:
            scene.people.change(OWN_ENDS[change])
            return tokens(issued)

        fake.tokens = late  # type: ignore[method-assign]
    tabs = scene.browser()
    sessions = scene.people.rows("select id from sessions order by id")
    answer = await scene.go(tabs, query, word=provider)
    is_page(answer, 400)
    assert tabs.session is None
    assert scene.people.rows("select id from sessions order by id") == sessions
    identities, people = before
    assert scene.identities() == ([] if change == "deleted" else identities)
    assert scene.people.rows("select id, email_verified_at, password_hash from users order by id") == people


async def test_who_becomes_a_platform_owner_meanwhile_does_not_come_in_by_an_own_provider(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.sits(word="own")
    await scene.go(scene.browser(), "?org=acme", word=provider)
    meanwhile(scene, lambda: scene.people.change("update users set is_platform_owner = true"))
    tabs = scene.browser()
    is_page(await scene.go(tabs, "?org=acme", word=provider), 400)
    assert tabs.session is None


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("disabled", "provider_off"),
        ("deleted", "provider_off"),
        ("suspended", "provider_off"),
        ("domain lost", "not_for_account"),
    ],
)
async def test_an_own_provider_that_ends_while_an_identity_is_asked_for(
    scene: UpstreamScene, connected: bool, change: str, reason: str
) -> None:
    provider = await scene.own_provider()
    ada = scene.verified()
    fake = scene.sits(word="own")
    if connected:
        await scene.go(scene.browser(), "?org=acme", word=provider)
    person = Connecting(scene, scene.people.session_of(ada))
    place = fake.consent((await person.link(provider)).ok()["authorization_url"])
    looking_meanwhile(scene, lambda: scene.people.change(OWN_ENDS[change]))
    before = scene.identities()
    told = await person.tabs.request("GET", place)
    assert f"error={reason}" in (told.header("location") or "")
    assert scene.identities() == ([] if change == "deleted" else before)


async def test_whoever_connects_an_identity_that_stays_contended_is_told_to_come_back(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    fake = scene.sits(word="own")
    person = Connecting(scene, scene.people.session_of(scene.verified()))
    place = fake.consent((await person.link(provider)).ok()["authorization_url"])
    identities: Any = scene.postern.identity.identities
    lookup = identities.upstream

    class Contended:
        async def meet(self, *given: Any, **more: Any) -> Any:
            scene.people.change("update domains set domain = 'example.org'")
            met = await lookup.meet(*given, **more)
            scene.people.change("update domains set domain = 'example.com'")
            return met

    put(identities, upstream=Contended())
    is_page(await person.tabs.request("GET", place), 503)
    assert scene.identities() == []


async def test_a_provider_is_deleted_while_many_come_in_by_it(scene: UpstreamScene) -> None:
    """The deletion and the sign-ins lock rows in one order."""
    provider = await scene.own_provider()
    scene.speaker = scene.resident(scene.acme, "owner", "boss")
    fake = scene.sits(word="own")
    await scene.go(scene.browser(), "?org=acme", word=provider)
    browsers = [scene.browser() for _ in range(8)]
    places = [fake.consent(await scene.leave(tabs, "?org=acme", word=provider)) for tabs in browsers]
    answers = await all_at_once(
        *(partial(tabs.request, "GET", place) for tabs, place in zip(browsers, places, strict=True)),
        partial(scene.request, "DELETE", f"/api/organizations/acme/upstream-providers/{provider}"),
    )
    statuses = [answer.status for answer in answers]
    assert (statuses.count(204), set(statuses) <= {204, 303, 400}) == (1, True)
    assert statuses.count(303) == sum(tabs.session is not None for tabs in browsers)


@pytest.mark.parametrize("word", ["websuite", "own"])
async def test_an_identity_that_is_disconnected_while_it_is_connected_again_is_connected(
    scene: UpstreamScene, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = await scene.own_provider() if word == "own" else word
    ada = scene.verified()
    fake = scene.sits(word=word)
    await scene.go(scene.browser(), "?org=acme", word=provider)
    (before,) = scene.identities()
    sign_in: Any = scene.postern.identity.idp_logins
    take = sign_in.take

    async def in_the_app(*given: Any) -> Any:
        taken = await take(*given)
        return replace(taken, way=replace(taken.way, service=scene.app.id))

    answer_by(monkeypatch, sign_in, "take", in_the_app)
    person = Connecting(scene, scene.people.session_of(ada))
    place = fake.consent((await person.link(provider)).ok()["authorization_url"])
    looking_meanwhile(scene, lambda: scene.people.change("delete from identities"))
    told = await person.tabs.request("GET", place)
    assert "status=success" in (told.header("location") or "")
    assert scene.identities() == [before]
    assert scene.people.rows("select service_id from identity_grants") == [{"service_id": scene.app.id}]


@pytest.mark.parametrize("revoked", [False, True])
async def test_trust_that_ends_meanwhile_is_not_enough(scene: UpstreamScene, revoked: bool) -> None:
    ada = scene.verified()
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    scene.sits()
    tabs = scene.browser()
    tab = await tabs.tab().open((await scene.go(tabs)).header("location") or "")
    await tab.send(code=totp.now(), trust_device="yes")
    tabs.cookies.pop(SESSION_COOKIE)
    revoke = "update devices set revoked_at = now(), token_digest = null, trust_digest = null, trusted_until = null"
    meanwhile(scene, lambda: scene.people.change(revoke if revoked else "select 1"))
    assert (await scene.go(tabs)).status == (400 if revoked else 303)
    assert (tabs.session is None) == revoked


async def test_the_address_that_the_provider_tells_now_is_kept(scene: UpstreamScene) -> None:
    scene.sits()
    await scene.go(scene.browser())
    await scene.go(scene.browser(), email="new@example.net")
    (identity,) = scene.identities()
    assert identity["email"] == "new@example.net"


async def test_an_identity_that_somebody_else_connects_while_it_is_asked_for(scene: UpstreamScene) -> None:
    ada = scene.people.add("ada@home.example")
    scene.sits()
    looking_meanwhile(scene, lambda: connect_to_another(scene))
    tabs = scene.signed_in(ada, age=1)
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    await tab.send(len(tab.page.forms) - 1)
    answer = await tabs.request("GET", scene.fakes["websuite"].consent(tab.page.refresh))
    assert "error=taken" in (answer.header("location") or "")


async def test_an_account_that_ends_while_an_identity_is_asked_for(scene: UpstreamScene) -> None:
    ada = scene.people.add("ada@home.example")
    scene.sits()
    looking_meanwhile(scene, lambda: scene.people.change("update users set deactivated_at = now()"))
    tabs = scene.signed_in(ada, age=1)
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    await tab.send(len(tab.page.forms) - 1)
    answer = await tabs.request("GET", scene.fakes["websuite"].consent(tab.page.refresh))
    assert "error=session_ended" in (answer.header("location") or "")


async def test_who_waits_for_a_token_too_long_is_told_to_come_back(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = TokenHolder(scene)
    await ada.come()
    ada.expire()
    scene.people.change("update identity_grants set refreshing_until = now() + interval '1 hour'")
    monkeypatch.setattr(provider_tokens, "_LOOKS", 3)
    assert LEASE.total_seconds() == 15
    assert refused(await ada.get()) == (503, "SERVICE_UNAVAILABLE")


async def test_of_two_that_want_to_renew_one_does(scene: UpstreamScene) -> None:
    """Both requests have seen that no other request is refreshing the token."""
    ada = TokenHolder(scene)
    await ada.come()
    ada.expire()
    use_case: Any = scene.postern.identity.provider_tokens
    lookup = use_case.lookup

    class Late:
        async def find(self, *given: Any) -> Any:
            found = await lookup.find(*given)
            put(use_case, lookup=lookup)
            (await scene.unlimited.get("/api/provider-token/websuite", token=ada.token)).ok()
            return found

    put(use_case, lookup=Late())
    assert (await ada.get()).status == 200
    assert sum("refresh_token" in call for call in scene.fakes["websuite"].calls) == 1


@pytest.mark.parametrize("comes_again", [True, False])
@pytest.mark.parametrize("at", ["the look", "the call"])
async def test_a_new_seal_keeps_nobody_from_renewing_and_is_not_taken_back(scene: UpstreamScene, comes_again: bool, at: str) -> None:
    """The ring of keys rotates."""
    ada = TokenHolder(scene)
    await ada.come()
    ada.expire()
    fake = scene.fakes["websuite"]
    tokens = fake.tokens
    use_case: Any = scene.postern.identity.provider_tokens
    lookup = use_case.lookup

    def seal_again() -> None:
        (row,) = scene.people.rows("select id, sealed_access_token, sealed_refresh_token from identity_grants")
        for column in ("sealed_access_token", "sealed_refresh_token"):
            context = f"identity_grants.{column}:{row['id']}"
            sealed = scene.people.sealed(scene.people.opened(row[column], context), context)
            scene.people.change(f"update identity_grants set {column} = %s", sealed)
        (kept,) = scene.people.rows("select sealed_refresh_token from identity_grants")
        seals.append(kept["sealed_refresh_token"])

    seals: list[bytes] = []

    class Sealing:
        async def find(self, *given: Any) -> Any:
            found = await lookup.find(*given)
            put(use_case, lookup=lookup)
            seal_again()
            return found

    def renewed(issued: Any) -> Any:
        if at == "the call":
            seal_again()
        return {name: value for name, value in tokens(issued).items() if comes_again or name != "refresh_token"}

    fake.tokens = renewed  # type: ignore[method-assign]
    if at == "the look":
        put(use_case, lookup=Sealing())
    assert (await ada.get()).status == 200
    (row,) = scene.people.rows("select sealed_refresh_token, refreshing_until from identity_grants")
    assert row["refreshing_until"] is None
    assert (row["sealed_refresh_token"] == seals[0]) == (not comes_again)


async def test_a_service_that_asked_for_nothing_before_has_no_token(scene: UpstreamScene) -> None:
    ada = TokenHolder(scene)
    await ada.come()
    scene.people.change("update identity_grants set sealed_access_token = null")
    assert refused(await ada.get()) == (404, "NOT_FOUND")


async def twice_at_once(tabs: Tabs, place: str) -> list[Received]:
    answers: list[Received] = []

    async def come() -> None:
        answers.append(await tabs.request("GET", place))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(come)
        nursery.start_soon(come)
    return answers


async def test_whoever_comes_back_twice_at_once_is_signed_in_by_both(scene: UpstreamScene) -> None:
    """The browser drops one of the two answers."""
    fake = scene.sits()
    tabs = scene.browser()
    answers = await twice_at_once(tabs, fake.consent(await scene.leave(tabs)))
    assert [(one.status, one.header("location")) for one in answers] == [(303, "/ui")] * 2
    cookies = [
        {value.partition(";")[0] for name, value in one.headers if name == "set-cookie" and SESSION_COOKIE in value} for one in answers
    ]
    assert cookies[0] == cookies[1] != set()
    assert scene.people.rows("select count(*) from sessions") == [{"count": 1}]
    assert len(fake.forms) == 1
    assert await scene.who(tabs) is not None


async def test_both_lead_to_the_second_factor(scene: UpstreamScene) -> None:
    await enable_mfa(scene.unlimited, scene.people, scene.verified())
    fake = scene.sits()
    tabs = scene.browser()
    answers = await twice_at_once(tabs, fake.consent(await scene.leave(tabs)))
    assert [(one.header("location") or "").partition("?")[0] for one in answers] == ["/ui/sign-in/second-factor"] * 2
    assert scene.people.rows("select count(*) from preauthentications") == [{"count": 1}]


async def test_who_cancels_leads_the_application_to_the_same_answer_by_both(scene: UpstreamScene) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    fake.consent(await scene.leave(tabs, scene.direct()))
    with trio.fail_after(SOONER):
        answers = await twice_at_once(tabs, fake.back(fake.asked, error="access_denied"))
    places = {one.header("location") for one in answers}
    assert ([one.status for one in answers], len(places)) == ([302] * 2, 1)
    assert answer_in(places.pop())["error"] == "access_denied"


async def test_neither_waits_for_one_that_failed(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second request leads to the application, to which the first has reported the error."""
    fake = scene.sits()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    fake.fails = True
    with trio.fail_after(SOONER):
        first, second = sorted(await twice_at_once(tabs, place), key=lambda one: one.status, reverse=True)
    assert (first.status, second.status) == (503, 302)
    tab = await tabs.tab().open(second.header("location") or "")
    assert tab.place.partition("?")[0] == "/ui/sign-in"
    assert tab.page.forms[0].fields["flow"] == PageReader(first.body).forms[0].fields["flow"]
    # Nor for a request that has died.
    fake.fails = False
    place = fake.consent(await scene.leave(tabs))
    meanwhile(scene, lambda: scene.people.change("update oauth_states set used_at = used_at - interval '19 seconds'"))
    returns: Any = scene.postern.identity.repeated_returns
    for told in ("tell", "tell_of_failure"):
        answer_by(monkeypatch, returns, told, breaks)
    with trio.fail_after(SOONER):
        answer_by(monkeypatch, scene.postern.identity.browser_sessions, "sign_in_with_proof", breaks)
        assert sorted(one.status for one in await twice_at_once(tabs, place)) == [400, 503]


async def breaks(*_: Any, **__: Any) -> Any:
    raise Unavailable(retry_after=1)


async def test_who_is_told_to_try_again_gets_to_the_page_with_all_ways_to_sign_in(
    scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    with monkeypatch.context() as patch:
        answer_by(patch, scene.postern.identity.browser_sessions, "sign_in_with_proof", breaks)
        is_page(await tabs.request("GET", place), 503)
    # By reloading the page.
    with trio.fail_after(SOONER):
        again = await tabs.request("GET", place)
    assert again.status == 302
    tab = await tabs.tab().open(again.header("location") or "")
    (way,) = [link for link in tab.page.links if link.startswith("/auth/websuite")]
    answer = await tabs.request("GET", fake.consent(await scene.leave(tabs, way.removeprefix("/auth/websuite"))))
    assert answer_in(answer.header("location"))["code"]


@pytest.mark.parametrize("links", [False, True], ids=["signs in", "connects"])
async def test_who_took_too_long_gets_on_at_once_too(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch, *, links: bool) -> None:
    fake = scene.sits()
    if links:
        person = Connecting(scene, scene.people.session_of(scene.verified()))
        tabs, place = person.tabs, fake.consent((await person.link()).ok()["authorization_url"])
    else:
        tabs = scene.browser()
        place = fake.consent(await scene.leave(tabs, scene.direct()))

    async def hangs(*_: Any, **__: Any) -> None:
        # As by the deadline of the request, or by the end of the server.
        scope.cancel()
        await trio.sleep_forever()

    with monkeypatch.context() as patch:
        answer_by(patch, scene.postern.identity.browser_sessions, "sign_in_with_proof", hangs)
        answer_by(patch, scene.postern.identity.identities, "connect", hangs)
        with trio.CancelScope() as scope:
            await tabs.request("GET", place)
    assert scope.cancelled_caught
    with trio.fail_after(SOONER):
        again = await tabs.request("GET", place)
    assert again.status == 302
    place, told = told_in(again.header("location"))
    assert told["error"] == "provider_failed" if links else place.endswith("/ui/sign-in")


async def test_who_is_signed_in_when_something_breaks_is_so_once_more(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = scene.sits()
    ada = scene.verified()
    # Her session exists before the session of the account that has to make room for hers ends.
    tabs, *others = [scene.signed_in(scene.people.session_of(scene.verified(f"p{number}@example.org"))) for number in range(MOST_ACCOUNTS)]
    tabs.cookies["__Host-postern_accounts"] = ".".join(one.cookies[SESSION_COOKIE] for one in others)
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    with monkeypatch.context() as patch:
        answer_by(patch, scene.postern.identity.browser_sessions.sessions, "sign_out", breaks)
        is_page(await tabs.request("GET", place), 503)
    with trio.fail_after(SOONER):
        again = await tabs.request("GET", place)
    assert answer_in(again.header("location"))["code"]
    assert await scene.who(tabs) == ada.user


async def test_who_connects_an_identity_and_is_told_to_try_again_gets_back_to_where_they_asked(
    scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = scene.sits()
    person = Connecting(scene, scene.people.session_of(scene.verified()))
    place = fake.consent((await person.link()).ok()["authorization_url"])
    with monkeypatch.context() as patch:
        answer_by(patch, scene.postern.identity.identities, "connect", breaks)
        is_page(await person.tabs.request("GET", place), 503)
    with trio.fail_after(SOONER):
        again = await person.tabs.request("GET", place)
    assert told_in(again.header("location"))[1] == {
        "status": "error",
        "provider": "websuite",
        "action": "link",
        "error": "provider_failed",
    }


@pytest.mark.parametrize("how", ["handed over", "forgotten"])
async def test_an_account_loses_what_is_connected_before_what_awaits_a_second_factor(
    scene: UpstreamScene, database_url: str, how: str
) -> None:
    """Disconnecting an identity or deleting its provider takes the two locks in this order, too."""
    ada = scene.verified()
    governor = scene.people.add("governor@example.net", platform_owner=True)
    await enable_mfa(scene.unlimited, scene.people, ada)
    scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    assert scene.people.rows("select count(*) from preauthentications where identity_id is not null") == [{"count": 1}]
    reset = partial(scene.postern.platform.account_administration.reset_password, Email(ADA), "grace", by_mail=True)
    token = await scene.people.token(governor)
    forget = partial(scene.unlimited.request, "DELETE", f"/api/privacy/forget/{ada.user}", token=token)
    first = ("select from identities where user_id = %s for update", ada.user)
    then = ("select from preauthentications where user_id = %s for update", ada.user)
    request: Any = reset if how == "handed over" else forget
    await behind(scene.people, database_url, first, then, request)
    assert scene.identities() == []
