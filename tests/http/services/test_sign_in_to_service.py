"""Signing in to a service over HTTP: the claims of its tokens, the people who become its users, the refusals, and the events."""

from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
import trio

from core.domain.identity.accounts import Account
from core.domain.identity.sign_in import TRIES_FROM_ANYWHERE
from core.frozen import names_of, replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops, all_at_once
from tests.http.client import Received
from tests.http.conftest import SETTINGS
from tests.http.identity.test_sign_in import claims_of, last_trips
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import FIREFOX, LOGIN, PASSWORD, SAFARI, Browser, enable_mfa, unlimited
from tests.http.tenants import UsedService
from tests.meanwhile import meanwhile

SHOP = {"org_slug": "acme", "service_slug": "shop"}
REGISTER = "/api/auth/register"
FAR_AHEAD = datetime(2099, 1, 1, tzinfo=UTC)


class ServiceSignInScene(Shops):
    """Ada has a password, and has used no service."""

    async def move_in(self) -> None:
        self.browser = Browser(self.client)
        self.ada = await self.people.with_password(PASSWORD, "ada@example.org")

    async def register(self, **more: Any) -> Received:
        return await self.browser.post(REGISTER, {"email": "new@example.org", "password": PASSWORD, **more})

    async def verify(self, preauth: str, code: str, **more: Any) -> Received:
        return await self.browser.verify(preauth, code, **more)

    def came(self, person: Person) -> None:
        """Ada has signed in to the shop once."""
        now = self.postern.foundation.clock.now()
        self.tenants.uses(person, self.shop, first=now, last=now)

    def users(self, service: UsedService | None = None) -> list[dict[str, Any]]:
        return self.people.rows(
            "select user_id, org_id, first_login_at, last_login_at, created_at from service_users where service_id = %s order by user_id",
            (service or self.shop).id,
        )

    def user_count(self, service: UsedService | None = None) -> int:
        (row,) = self.people.rows("select user_count from all_services where id = %s", (service or self.shop).id)
        count: int = row["user_count"]
        return count

    def sessions(self) -> list[dict[str, Any]]:
        return self.people.rows("select user_id, organization_id, service_id from sessions order by id")

    def login_events(self) -> list[tuple[UUID | None, UUID | None, UUID | None, bool]]:
        rows = self.people.rows("select user_id, organization_id, service_id, success from login_events order by id")
        return [(row["user_id"], row["organization_id"], row["service_id"], row["success"]) for row in rows]

    def events(self, name: str) -> list[dict[str, Any]]:
        return self.people.rows("select organization_id, target_id, details from events where name = %s order by id", name)

    def tries_left(self) -> float:
        (row,) = self.people.rows("select tokens from rate_limit_buckets where limit_name = %s", TRIES_FROM_ANYWHERE.name)
        tokens: float = row["tokens"]
        return tokens

    def subscribe(self, person: Person, plan: str, *, status: str = "active", until: datetime = FAR_AHEAD, features: str = "{}") -> None:
        self.people.change(
            "with plan as (insert into plans (id, service_id, name, price_cents, currency, features, created_at, updated_at)"
            "              values (gen_random_uuid(), %s, %s, 900, 'usd', %s, now(), now()) returning id, service_id)"
            " insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)"
            " select gen_random_uuid(), service_id, %s, id, %s, %s, now(), now() from plan",
            self.shop.id,
            plan,
            features,
            person.user,
            status,
            until,
        )


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> ServiceSignInScene:
    scene = ServiceSignInScene(postern, people, unlimited(postern), log)
    await scene.move_in()
    return scene


def paid(token: str) -> tuple[Any, ...]:
    claims = claims_of(token)
    return claims["plan"], claims["features"], claims["subscription_status"]


async def test_the_tokens_are_for_the_service(scene: ServiceSignInScene) -> None:
    tokens = await scene.browser.tokens(scene.ada, **SHOP)
    claims = claims_of(tokens["access_token"])
    assert (claims["sub"], claims["aud"], claims["org"], claims["service"]) == (
        str(scene.ada.user),
        "service:acme/shop",
        "acme",
        "shop",
    )
    assert (claims["org_id"], claims["service_id"]) == (str(scene.acme.id), str(scene.shop.id))
    assert (claims["token_use"], claims["amr"]) == ("access", ["pwd"])
    assert paid(tokens["access_token"]) == ("free", [], "active")
    profile = await scene.client.get("/api/user", token=tokens["access_token"])
    told = {name: value for name, value in profile.json().items() if value is not None}
    assert told == {"id": str(scene.ada.user), "email": scene.ada.email, "org": "acme", "service": "shop"}
    assert scene.sessions() == [{"user_id": scene.ada.user, "organization_id": scene.acme.id, "service_id": scene.shop.id}]
    # The session opens neither the organization nor its other services.
    for path in ("/api/organizations/acme", "/api/organizations/acme/services"):
        assert (await scene.client.get(path, token=tokens["access_token"])).status == 403


async def test_by_the_first_sign_in_one_becomes_a_user_of_the_service_and_every_further_one_is_noted(scene: ServiceSignInScene) -> None:
    before = scene.postern.foundation.clock.now()
    await scene.browser.tokens(scene.ada, **SHOP)
    (first,) = scene.users()
    assert (first["user_id"], first["org_id"]) == (scene.ada.user, scene.acme.id)
    assert before <= first["created_at"] == first["first_login_at"] == first["last_login_at"] <= scene.postern.foundation.clock.now()
    await scene.browser.tokens(scene.ada, **SHOP)
    (again,) = scene.users()
    assert again["last_login_at"] > first["last_login_at"]
    assert {**again, "last_login_at": first["last_login_at"]} == first
    assert scene.user_count() == 1
    assert (scene.users(scene.app), scene.users(scene.theirs), scene.user_count(scene.app)) == ([], [], 0)


async def test_a_person_who_was_added_to_the_service_still_comes_for_the_first_time(scene: ServiceSignInScene) -> None:
    scene.tenants.uses(scene.ada, scene.shop)
    (made,) = scene.users()
    await scene.browser.tokens(scene.ada, **SHOP)
    (came,) = scene.users()
    assert came["first_login_at"] == came["last_login_at"] > made["created_at"]
    assert (came["created_at"], scene.user_count()) == (made["created_at"], 1)


async def test_a_member_of_the_organization_is_a_user_like_others(scene: ServiceSignInScene) -> None:
    scene.tenants.join(scene.ada, scene.acme, "owner")
    tokens = await scene.browser.tokens(scene.ada, **SHOP)
    assert len(scene.users()) == 1
    # Not even an owner governs with a token that an application holds.
    assert (await scene.client.get("/api/organizations/acme", token=tokens["access_token"])).status == 403


async def test_a_sign_in_to_the_platform_makes_nobody_a_user_of_anything(scene: ServiceSignInScene) -> None:
    for more in ({}, {"org_slug": "acme"}, {"org_slug": "nowhere"}, {"org_slug": None, "service_slug": None}, {"service_slug": ""}):
        tokens = await scene.browser.tokens(scene.ada, **more)
        assert claims_of(tokens["access_token"])["aud"] == "platform"
        assert not {"org", "org_id", "service", "service_id", "plan"} & set(claims_of(tokens["access_token"]))
    assert scene.people.rows("select * from service_users") == []
    assert {(row["organization_id"], row["service_id"]) for row in scene.sessions()} == {(None, None)}


async def test_the_token_says_what_was_paid_for_and_so_does_the_next_one(scene: ServiceSignInScene) -> None:
    scene.tenants.uses(scene.ada, scene.shop)
    scene.subscribe(scene.ada, "Pro", features="{export,api}")
    tokens = await scene.browser.tokens(scene.ada, **SHOP)
    assert paid(tokens["access_token"]) == ("Pro", ["export", "api"], "active")
    # Her subscription here counts in no other service.
    assert paid((await scene.browser.tokens(scene.ada, org_slug="acme", service_slug="app"))["access_token"]) == ("free", [], "active")
    scene.people.change("update subscriptions set status = 'past_due'")
    tokens = (await scene.browser.refresh(tokens["refresh_token"])).json()
    assert paid(tokens["access_token"]) == ("Pro", ["export", "api"], "past_due")
    # An active subscription whose period has ended counts as expired even before the expirer has written that.
    scene.people.change("update subscriptions set status = 'active', current_period_end = now() - interval '1 second'")
    tokens = (await scene.browser.refresh(tokens["refresh_token"])).json()
    assert paid(tokens["access_token"]) == ("Pro", ["export", "api"], "expired")
    scene.people.change("delete from subscriptions")
    tokens = (await scene.browser.refresh(tokens["refresh_token"])).json()
    assert paid(tokens["access_token"]) == ("free", [], "active")
    assert claims_of(tokens["access_token"])["aud"] == "service:acme/shop"


async def test_it_costs_four_round_trips_a_refresh_two_and_a_request_one(
    postern: Postern, scene: ServiceSignInScene, log: CapturedLog
) -> None:
    browser = Browser(unlimited(postern, SETTINGS))
    scene.subscribe(scene.ada, "Pro")
    # The first on a connection prepares its statements.
    tokens = await browser.tokens(await scene.people.with_password(PASSWORD), **SHOP)
    await browser.refresh(tokens["refresh_token"])
    for newcomer in (scene.ada, await scene.people.with_password(PASSWORD)):
        for _ in range(2):
            tokens = await browser.tokens(newcomer, **SHOP)
            assert last_trips(log) <= 4
    for _ in range(2):
        tokens = (await browser.refresh(tokens["refresh_token"])).json()
        assert last_trips(log) <= 2
    assert (await browser.client.get("/api/user", token=tokens["access_token"])).status == 200
    assert last_trips(log) == 1
    for body, status in (
        ({"email": scene.ada.email, "password": "a wrong one", **SHOP}, 401),
        ({"email": "nobody@example.org", "password": PASSWORD, **SHOP}, 401),
        ({"email": scene.ada.email, "password": PASSWORD, **SHOP, "service_slug": "none"}, 404),
    ):
        assert (await browser.post(LOGIN, body)).status == status
        assert last_trips(log) <= 4


async def test_a_renewed_hash_leads_to_the_same_place(scene: ServiceSignInScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.tenants.uses(scene.ada, scene.shop)
    scene.subscribe(scene.ada, "Pro")
    monkeypatch.setattr(scene.postern.identity.passwords, "is_outdated", lambda _encoded: True)
    (before,) = scene.people.rows("select password_hash from users where id = %s", scene.ada.user)
    tokens = await scene.browser.tokens(scene.ada, **SHOP)
    assert claims_of(tokens["access_token"])["aud"] == "service:acme/shop"
    assert paid(tokens["access_token"])[0] == "Pro"
    assert scene.people.rows("select password_hash from users where id = %s", scene.ada.user) != [before]
    assert (await scene.client.get("/api/user", token=tokens["access_token"])).status == 200


class TestSecondFactorOfService:
    async def test_it_leads_where_the_password_was_given(self, scene: ServiceSignInScene) -> None:
        totp = await enable_mfa(scene.client, scene.people, scene.ada)
        scene.subscribe(scene.ada, "Pro")
        awaiting = (await scene.browser.login(scene.ada, **SHOP)).json()
        assert awaiting["mfa_required"] is True
        # Nobody has signed in yet.
        assert scene.users() == []
        assert not {"org", "service"} & set(claims_of(awaiting["access_token"]))
        assert scene.people.rows("select organization_id, service_id from preauthentications") == [
            {"organization_id": scene.acme.id, "service_id": scene.shop.id}
        ]
        answer = await scene.verify(awaiting["access_token"], totp.now())
        assert answer.status == 200, answer.body
        tokens = answer.json()
        claims = claims_of(tokens["access_token"])
        assert (claims["aud"], claims["amr"], claims["plan"]) == ("service:acme/shop", ["pwd", "otp", "mfa"], "Pro")
        assert len(scene.users()) == scene.user_count() == 1
        assert scene.login_events() == [(scene.ada.user, scene.acme.id, scene.shop.id, True)]
        refreshed = (await scene.browser.refresh(tokens["refresh_token"])).json()
        assert claims_of(refreshed["access_token"])["aud"] == "service:acme/shop"
        assert (await scene.client.get("/api/user", token=refreshed["access_token"])).json()["service"] == "shop"

    async def test_it_cannot_be_taken_elsewhere(self, scene: ServiceSignInScene) -> None:
        totp = await enable_mfa(scene.client, scene.people, scene.ada)
        preauth = (await scene.browser.login(scene.ada)).json()["access_token"]
        tokens = (await scene.verify(preauth, totp.now(), **SHOP)).json()
        assert claims_of(tokens["access_token"])["aud"] == "platform"
        assert scene.users() == []

    async def test_a_trusted_device_is_let_in_to_the_service_at_once(self, scene: ServiceSignInScene) -> None:
        totp = await enable_mfa(scene.client, scene.people, scene.ada)
        preauth = (await scene.browser.login(scene.ada)).json()["access_token"]
        await scene.verify(preauth, totp.now(), trust_device=True)
        tokens = await scene.browser.tokens(scene.ada, **SHOP)
        assert "mfa_required" not in tokens
        assert claims_of(tokens["access_token"])["aud"] == "service:acme/shop"

    @pytest.mark.parametrize(
        ("change", "status", "code"),
        [
            ("update all_services set deleted_at = now() where slug = 'shop'", 401, "UNAUTHORIZED"),
            ("delete from all_services where slug = 'shop'", 401, "UNAUTHORIZED"),
            ("update all_organizations set deleted_at = now() where slug = 'acme'", 401, "UNAUTHORIZED"),
            ("update organizations set status = 'suspended' where slug = 'acme'", 403, "ORGANIZATION_NOT_ACTIVE"),
        ],
    )
    async def test_what_closed_meanwhile_is_closed_and_costs_no_code(
        self, scene: ServiceSignInScene, change: str, status: int, code: str
    ) -> None:
        totp = await enable_mfa(scene.client, scene.people, scene.ada)
        preauth = (await scene.browser.login(scene.ada, **SHOP)).json()["access_token"]
        scene.people.change(change)
        answer = await scene.verify(preauth, totp.now())
        assert (answer.status, answer.error_code) == (status, code)
        assert scene.people.rows("select * from service_users") == []
        assert {row["failures"] for row in scene.people.rows("select failures from preauthentications")} <= {0}
        preauth = (await scene.browser.login(scene.ada)).json()["access_token"]
        assert (await scene.verify(preauth, totp.now())).status == 200


class TestRefused:
    @pytest.mark.parametrize(
        ("named", "change", "status", "code"),
        [
            ({**SHOP, "service_slug": "none"}, "", 404, "NOT_FOUND"),
            ({**SHOP, "org_slug": "nowhere"}, "", 404, "NOT_FOUND"),
            ({**SHOP, "org_slug": "globex"}, "", 404, "NOT_FOUND"),
            ({**SHOP, "service_slug": "SHOP"}, "", 404, "NOT_FOUND"),
            ({**SHOP, "service_slug": "sh%"}, "", 404, "NOT_FOUND"),
            ({**SHOP, "service_slug": "' or 1=1 --"}, "", 404, "NOT_FOUND"),
            (SHOP, "update all_services set deleted_at = now()", 404, "NOT_FOUND"),
            (SHOP, "update all_organizations set deleted_at = now()", 404, "NOT_FOUND"),
            (SHOP, "delete from organizations", 404, "NOT_FOUND"),
            (SHOP, "update organizations set status = 'pending'", 403, "ORGANIZATION_NOT_ACTIVE"),
            (SHOP, "update organizations set status = 'suspended'", 403, "ORGANIZATION_NOT_ACTIVE"),
            (SHOP, "update organizations set status = 'rejected'", 403, "ORGANIZATION_NOT_ACTIVE"),
            (SHOP, "update services set is_agent = true", 403, "FORBIDDEN"),
            ({"service_slug": "shop"}, "", 400, "BAD_REQUEST"),
            ({"service_slug": "shop", "org_slug": ""}, "", 400, "BAD_REQUEST"),
            ({**SHOP, "service_slug": "x" * 51}, "", 400, "BAD_REQUEST"),
            ({**SHOP, "service_slug": ["shop"]}, "", 400, "BAD_REQUEST"),
            ({**SHOP, "service_slug": "sh\0op"}, "", 400, "BAD_REQUEST"),
        ],
    )
    async def test_by_either_door_and_without_a_trace(
        self, scene: ServiceSignInScene, named: dict[str, Any], change: str, status: int, code: str
    ) -> None:
        if change:
            scene.people.change(change)
        for attempt in (scene.browser.login(scene.ada, **named), scene.browser.login(scene.ada, "a wrong one", **named)):
            answer = await attempt
            assert (answer.status, answer.error_code) == (status, code)
        nobody = replace(scene.ada, email="nobody@example.org")
        assert (await scene.browser.login(nobody, **named)).status == status
        assert (await scene.register(**named)).status == status
        for table in ("sessions", "service_users", "login_events", "events", "devices", "preauthentications", "jobs"):
            assert scene.people.rows(f"select * from {table}") == [], table
        assert len(scene.people.rows("select id from users")) == 1
        assert not scene.browser.cookies

    async def test_knocking_where_nothing_is_neither_costs_a_try_nor_brings_one_back(self, scene: ServiceSignInScene) -> None:
        for _ in range(TRIES_FROM_ANYWHERE.burst + 2):
            assert (await scene.browser.login(scene.ada, org_slug="acme", service_slug="none")).status == 404
        assert scene.tries_left() == pytest.approx(TRIES_FROM_ANYWHERE.burst)
        statuses = []
        for _ in range(TRIES_FROM_ANYWHERE.burst + 5):
            statuses.append((await scene.browser.login(scene.ada, "a wrong one", **SHOP)).status)
            assert (await scene.browser.login(scene.ada, org_slug="acme", service_slug="none")).status == 404
        assert statuses == [401] * TRIES_FROM_ANYWHERE.burst + [429] * 5

    async def test_nobody_learns_at_a_services_door_who_has_an_account_or_is_its_user(self, scene: ServiceSignInScene) -> None:
        user = await scene.people.with_password(PASSWORD)
        scene.tenants.uses(user, scene.shop)
        without, gone = scene.people.add(), await scene.people.with_password(PASSWORD)
        scene.people.change("update users set deactivated_at = now() where id = %s", gone.user)
        tries = (
            (user.email, "a wrong one"),
            (scene.ada.email, "a wrong one"),
            ("nobody@example.org", PASSWORD),
            (without.email, PASSWORD),
            (gone.email, PASSWORD),
        )
        answers = [await scene.browser.post(LOGIN, {"email": email, "password": password, **SHOP}) for email, password in tries]
        assert {(answer.status, answer.error_code, answer.json()["error"]) for answer in answers} == {
            (401, "UNAUTHORIZED", "The email address or the password is wrong")
        }
        assert len({tuple((name, value) for name, value in answer.headers if name != "x-request-id") for answer in answers}) == 1
        assert len(scene.users()) == 1

    async def test_a_person_without_a_verified_address_gets_in_nowhere(self, scene: ServiceSignInScene) -> None:
        person = await scene.people.with_password(PASSWORD, verified=False)
        answer = await scene.browser.login(person, **SHOP)
        assert (answer.status, answer.json()["error"]) == (401, "The email address is not verified: open the link that was sent to it")
        assert scene.users() == []


class TestWhoHears:
    async def test_the_organization_of_every_sign_in_to_its_service(self, scene: ServiceSignInScene) -> None:
        await scene.browser.tokens(scene.ada, **SHOP)
        assert scene.login_events() == [(scene.ada.user, scene.acme.id, scene.shop.id, True)]
        (event,) = scene.events("user.login.success")
        assert (event["organization_id"], event["target_id"]) == (scene.acme.id, str(scene.ada.user))
        assert (event["details"]["provider"], event["details"]["service_id"]) == ("password", str(scene.shop.id))

    async def test_nobody_of_a_sign_in_to_the_platform(self, scene: ServiceSignInScene) -> None:
        scene.tenants.uses(scene.ada, scene.shop)
        await scene.browser.tokens(scene.ada)
        (event,) = scene.events("user.login.success")
        assert (event["organization_id"], "service_id" in event["details"]) == (None, False)
        assert scene.login_events() == [(scene.ada.user, None, None, True)]

    async def test_the_organization_of_tries_that_failed_for_those_alone_who_have_been_there(self, scene: ServiceSignInScene) -> None:
        """Otherwise an organization could try any address at its own service, and learn whether the address has an account and how it signs
        in.
        """
        user = await scene.people.with_password(PASSWORD)
        scene.came(user)
        await scene.browser.login(user, "a wrong one", **SHOP)
        await scene.browser.login(user, "a wrong one", org_slug="acme", service_slug="app")
        # A person whom the service's key has made a user, without consent.
        scene.tenants.uses(scene.ada, scene.shop)
        await scene.browser.login(scene.ada, "a wrong one", **SHOP)
        await scene.browser.login(replace(scene.ada, email="nobody@example.org"), **SHOP)
        assert scene.login_events() == [
            (user.user, scene.acme.id, scene.shop.id, False),
            (user.user, None, None, False),
            (scene.ada.user, None, None, False),
            (None, None, None, False),
        ]
        heard = [event for event in scene.events("user.login.failed") if event["organization_id"] is not None]
        assert [(event["target_id"], event["details"]["service_id"]) for event in heard] == [(str(user.user), str(scene.shop.id))]
        assert not any("service_id" in event["details"] for event in scene.events("user.login.failed")[1:])

    async def test_of_wrong_codes_likewise(self, scene: ServiceSignInScene) -> None:
        await enable_mfa(scene.client, scene.people, scene.ada)

        async def try_code() -> None:
            preauth = (await scene.browser.login(scene.ada, **SHOP)).json()["access_token"]
            assert (await scene.verify(preauth, "ABCD-EFGH")).status == 401

        scene.tenants.uses(scene.ada, scene.shop)
        await try_code()
        scene.people.change("update service_users set first_login_at = now(), own_since = now()")
        await try_code()
        assert scene.login_events() == [(scene.ada.user, None, None, False), (scene.ada.user, scene.acme.id, scene.shop.id, False)]

    async def test_of_too_many_tries_likewise(self, scene: ServiceSignInScene) -> None:
        scene.came(scene.ada)
        for _ in range(TRIES_FROM_ANYWHERE.burst):
            await scene.browser.login(scene.ada, "a wrong one")
        assert (await scene.browser.login(scene.ada, **SHOP)).status == 429
        assert scene.login_events()[-1] == (scene.ada.user, scene.acme.id, scene.shop.id, False)


class TestRegistration:
    async def account(self, scene: ServiceSignInScene) -> dict[str, Any]:
        (row,) = scene.people.rows("select id, origin_service_id, email_verified_at from users where email = 'new@example.org'")
        return row

    async def test_it_remembers_the_service_whose_user_one_becomes_by_signing_in(self, scene: ServiceSignInScene) -> None:
        answer = await scene.register(**SHOP)
        assert answer.status == 200, answer.body
        account = await self.account(scene)
        assert account["origin_service_id"] == scene.shop.id
        assert scene.users() == []
        (event,) = scene.events("user.signup.success")
        assert (event["organization_id"], event["target_id"]) == (scene.acme.id, str(account["id"]))
        assert event["details"] == {"provider": "password", "service_id": str(scene.shop.id)}
        (entry,) = scene.people.rows("select organization_id, actor_id from audit_log where action = 'user.signup.success'")
        assert entry == {"organization_id": scene.acme.id, "actor_id": account["id"]}
        (job,) = scene.people.rows("select kind from jobs")
        assert job["kind"] == "account.mail"
        scene.people.change("update users set email_verified_at = now()")
        await scene.browser.tokens(replace(scene.ada, email="new@example.org"), **SHOP)
        assert [user["user_id"] for user in scene.users()] == [account["id"]]

    @pytest.mark.parametrize("named", [{}, {"org_slug": "acme"}, {"org_slug": "nowhere"}, {"org_slug": "acme", "service_slug": None}])
    async def test_without_a_service_it_comes_from_nowhere(self, scene: ServiceSignInScene, named: dict[str, Any]) -> None:
        assert (await scene.register(**named)).status == 200
        assert (await self.account(scene))["origin_service_id"] is None
        (event,) = scene.events("user.signup.success")
        assert (event["organization_id"], event["details"]) == (None, {"provider": "password"})

    async def test_a_stranger_who_registers_an_address_gives_no_service_a_hold_on_its_owner(self, scene: ServiceSignInScene) -> None:
        """A service's rights over accounts that came through it must not extend to a person who never came."""
        await scene.register(**SHOP)
        postbox = Postbox(scene.postern)
        await postbox.empty()
        await scene.browser.post("/api/auth/forgot-password", {"email": "new@example.org"})
        body = {"token": await postbox.token(), "new_password": "three wet matches"}
        assert (await scene.browser.post("/api/auth/reset-password", body)).status == 200
        assert (await self.account(scene))["origin_service_id"] is None

    @pytest.mark.parametrize("verified", [True, False], ids=["verified", "made by the service"])
    async def test_whoever_came_through_a_service_themselves_did_so_after_a_reset_too(
        self, scene: ServiceSignInScene, verified: bool
    ) -> None:
        await scene.register(**SHOP)
        change = "email_verified_at = now()" if verified else "password_hash = null"
        scene.people.change(f"update users set {change} where email = 'new@example.org'")
        postbox = Postbox(scene.postern)
        await postbox.empty()
        await scene.browser.post("/api/auth/forgot-password", {"email": "new@example.org"})
        body = {"token": await postbox.token(), "new_password": "three wet matches"}
        assert (await scene.browser.post("/api/auth/reset-password", body)).status == 200
        assert (await self.account(scene))["origin_service_id"] == scene.shop.id

    async def test_an_account_that_exists_stays_what_it_was(self, scene: ServiceSignInScene) -> None:
        await scene.register()
        assert (await scene.register(**SHOP)).status == 409
        assert (await self.account(scene))["origin_service_id"] is None
        assert len(scene.events("user.signup.success")) == 1

    async def test_a_service_that_goes_away_meanwhile_is_the_origin_of_nothing(
        self, scene: ServiceSignInScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        delete = "delete from all_services where id = %s"
        meanwhile(monkeypatch, scene.postern.identity.passwords, "hash", lambda: scene.people.change(delete, scene.shop.id))
        assert (await scene.register(**SHOP)).status == 200
        assert (await self.account(scene))["origin_service_id"] is None

    async def test_of_many_at_once_one_is_registered(self, scene: ServiceSignInScene) -> None:
        answers = await all_at_once(*[lambda: scene.register(**SHOP)] * 8)
        assert sorted(answer.status for answer in answers) == [200] + [409] * 7
        assert (await self.account(scene))["origin_service_id"] == scene.shop.id


class TestMeanwhile:
    async def test_of_many_first_sign_ins_at_once_all_get_in_and_one_user_comes_of_it(self, scene: ServiceSignInScene) -> None:
        answers = await all_at_once(*[lambda: scene.browser.login(scene.ada, **SHOP)] * TRIES_FROM_ANYWHERE.burst)
        assert {answer.status for answer in answers} == {200}
        assert len(scene.users()) == scene.user_count() == 1
        assert len(scene.sessions()) == TRIES_FROM_ANYWHERE.burst

    async def test_many_newcomers_at_once_are_all_counted(self, scene: ServiceSignInScene) -> None:
        newcomers = [await scene.people.with_password(PASSWORD) for _ in range(20)]
        answers = await all_at_once(*[(lambda one=one: Browser(scene.client).login(one, **SHOP)) for one in newcomers])
        assert {answer.status for answer in answers} == {200}
        assert len(scene.users()) == scene.user_count() == 20

    @pytest.mark.parametrize(
        ("change", "status", "code"),
        [
            ("update all_services set deleted_at = now()", 404, "NOT_FOUND"),
            ("delete from all_services", 404, "NOT_FOUND"),
            ("update all_organizations set deleted_at = now()", 404, "NOT_FOUND"),
            ("delete from organizations", 404, "NOT_FOUND"),
            ("update organizations set status = 'suspended'", 403, "ORGANIZATION_NOT_ACTIVE"),
        ],
    )
    @pytest.mark.parametrize("mfa", [False, True], ids=["password", "second factor awaited"])
    async def test_what_closes_while_the_password_is_checked_is_closed(
        self, scene: ServiceSignInScene, change: str, status: int, code: str, mfa: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if mfa:
            await enable_mfa(scene.client, scene.people, scene.ada)
        before = scene.sessions()
        meanwhile(monkeypatch, scene.postern.identity.passwords, "examine", lambda: scene.people.change(change))
        answer = await scene.browser.login(scene.ada, **SHOP)
        assert (answer.status, answer.error_code) == (status, code)
        assert scene.people.rows("select * from service_users") == scene.people.rows("select * from preauthentications") == []
        assert scene.sessions() == before

    async def test_a_service_whose_row_is_on_its_way_out_is_waited_for_and_is_gone(
        self, scene: ServiceSignInScene, database_url: str
    ) -> None:
        answers: list[Received] = []

        async def sign_in() -> None:
            answers.append(await scene.browser.login(scene.ada, **SHOP))

        with psycopg.connect(database_url) as connection:
            connection.execute("delete from all_services where slug = 'shop'")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sign_in)
                await scene.people.somebody_waits()
                connection.commit()
        assert [(answer.status, answer.error_code) for answer in answers] == [(404, "NOT_FOUND")]

    async def test_newcomers_and_the_deletion_of_the_service_do_not_wait_for_each_other(self, scene: ServiceSignInScene) -> None:
        newcomers = [await scene.people.with_password(PASSWORD) for _ in range(10)]
        for _ in range(3):
            service = scene.tenants.service(scene.acme, "fleeting")

            async def sign_in(one: Person) -> Received:
                return await Browser(scene.client, SAFARI).login(one, org_slug="acme", service_slug="fleeting")

            async def delete(service: UsedService = service) -> Received:
                # After a few requests, and then with the rows purged right after the deletion.
                await trio.sleep(0.05)
                for statement in ("update all_services set deleted_at = now() where id = %s", "delete from all_services where id = %s"):
                    await trio.to_thread.run_sync(scene.people.change, statement, service.id)
                return await scene.client.get("/health/live")

            answers = await all_at_once(*[(lambda one=one: sign_in(one)) for one in newcomers], delete)
            assert {answer.status for answer in answers} <= {200, 404}
            for table in ("service_users", "sessions"):
                assert scene.people.rows(f"select * from {table} where service_id = %s", service.id) == []

    async def test_the_claims_are_of_the_account_as_it_is_when_it_gets_in(
        self, scene: ServiceSignInScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        move = "update users set email = 'ada@new.example', email_key = 'ada@new.example' where id = %s"
        meanwhile(monkeypatch, scene.postern.identity.passwords, "examine", lambda: scene.people.change(move, scene.ada.user))
        tokens = await scene.browser.tokens(scene.ada, **SHOP)
        assert claims_of(tokens["access_token"])["email"] == "ada@new.example"


class TestAfterwards:
    @pytest.mark.parametrize(
        ("change", "statuses"),
        [
            ("update all_services set deleted_at = now() where slug = 'shop'", (401, 401)),
            ("delete from all_services where slug = 'shop'", (401, 401)),
            ("update all_organizations set deleted_at = now() where slug = 'acme'", (401, 401)),
            ("update organizations set status = 'suspended' where slug = 'acme'", (403, 403)),
        ],
    )
    async def test_what_closes_is_closed_on_the_next_request(
        self, scene: ServiceSignInScene, change: str, statuses: tuple[int, int]
    ) -> None:
        elsewhere = await scene.browser.tokens(scene.ada, org_slug="globex", service_slug="app")
        tokens = await scene.browser.tokens(scene.ada, **SHOP)
        scene.people.change(change)
        # Twice: the first request must not have revived the session.
        for _ in range(2):
            profile = await scene.client.get("/api/user", token=tokens["access_token"])
            refreshed = await scene.browser.refresh(tokens["refresh_token"])
            assert (profile.status, refreshed.status) == statuses
        assert (await scene.client.get("/api/user", token=elsewhere["access_token"])).status == 200
        assert (await scene.browser.refresh(elsewhere["refresh_token"])).status == 200

    async def test_a_new_service_of_the_same_slug_is_another_one(self, scene: ServiceSignInScene) -> None:
        tokens = await scene.browser.tokens(scene.ada, org_slug="globex", service_slug="app")
        scene.people.change("update all_services set deleted_at = now() where id = %s", scene.theirs.id)
        scene.tenants.service(scene.globex, "app")
        assert (await scene.client.get("/api/user", token=tokens["access_token"])).status == 401
        assert (await scene.browser.refresh(tokens["refresh_token"])).status == 401

    async def test_signing_out_ends_this_session_and_no_other(self, scene: ServiceSignInScene) -> None:
        in_shop = await scene.browser.tokens(scene.ada, **SHOP)
        in_app = await scene.browser.tokens(scene.ada, org_slug="acme", service_slug="app")
        assert (await scene.browser.post("/api/auth/logout", token=in_shop["access_token"])).status == 200
        assert (await scene.client.get("/api/user", token=in_shop["access_token"])).status == 401
        assert (await scene.client.get("/api/user", token=in_app["access_token"])).status == 200

    async def test_the_token_of_one_service_says_nothing_for_another(self, scene: ServiceSignInScene) -> None:
        tokens = await scene.browser.tokens(scene.ada, **SHOP)
        claims = claims_of(tokens["access_token"])
        person = Person(scene.ada.user, UUID(claims["sid"]), scene.ada.email)
        for place in (scene.app, scene.theirs, scene.acme, None):
            forged = await scene.tenants.token(person, place)
            assert (await scene.client.get("/api/user", token=forged)).status == 401


def test_an_account_knows_nothing_of_services() -> None:
    """The stored origin of the account is only used for its deletion, and appears in no token and no answer."""
    assert not [name for name in names_of(Account) if "service" in name]


async def test_only_members_sign_in_where_only_they_may(scene: ServiceSignInScene) -> None:
    scene.people.change("update services set sign_in_policy = 'members' where id = %s", scene.shop.id)
    given = {"email": scene.ada.email, "password": PASSWORD, **SHOP}
    answer = await scene.browser.post(LOGIN, given)
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert (scene.sessions(), scene.user_count()) == ([], 0)
    scene.tenants.join(scene.ada, scene.acme)
    tokens = (await scene.browser.post(LOGIN, given)).ok()
    scene.people.change("delete from memberships")
    assert (await scene.client.get("/api/user", token=tokens["access_token"])).status == 403
    answer = await scene.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")


@pytest.mark.parametrize("way", ["person", "role", "team", "all of a team"])
async def test_a_sign_in_beside_the_end_of_the_last_assignment_opens_nothing(
    scene: ServiceSignInScene, database_url: str, way: str
) -> None:
    """The sign-in waits for the account, and the assignment ends meanwhile. Its last look sees what holds after the wait."""
    owner = scene.resident(scene.acme, "owner")
    scene.tenants.join(scene.ada, scene.acme)
    scene.people.change("update services set sign_in_policy = 'assigned' where id = %s", scene.shop.id)
    service, teams = "/api/organizations/acme/services/shop", "/api/organizations/acme/teams"
    (await scene.request("POST", f"{service}/roles", {"slug": "editor", "name": "Editor"}, by=owner)).ok(201)
    if way.endswith("team"):
        (await scene.request("POST", teams, {"slug": "crew", "name": "Crew"}, by=owner)).ok(201)
        assert (await scene.request("PUT", f"{teams}/crew/members/{scene.ada.user}", by=owner)).status == 204
    to: Any = {"person": {"user_id": scene.ada.user}, "role": {"organization_role": "member"}}.get(way, {"team": "crew"})
    (await scene.request("POST", f"{service}/assignments", {"role": "editor", **to}, by=owner)).ok(201)
    given = {"email": scene.ada.email, "password": PASSWORD, **SHOP}
    before = (await scene.browser.post(LOGIN, given)).ok()
    answers: list[Received] = []

    async def sign_in() -> None:
        answers.append(await scene.browser.post(LOGIN, given))

    with psycopg.connect(database_url) as other:
        other.execute("select from users where id = %s for update", [scene.ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_in)
            await scene.people.somebody_waits()
            ending = "delete from team_members" if way == "team" else "delete from relations where id is not null"
            scene.people.change(ending)
            other.rollback()
    (answer,) = answers
    # An answer of the wait is a refusal; a session that opened all the same opens nothing.
    tokens = [before, *([answer.json()] if answer.status == 200 else [])]
    for one in tokens:
        assert (await scene.client.get("/api/user", token=one["access_token"])).status == 403
        assert (await scene.client.post("/api/auth/refresh", {"refresh_token": one["refresh_token"]})).status == 403
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert [one["service_id"] for one in scene.sessions()].count(scene.shop.id) == 1


async def test_fifty_who_come_for_the_first_time_wait_for_each_other_in_one_order(scene: ServiceSignInScene) -> None:
    """Each person comes twice at once: by the browser that is known, and by another one, whose sign-in is mailed to them and sends its
    statements in other company. The two once waited for each other, by the try that is given back and the place in the service.
    """
    client = unlimited(scene.postern)
    people = [scene.ada, *(scene.people.add() for _ in range(24))]
    scene.people.change(
        "update users set password_hash = (select password_hash from users where id = %s), email_verified_at = now() where id = any (%s)",
        scene.ada.user,
        [one.user for one in people],
    )

    async def come(person: Person, agent: str, place: dict[str, str]) -> Received:
        answer = await Browser(client, agent).post(LOGIN, {"email": person.email, "password": PASSWORD, **place})
        if answer.status == 200:
            scene.log.remember(answer.json()["access_token"], answer.json()["refresh_token"])
        return answer

    for person in people:
        assert (await come(person, FIREFOX, {})).status == 200
    answers = await all_at_once(*(partial(come, person, agent, SHOP) for person in people for agent in (FIREFOX, SAFARI)))
    assert [answer.status for answer in answers] == [200] * 50
    assert scene.user_count() == 25
    assert len(scene.people.rows("select from jobs where kind = 'mail'")) == 25


async def test_two_sign_ins_of_one_person_come_one_after_the_other(
    scene: ServiceSignInScene, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is mailed has given its try back, and wants the place in the service; the other one has the place, and wants to give
    its try back.
    """
    scene.log.remember(*tokens_of(await scene.browser.post(LOGIN, {"email": scene.ada.email, "password": PASSWORD})))
    answers: dict[str, Received] = {}
    checked: list[str] = []
    buckets = "select from rate_limit_buckets where limit_name = %s for update"

    async def come(agent: str) -> None:
        answers[agent] = await Browser(scene.client, agent).post(LOGIN, {"email": scene.ada.email, "password": PASSWORD, **SHOP})

    with psycopg.connect(database_url) as other:
        async with trio.open_nursery() as nursery:

            async def meet() -> None:
                checked.append("password")
                if len(checked) == 1:
                    nursery.start_soon(come, SAFARI)
                    await scene.people.somebody_waits()
                else:
                    other.execute(buckets, [TRIES_FROM_ANYWHERE.name])

            meanwhile(monkeypatch, scene.postern.identity.passwords, "examine", meet)
            nursery.start_soon(come, FIREFOX)
            await scene.people.all_wait(2)
            other.rollback()
    assert {agent: answer.status for agent, answer in answers.items()} == {FIREFOX: 200, SAFARI: 200}
    for answer in answers.values():
        scene.log.remember(*tokens_of(answer))
    assert scene.user_count() == 1


def tokens_of(answer: Received) -> tuple[str, str]:
    return answer.json()["access_token"], answer.json()["refresh_token"]
