"""The provider's tokens for a service, and the single refresh of an expired token."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
import trio

from core.domain.identity.upstream.identities import Asker
from core.domain.identity.upstream.sign_in import ServicePlace
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeWebSuite, settings_of
from tests.conftest import CapturedLog
from tests.http.client import Client, Received, refused
from tests.http.conftest import postern_on
from tests.http.federation.arriving import CALLBACK, VERIFIER, answer_in
from tests.http.federation.relying import FORM
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import UsedService
from tests.http.upstream.scene import Fakes, UpstreamScene
from tests.meanwhile import meanwhile


@pytest.fixture
async def other_process(database_url: str, tmp_path: Path, fakes: Fakes, postern: Postern) -> AsyncIterator[Client]:
    """The same installation, opened a second time."""
    more = {name: value for word in ("codehost", "websuite", "officesuite") for name, value in settings_of(word, fakes[word]).items()}
    async with postern_on(database_url, tmp_path, more) as opened:
        assert opened is not postern
        yield unlimited(opened)


async def redeemed(scene: UpstreamScene, service: UsedService, location: str | None) -> dict[str, Any]:
    """What the application gets for the code in its answer."""
    fields = {"grant_type": "authorization_code", "code": answer_in(location)["code"], "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    body = urlencode({**fields, "client_id": scene.client_id(service)}).encode()
    tokens = (await scene.unlimited.request("POST", "/auth/token", body=body, headers=[FORM])).ok()
    scene.log.remember(tokens["access_token"])
    return tokens


class TokenHolder:
    """Ada's session in the app, which asks for scopes. Each way into it is the application's own: by `/auth/{provider}` and a code."""

    def __init__(self, scene: UpstreamScene) -> None:
        self.scene = scene
        self.token = ""

    async def come(self, word: str = "websuite", **person: Any) -> None:
        scene = self.scene
        scene.set(scene.app, websuite_scopes=["calendar"], codehost_scopes=["repo"], officesuite_scopes=["Mail.Read"])
        scene.sits(word=word)
        tabs = scene.browser()
        answer = await scene.go(tabs, scene.direct(), word=word, **person)
        if (answer.header("location") or "").endswith("&consent=yes"):
            onward = await tabs.request("GET", answer.header("location") or "")
            answer = await tabs.request("GET", scene.fakes[word].consent(onward.header("location") or "", **person))
        assert answer.status == 302, answer.body
        self.tabs = tabs
        self.token = (await redeemed(scene, scene.app, answer.header("location")))["access_token"]

    async def get(self, word: str = "websuite", client: Client | None = None) -> Received:
        return await (client or self.scene.unlimited).get(f"/api/provider-token/{word}", token=self.token)

    def expire(self) -> None:
        self.scene.people.change("update identity_grants set expires_at = now()")


@pytest.fixture
def ada(scene: UpstreamScene) -> TokenHolder:
    return TokenHolder(scene)


@pytest.mark.parametrize(
    ("word", "scopes"),
    [
        ("codehost", ["read:user", "user:email", "repo"]),
        ("websuite", ["openid", "email", "profile", "calendar"]),
        ("officesuite", ["openid", "email", "profile", "Mail.Read", "offline_access"]),
    ],
)
async def test_a_token_is_given_and_renewed(scene: UpstreamScene, ada: TokenHolder, log: CapturedLog, word: str, scopes: list[str]) -> None:
    fake = scene.fakes[word]
    fake.lifetime = 3599
    await ada.come(word)
    answer = await ada.get(word)
    assert answer.header("cache-control") == "no-store"
    first = answer.ok()
    assert (first["provider"], first["refresh_token"], first["scopes"]) == (word, None, scopes)
    assert first["access_token"] in fake.bearers
    assert first["expires_at"]
    log.remember(first["access_token"])
    assert (await ada.get(word)).ok() == first
    ada.expire()
    second = (await ada.get(word)).ok()
    assert second["access_token"] != first["access_token"]
    assert second["access_token"] in fake.bearers
    assert sum("refresh_token" in call for call in fake.calls) == 1
    dump = repr(scene.people.rows("select * from identity_grants"))
    assert first["access_token"] not in dump
    assert second["access_token"] not in dump
    assert not any(token in dump for token in fake.refreshes)


async def test_fifty_requests_in_two_processes_renew_once(scene: UpstreamScene, ada: TokenHolder, other_process: Client) -> None:
    fake = scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    # The other requests arrive before the token is refreshed.
    fake.slow = 0.3
    got: list[str] = []

    async def ask(client: Client) -> None:
        got.append((await ada.get(client=client)).ok()["access_token"])

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(ask, scene.unlimited if number % 2 else other_process)
    assert len(got) == 50
    assert len(set(got)) == 1
    assert sum("refresh_token" in call for call in fake.calls) == 1


async def test_when_the_provider_refuses_nobody_asks_again(scene: UpstreamScene, ada: TokenHolder) -> None:
    fake = scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    fake.refuses_refresh = True
    fake.slow = 0.2
    statuses: list[tuple[int, str]] = []

    async def ask() -> None:
        statuses.append(refused(await ada.get()))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
    assert statuses == [(500, "OAUTH_ERROR")] * 10
    assert sum("refresh_token" in call for call in fake.calls) == 1
    assert refused(await ada.get()) == (500, "OAUTH_ERROR")
    assert sum("refresh_token" in call for call in fake.calls) == 1
    # Signing in through the provider again mends it.
    fake.refuses_refresh, fake.slow = False, 0
    await ada.come()
    assert (await ada.get()).status == 200


async def test_a_provider_that_is_away_is_asked_again_later(scene: UpstreamScene, ada: TokenHolder) -> None:
    fake = scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    fake.fails = True
    assert refused(await ada.get()) == (500, "OAUTH_ERROR")
    fake.fails = False
    assert (await ada.get()).status == 200


async def test_who_waited_for_a_provider_that_is_away_does_not_ask_it_again(scene: UpstreamScene, ada: TokenHolder) -> None:
    fake = scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    fake.slow, fake.fails = 2, True
    statuses: list[tuple[int, str]] = []

    async def ask() -> None:
        statuses.append(refused(await ada.get()))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert statuses == [(500, "OAUTH_ERROR")] * 5
    assert sum("refresh_token" in call for call in fake.calls) == 1


async def test_nor_does_who_finds_that_the_process_with_the_lease_has_given_up(
    scene: UpstreamScene, ada: TokenHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ada.come()
    ada.expire()
    scene.people.change("update identity_grants set refreshing_until = now() + interval '1 minute'")
    give_up = "update identity_grants set refreshing_until = null"
    meanwhile(monkeypatch, scene.postern.identity.provider_tokens.lookup, "find", lambda: scene.people.change(give_up))
    assert refused(await ada.get()) == (500, "OAUTH_ERROR")
    assert not any("refresh_token" in call for call in scene.fakes["websuite"].calls)


@pytest.mark.parametrize("answer", [{}, [], {"access_token": 7}, {"access_token": "x"}, {"error": {}}])
async def test_a_renewal_that_is_none_holds_nobody_up(scene: UpstreamScene, ada: TokenHolder, answer: Any) -> None:
    fake = scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    tokens = fake.tokens
    fake.tokens = lambda _issued: answer  # type: ignore[method-assign,assignment]
    assert refused(await ada.get()) == (500, "OAUTH_ERROR")
    assert scene.people.rows("select refreshing_until from identity_grants") == [{"refreshing_until": None}]
    fake.tokens = tokens  # type: ignore[method-assign]
    # The fake gives a refresh token once.
    await ada.come()
    assert (await ada.get()).status == 200


@pytest.mark.parametrize("scope", ["a\x00b", "a" * 9000, "é", 7, ["a"]])
async def test_scopes_that_are_none_are_those_that_were_asked_for(scene: UpstreamScene, ada: TokenHolder, scope: Any) -> None:
    fake = scene.fakes["websuite"]
    tokens = fake.tokens
    fake.tokens = lambda issued: {**tokens(issued), "scope": scope}  # type: ignore[method-assign]
    await ada.come()
    assert (await ada.get()).ok()["scopes"] == ["calendar"]


async def test_a_lease_of_a_process_that_died_is_taken_over(scene: UpstreamScene, ada: TokenHolder) -> None:
    await ada.come()
    ada.expire()
    scene.people.change("update identity_grants set refreshing_until = now() + interval '300 milliseconds'")
    assert (await ada.get()).status == 200


async def test_who_signs_in_while_it_is_renewed_keeps_the_newer_token(scene: UpstreamScene, ada: TokenHolder) -> None:
    fake = scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    fake.slow = 0.5
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ada.get)
        while not any("refresh_token" in call for call in fake.calls):
            await trio.sleep(0.01)
        fake.slow = 0
        nursery.start_soon(lambda: scene.go(scene.browser(), scene.direct()))
    (row,) = scene.people.rows("select refreshing_until, expires_at > now() + interval '1 minute' as fresh from identity_grants")
    assert row == {"refreshing_until": None, "fresh": True}
    assert (await ada.get()).status == 200


async def test_who_gets_none(scene: UpstreamScene, ada: TokenHolder) -> None:
    await ada.come()
    assert refused(await ada.get("nothing")) == (400, "BAD_REQUEST")
    assert refused(await ada.get("codehost")) == (404, "NOT_FOUND")
    assert refused(await ada.get(str(scene.acme.id))) == (400, "BAD_REQUEST"), "services have scopes at the three alone"
    scene.set(scene.app, websuite_scopes=[])
    assert refused(await ada.get()) == (403, "FORBIDDEN")
    scene.set(scene.app, websuite_scopes=None)
    assert refused(await ada.get()) == (403, "FORBIDDEN")
    scene.set(scene.app, websuite_scopes=["calendar"])
    elsewhere = await scene.people.with_password(PASSWORD, "bob@elsewhere.example")
    signed_in = (await scene.unlimited.post("/api/auth/login", {"email": elsewhere.email, "password": PASSWORD})).ok()
    answer = await scene.unlimited.get("/api/provider-token/websuite", token=signed_in["access_token"])
    assert refused(answer) == (400, "BAD_REQUEST")
    # Without an end it counts on, without a refresh token it ends.
    scene.people.change("update identity_grants set expires_at = null, sealed_refresh_token = null")
    assert (await ada.get()).ok()["expires_at"] is None
    ada.expire()
    assert refused(await ada.get()) == (500, "OAUTH_ERROR")
    # The token was given to another client than the present one.
    scene.people.change("update identity_grants set client_id = 'another'")
    assert refused(await ada.get()) == (404, "NOT_FOUND")
    scene.people.change("delete from identities")
    assert refused(await ada.get()) == (404, "NOT_FOUND")


async def test_a_refresh_token_that_comes_only_once_is_kept(scene: UpstreamScene, ada: TokenHolder) -> None:
    """Some providers give a refresh token only at the first consent."""
    await ada.come()
    (before,) = scene.people.rows("select sealed_refresh_token from identity_grants")
    fake = scene.fakes["websuite"]
    tokens = fake.tokens
    fake.tokens = lambda issued: {name: value for name, value in tokens(issued).items() if name != "refresh_token"}  # type: ignore[method-assign]
    await ada.come()
    (after,) = scene.people.rows("select sealed_refresh_token from identity_grants")
    assert after == before
    ada.expire()
    assert (await ada.get()).status == 200


@pytest.fixture
def sparing(scene: UpstreamScene) -> FakeWebSuite:
    """Gives a refresh token with consent alone, as the web suite does."""
    fake = scene.fakes["websuite"]
    assert isinstance(fake, FakeWebSuite)
    fake.forgetful = False
    return fake


async def test_whoever_is_asked_for_consent_anyway_is_not_sent_back(ada: TokenHolder, sparing: FakeWebSuite) -> None:
    await ada.come()
    assert sparing.asked["prompt"] == "select_account"
    ada.expire()
    assert (await ada.get()).status == 200
    # Nobody is asked either while a refresh token is kept.
    await ada.come()
    assert (sparing.asked["prompt"], sparing.asked_for_consent) == ("select_account", 1)
    ada.expire()
    assert (await ada.get()).status == 200


@pytest.mark.parametrize("lost", ["disconnected", "refused", "another client's"])
async def test_what_renews_a_token_is_asked_for_again_where_it_is_lost(
    scene: UpstreamScene, ada: TokenHolder, sparing: FakeWebSuite, lost: str
) -> None:
    await ada.come()
    if lost == "disconnected":
        scene.people.change("delete from identities")
    elif lost == "refused":
        ada.expire()
        sparing.refuses_refresh = True
        answer = await ada.get()
        assert refused(answer) == (500, "OAUTH_ERROR")
        assert "has to sign in through the provider again" in answer.json()["error"]
        assert "has to sign in through the provider again" in (await ada.get()).json()["error"]
        sparing.refuses_refresh = False
    else:
        scene.people.change("update identity_grants set client_id = 'another'")
    await ada.come()
    assert (sparing.asked["prompt"], sparing.asked_for_consent) == ("select_account consent", 2)
    ada.expire()
    assert (await ada.get()).status == 200


async def test_a_second_service_gets_what_renews_its_token(scene: UpstreamScene, ada: TokenHolder, sparing: FakeWebSuite) -> None:
    await ada.come()
    other = scene.application(scene.acme, "other", CALLBACK)
    scene.set(other, websuite_scopes=["calendar"])
    tabs = scene.browser()
    again = await scene.go(tabs, scene.direct("other"))
    assert tabs.session is None, "only once they are back"
    # A browser that comes back twice is led there, too.
    twice = await tabs.request("GET", sparing.back(sparing.asked, code="again"))
    assert twice.header("location") == again.header("location")
    onward = await tabs.request("GET", again.header("location") or "")
    back = await tabs.request("GET", sparing.consent(onward.header("location") or ""))
    assert answer_in(back.header("location") or "", CALLBACK)["state"] == "a b&c"
    ada.token = (await redeemed(scene, other, back.header("location")))["access_token"]
    ada.expire()
    assert (await ada.get()).status == 200


async def test_nobody_is_sent_back_twice(scene: UpstreamScene, ada: TokenHolder, sparing: FakeWebSuite) -> None:
    """After the second answer we accept what the provider gives."""
    await ada.come()
    scene.people.change("delete from identities")
    tokens = sparing.tokens
    without = lambda issued: {name: value for name, value in tokens(issued).items() if name != "refresh_token"}  # noqa: E731
    sparing.tokens = without  # type: ignore[method-assign]
    await ada.come()
    assert (await ada.get()).status == 200
    ada.expire()
    assert refused(await ada.get()) == (500, "OAUTH_ERROR")


@pytest.mark.parametrize("what", ["no scopes", "lasts", "another provider"])
async def test_where_nothing_has_to_be_renewed_nobody_is_sent_back(scene: UpstreamScene, what: str) -> None:
    word = "officesuite" if what == "another provider" else "websuite"
    fake = scene.fakes[word]
    tokens = fake.tokens
    left_out = {"refresh_token", "expires_in"} if what == "lasts" else {"refresh_token"}
    fake.tokens = lambda issued: {name: value for name, value in tokens(issued).items() if name not in left_out}  # type: ignore[method-assign]
    if what != "no scopes":
        scene.set(scene.app, websuite_scopes=["calendar"], officesuite_scopes=["Mail.Read"])
    scene.sits(word=word)
    assert "code=" in ((await scene.go(scene.browser(), scene.direct(), word=word)).header("location") or "")


@pytest.mark.parametrize(("scopes", "prompt"), [([], "select_account"), (["calendar"], "select_account consent")])
async def test_whoever_connects_an_identity_for_a_service_is_asked_for_consent(
    scene: UpstreamScene, scopes: list[str], prompt: str
) -> None:
    scene.set(scene.app, websuite_scopes=scopes)
    scene.sits()
    ada = scene.people.add("ada@home.example")
    caller = await scene.postern.tenancy.callers.resolve(await scene.tenants.token_in(ada, scene.app))
    asker = Asker(session=caller.session, user=caller.user, place=ServicePlace(organization="acme", service_slug="app"))
    leaving = scene.postern.identity.idp_logins.leave_to_connect("websuite", Token("b" * 43), caller, asker)
    scene.fakes["websuite"].consent(await leaving)
    assert scene.fakes["websuite"].asked["prompt"] == prompt


async def test_tokens_are_kept_only_where_a_service_asks_for_something(scene: UpstreamScene) -> None:
    scene.sits()
    await scene.go(scene.browser(), scene.direct())
    (row,) = scene.people.rows("select sealed_access_token, sealed_refresh_token, scopes from identity_grants")
    assert row == {"sealed_access_token": None, "sealed_refresh_token": None, "scopes": []}


async def test_an_organizations_own_client_is_used_and_goes_with_its_removal(scene: UpstreamScene, ada: TokenHolder) -> None:
    boss = scene.resident(scene.acme, "owner", "boss")
    fake = scene.fakes["websuite"]
    fake.client_id, fake.client_secret = "acmes-client", "acmes-secret-31337"
    body = {"client_id": fake.client_id, "client_secret": fake.client_secret}
    (await scene.request("POST", "/api/organizations/acme/oauth-credentials/websuite", body, by=boss)).ok()
    await ada.come()
    assert fake.asked["client_id"] == "acmes-client"
    assert (await ada.get()).status == 200
    (await scene.request("DELETE", "/api/organizations/acme/oauth-credentials/websuite", by=boss))
    assert refused(await ada.get()) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("scopes", "status"),
    [("openid provider_token", 200), ("provider_token", 200), ("openid profile email offline_access organization roles groups", 403)],
)
async def test_a_session_by_authorization_needs_the_scope_for_it(scene: UpstreamScene, ada: TokenHolder, scopes: str, status: int) -> None:
    await ada.come()
    # The session of the provider's own way gets the token as ever.
    assert (await ada.get()).status == 200
    scene.people.change("delete from consents")
    tab = await ada.tabs.tab().open(scene.asking(scope=scopes))
    assert ("act in your account there" in tab.page.text) == ("provider_token" in scopes)
    await tab.send(answer="allow")
    ada.token = (await redeemed(scene, scene.app, tab.page.refresh))["access_token"]
    answer = await ada.get()
    assert answer.status == status
    if status == 403:
        assert "provider_token" in answer.json()["error"]
        # Whatever there is no token of is told first, as to every session.
        assert refused(await ada.get("nothing")) == (400, "BAD_REQUEST")
        assert refused(await ada.get("codehost")) == (404, "NOT_FOUND")


@pytest.mark.parametrize("word", ["codehost", "websuite", "officesuite"])
async def test_who_came_by_an_applications_own_button_opens_the_providers_token(scene: UpstreamScene, ada: TokenHolder, word: str) -> None:
    """From the button to the token, by the addresses that an application has."""
    scene.set(scene.app, websuite_scopes=["calendar"], codehost_scopes=["repo"], officesuite_scopes=["Mail.Read"])
    scene.sits(word=word)
    answer = await scene.go(scene.browser(), scene.direct(), word=word)
    tokens = await redeemed(scene, scene.app, answer.header("location"))
    assert tokens["scope"] == "openid profile email provider_token"
    ada.token = tokens["access_token"]
    assert (await ada.get(word)).ok()["access_token"] in scene.fakes[word].bearers
    # The scope is no fact about the person, and a renewed session has it, too.
    userinfo = (await scene.unlimited.get("/oauth/userinfo", token=ada.token)).ok()
    assert userinfo.keys() - {"name"} == {"sub", "preferred_username", "email", "email_verified"}
    fields = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": scene.client_id(scene.app)}
    renewed = (await scene.unlimited.request("POST", "/auth/token", body=urlencode(fields).encode(), headers=[FORM])).ok()
    ada.token = renewed["access_token"]
    scene.log.remember(ada.token)
    assert renewed["scope"] == tokens["scope"]
    assert (await ada.get(word)).status == 200


async def test_so_does_who_came_by_it_and_got_the_tokens_in_the_fragment(scene: UpstreamScene, ada: TokenHolder) -> None:
    scene.set(scene.app, websuite_scopes=["calendar"])
    scene.sits()
    answer = await scene.go(scene.browser(), scene.direct(code_challenge="", code_challenge_method=""))
    told = dict(parse_qsl((answer.header("location") or "").partition("#")[2], strict_parsing=True))
    ada.token = told["access_token"]
    assert (await ada.get()).ok()["scopes"] == ["openid", "email", "profile", "calendar"]


async def test_the_button_alone_opens_it_to_the_application_that_it_stands_in(scene: UpstreamScene, ada: TokenHolder) -> None:
    """Another application of the organization has no token of the person, whatever the first one has."""
    await ada.come()
    other = scene.application(scene.acme, "other", CALLBACK)
    scene.set(other, websuite_scopes=[])
    answer = await scene.go(ada.tabs, scene.direct("other"))
    ada.token = (await redeemed(scene, other, answer.header("location")))["access_token"]
    assert refused(await ada.get()) == (403, "FORBIDDEN")
    scene.set(other, websuite_scopes=["calendar"])
    assert refused(await ada.get()) == (404, "NOT_FOUND")
