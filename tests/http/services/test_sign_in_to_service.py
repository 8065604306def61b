"""Signing in to a service over HTTP: the claims of its tokens, the people who become its users, the refusals, and the events."""

from datetime import UTC, datetime
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
from tests.http.signing_in import LOGIN, PASSWORD, SAFARI, Browser, enable_mfa, unlimited
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
async def house(postern: Postern, people: People, log: CapturedLog) -> ServiceSignInScene:
    house = ServiceSignInScene(postern, people, unlimited(postern), log)
    await house.move_in()
    return house


def paid(token: str) -> tuple[Any, ...]:
    claims = claims_of(token)
    return claims["plan"], claims["features"], claims["subscription_status"]


async def test_the_tokens_are_for_the_service(house: ServiceSignInScene) -> None:
    tokens = await house.browser.tokens(house.ada, **SHOP)
    claims = claims_of(tokens["access_token"])
    assert (claims["sub"], claims["aud"], claims["org"], claims["service"]) == (
        str(house.ada.user),
        "service:acme/shop",
        "acme",
        "shop",
    )
    assert (claims["org_id"], claims["service_id"]) == (str(house.acme.id), str(house.shop.id))
    assert (claims["token_use"], claims["amr"]) == ("access", ["pwd"])
    assert paid(tokens["access_token"]) == ("free", [], "active")
    profile = await house.client.get("/api/user", token=tokens["access_token"])
    told = {name: value for name, value in profile.json().items() if value is not None}
    assert told == {"id": str(house.ada.user), "email": house.ada.email, "org": "acme", "service": "shop"}
    assert house.sessions() == [{"user_id": house.ada.user, "organization_id": house.acme.id, "service_id": house.shop.id}]
    # The session opens neither the organization nor its other services.
    for path in ("/api/organizations/acme", "/api/organizations/acme/services"):
        assert (await house.client.get(path, token=tokens["access_token"])).status == 403


async def test_by_the_first_sign_in_one_becomes_a_user_of_the_service_and_every_further_one_is_noted(house: ServiceSignInScene) -> None:
    before = house.postern.foundation.clock.now()
    await house.browser.tokens(house.ada, **SHOP)
    (first,) = house.users()
    assert (first["user_id"], first["org_id"]) == (house.ada.user, house.acme.id)
    assert before <= first["created_at"] == first["first_login_at"] == first["last_login_at"] <= house.postern.foundation.clock.now()
    await house.browser.tokens(house.ada, **SHOP)
    (again,) = house.users()
    assert again["last_login_at"] > first["last_login_at"]
    assert {**again, "last_login_at": first["last_login_at"]} == first
    assert house.user_count() == 1
    assert (house.users(house.app), house.users(house.theirs), house.user_count(house.app)) == ([], [], 0)


async def test_a_person_who_was_added_to_the_service_still_comes_for_the_first_time(house: ServiceSignInScene) -> None:
    house.tenants.uses(house.ada, house.shop)
    (made,) = house.users()
    await house.browser.tokens(house.ada, **SHOP)
    (came,) = house.users()
    assert came["first_login_at"] == came["last_login_at"] > made["created_at"]
    assert (came["created_at"], house.user_count()) == (made["created_at"], 1)


async def test_a_member_of_the_organization_is_a_user_like_others(house: ServiceSignInScene) -> None:
    house.tenants.join(house.ada, house.acme, "owner")
    tokens = await house.browser.tokens(house.ada, **SHOP)
    assert len(house.users()) == 1
    # Not even an owner governs with a token that an application holds.
    assert (await house.client.get("/api/organizations/acme", token=tokens["access_token"])).status == 403


async def test_a_sign_in_to_the_platform_makes_nobody_a_user_of_anything(house: ServiceSignInScene) -> None:
    for more in ({}, {"org_slug": "acme"}, {"org_slug": "nowhere"}, {"org_slug": None, "service_slug": None}, {"service_slug": ""}):
        tokens = await house.browser.tokens(house.ada, **more)
        assert claims_of(tokens["access_token"])["aud"] == "platform"
        assert not {"org", "org_id", "service", "service_id", "plan"} & set(claims_of(tokens["access_token"]))
    assert house.people.rows("select * from service_users") == []
    assert {(row["organization_id"], row["service_id"]) for row in house.sessions()} == {(None, None)}


async def test_the_token_says_what_was_paid_for_and_so_does_the_next_one(house: ServiceSignInScene) -> None:
    house.tenants.uses(house.ada, house.shop)
    house.subscribe(house.ada, "Pro", features="{export,api}")
    tokens = await house.browser.tokens(house.ada, **SHOP)
    assert paid(tokens["access_token"]) == ("Pro", ["export", "api"], "active")
    # Her subscription here counts in no other service.
    assert paid((await house.browser.tokens(house.ada, org_slug="acme", service_slug="app"))["access_token"]) == ("free", [], "active")
    house.people.change("update subscriptions set status = 'past_due'")
    tokens = (await house.browser.refresh(tokens["refresh_token"])).json()
    assert paid(tokens["access_token"]) == ("Pro", ["export", "api"], "past_due")
    # An active subscription whose period has ended counts as expired even before the expirer has written that.
    house.people.change("update subscriptions set status = 'active', current_period_end = now() - interval '1 second'")
    tokens = (await house.browser.refresh(tokens["refresh_token"])).json()
    assert paid(tokens["access_token"]) == ("Pro", ["export", "api"], "expired")
    house.people.change("delete from subscriptions")
    tokens = (await house.browser.refresh(tokens["refresh_token"])).json()
    assert paid(tokens["access_token"]) == ("free", [], "active")
    assert claims_of(tokens["access_token"])["aud"] == "service:acme/shop"


async def test_it_costs_four_round_trips_a_refresh_two_and_a_request_one(
    postern: Postern, house: ServiceSignInScene, log: CapturedLog
) -> None:
    browser = Browser(unlimited(postern, SETTINGS))
    house.subscribe(house.ada, "Pro")
    # The first on a connection prepares its statements.
    tokens = await browser.tokens(await house.people.with_password(PASSWORD), **SHOP)
    await browser.refresh(tokens["refresh_token"])
    for newcomer in (house.ada, await house.people.with_password(PASSWORD)):
        for _ in range(2):
            tokens = await browser.tokens(newcomer, **SHOP)
            assert last_trips(log) <= 4
    for _ in range(2):
        tokens = (await browser.refresh(tokens["refresh_token"])).json()
        assert last_trips(log) <= 2
    assert (await browser.client.get("/api/user", token=tokens["access_token"])).status == 200
    assert last_trips(log) == 1
    for body, status in (
        ({"email": house.ada.email, "password": "a wrong one", **SHOP}, 401),
        ({"email": "nobody@example.org", "password": PASSWORD, **SHOP}, 401),
        ({"email": house.ada.email, "password": PASSWORD, **SHOP, "service_slug": "none"}, 404),
    ):
        assert (await browser.post(LOGIN, body)).status == status
        assert last_trips(log) <= 4


async def test_a_renewed_hash_leads_to_the_same_place(house: ServiceSignInScene, monkeypatch: pytest.MonkeyPatch) -> None:
    house.tenants.uses(house.ada, house.shop)
    house.subscribe(house.ada, "Pro")
    monkeypatch.setattr(house.postern.identity.passwords, "is_outdated", lambda _encoded: True)
    (before,) = house.people.rows("select password_hash from users where id = %s", house.ada.user)
    tokens = await house.browser.tokens(house.ada, **SHOP)
    assert claims_of(tokens["access_token"])["aud"] == "service:acme/shop"
    assert paid(tokens["access_token"])[0] == "Pro"
    assert house.people.rows("select password_hash from users where id = %s", house.ada.user) != [before]
    assert (await house.client.get("/api/user", token=tokens["access_token"])).status == 200


class TestSecondFactorOfService:
    async def test_it_leads_where_the_password_was_given(self, house: ServiceSignInScene) -> None:
        totp = await enable_mfa(house.client, house.people, house.ada)
        house.subscribe(house.ada, "Pro")
        awaiting = (await house.browser.login(house.ada, **SHOP)).json()
        assert awaiting["mfa_required"] is True
        # Nobody has signed in yet.
        assert house.users() == []
        assert not {"org", "service"} & set(claims_of(awaiting["access_token"]))
        assert house.people.rows("select organization_id, service_id from preauthentications") == [
            {"organization_id": house.acme.id, "service_id": house.shop.id}
        ]
        answer = await house.verify(awaiting["access_token"], totp.now())
        assert answer.status == 200, answer.body
        tokens = answer.json()
        claims = claims_of(tokens["access_token"])
        assert (claims["aud"], claims["amr"], claims["plan"]) == ("service:acme/shop", ["pwd", "otp", "mfa"], "Pro")
        assert len(house.users()) == house.user_count() == 1
        assert house.login_events() == [(house.ada.user, house.acme.id, house.shop.id, True)]
        refreshed = (await house.browser.refresh(tokens["refresh_token"])).json()
        assert claims_of(refreshed["access_token"])["aud"] == "service:acme/shop"
        assert (await house.client.get("/api/user", token=refreshed["access_token"])).json()["service"] == "shop"

    async def test_it_cannot_be_taken_elsewhere(self, house: ServiceSignInScene) -> None:
        totp = await enable_mfa(house.client, house.people, house.ada)
        preauth = (await house.browser.login(house.ada)).json()["access_token"]
        tokens = (await house.verify(preauth, totp.now(), **SHOP)).json()
        assert claims_of(tokens["access_token"])["aud"] == "platform"
        assert house.users() == []

    async def test_a_trusted_device_is_let_in_to_the_service_at_once(self, house: ServiceSignInScene) -> None:
        totp = await enable_mfa(house.client, house.people, house.ada)
        preauth = (await house.browser.login(house.ada)).json()["access_token"]
        await house.verify(preauth, totp.now(), trust_device=True)
        tokens = await house.browser.tokens(house.ada, **SHOP)
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
        self, house: ServiceSignInScene, change: str, status: int, code: str
    ) -> None:
        totp = await enable_mfa(house.client, house.people, house.ada)
        preauth = (await house.browser.login(house.ada, **SHOP)).json()["access_token"]
        house.people.change(change)
        answer = await house.verify(preauth, totp.now())
        assert (answer.status, answer.error_code) == (status, code)
        assert house.people.rows("select * from service_users") == []
        assert {row["failures"] for row in house.people.rows("select failures from preauthentications")} <= {0}
        preauth = (await house.browser.login(house.ada)).json()["access_token"]
        assert (await house.verify(preauth, totp.now())).status == 200


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
            ({"service_slug": "shop"}, "", 400, "BAD_REQUEST"),
            ({"service_slug": "shop", "org_slug": ""}, "", 400, "BAD_REQUEST"),
            ({**SHOP, "service_slug": "x" * 51}, "", 400, "BAD_REQUEST"),
            ({**SHOP, "service_slug": ["shop"]}, "", 400, "BAD_REQUEST"),
            ({**SHOP, "service_slug": "sh\0op"}, "", 400, "BAD_REQUEST"),
        ],
    )
    async def test_by_either_door_and_without_a_trace(
        self, house: ServiceSignInScene, named: dict[str, Any], change: str, status: int, code: str
    ) -> None:
        if change:
            house.people.change(change)
        for attempt in (house.browser.login(house.ada, **named), house.browser.login(house.ada, "a wrong one", **named)):
            answer = await attempt
            assert (answer.status, answer.error_code) == (status, code)
        nobody = replace(house.ada, email="nobody@example.org")
        assert (await house.browser.login(nobody, **named)).status == status
        assert (await house.register(**named)).status == status
        for table in ("sessions", "service_users", "login_events", "events", "devices", "preauthentications", "jobs"):
            assert house.people.rows(f"select * from {table}") == [], table
        assert len(house.people.rows("select id from users")) == 1
        assert not house.browser.cookies

    async def test_knocking_where_nothing_is_neither_costs_a_try_nor_brings_one_back(self, house: ServiceSignInScene) -> None:
        for _ in range(TRIES_FROM_ANYWHERE.burst + 2):
            assert (await house.browser.login(house.ada, org_slug="acme", service_slug="none")).status == 404
        assert house.tries_left() == pytest.approx(TRIES_FROM_ANYWHERE.burst)
        statuses = []
        for _ in range(TRIES_FROM_ANYWHERE.burst + 5):
            statuses.append((await house.browser.login(house.ada, "a wrong one", **SHOP)).status)
            assert (await house.browser.login(house.ada, org_slug="acme", service_slug="none")).status == 404
        assert statuses == [401] * TRIES_FROM_ANYWHERE.burst + [429] * 5

    async def test_nobody_learns_at_a_services_door_who_has_an_account_or_is_its_user(self, house: ServiceSignInScene) -> None:
        user = await house.people.with_password(PASSWORD)
        house.tenants.uses(user, house.shop)
        without, gone = house.people.add(), await house.people.with_password(PASSWORD)
        house.people.change("update users set deactivated_at = now() where id = %s", gone.user)
        tries = (
            (user.email, "a wrong one"),
            (house.ada.email, "a wrong one"),
            ("nobody@example.org", PASSWORD),
            (without.email, PASSWORD),
            (gone.email, PASSWORD),
        )
        answers = [await house.browser.post(LOGIN, {"email": email, "password": password, **SHOP}) for email, password in tries]
        assert {(answer.status, answer.error_code, answer.json()["error"]) for answer in answers} == {
            (401, "UNAUTHORIZED", "The e-mail address or the password is wrong")
        }
        assert len({tuple((name, value) for name, value in answer.headers if name != "x-request-id") for answer in answers}) == 1
        assert len(house.users()) == 1

    async def test_a_person_without_a_verified_address_gets_in_nowhere(self, house: ServiceSignInScene) -> None:
        person = await house.people.with_password(PASSWORD, verified=False)
        answer = await house.browser.login(person, **SHOP)
        assert (answer.status, answer.json()["error"]) == (401, "The e-mail address is not verified: open the link that was mailed to it")
        assert house.users() == []


class TestWhoHears:
    async def test_the_organization_of_every_sign_in_to_its_service(self, house: ServiceSignInScene) -> None:
        await house.browser.tokens(house.ada, **SHOP)
        assert house.login_events() == [(house.ada.user, house.acme.id, house.shop.id, True)]
        (event,) = house.events("user.login.success")
        assert (event["organization_id"], event["target_id"]) == (house.acme.id, str(house.ada.user))
        assert (event["details"]["provider"], event["details"]["service_id"]) == ("password", str(house.shop.id))

    async def test_nobody_of_a_sign_in_to_the_platform(self, house: ServiceSignInScene) -> None:
        house.tenants.uses(house.ada, house.shop)
        await house.browser.tokens(house.ada)
        (event,) = house.events("user.login.success")
        assert (event["organization_id"], "service_id" in event["details"]) == (None, False)
        assert house.login_events() == [(house.ada.user, None, None, True)]

    async def test_the_organization_of_tries_that_failed_for_those_alone_who_have_been_there(self, house: ServiceSignInScene) -> None:
        """Otherwise an organization could try any address at its own service, and learn whether the address has an account and how it signs
        in.
        """
        user = await house.people.with_password(PASSWORD)
        house.came(user)
        await house.browser.login(user, "a wrong one", **SHOP)
        await house.browser.login(user, "a wrong one", org_slug="acme", service_slug="app")
        # A person whom the service's key has made a user, without consent.
        house.tenants.uses(house.ada, house.shop)
        await house.browser.login(house.ada, "a wrong one", **SHOP)
        await house.browser.login(replace(house.ada, email="nobody@example.org"), **SHOP)
        assert house.login_events() == [
            (user.user, house.acme.id, house.shop.id, False),
            (user.user, None, None, False),
            (house.ada.user, None, None, False),
            (None, None, None, False),
        ]
        heard = [event for event in house.events("user.login.failed") if event["organization_id"] is not None]
        assert [(event["target_id"], event["details"]["service_id"]) for event in heard] == [(str(user.user), str(house.shop.id))]
        assert not any("service_id" in event["details"] for event in house.events("user.login.failed")[1:])

    async def test_of_wrong_codes_likewise(self, house: ServiceSignInScene) -> None:
        await enable_mfa(house.client, house.people, house.ada)

        async def try_code() -> None:
            preauth = (await house.browser.login(house.ada, **SHOP)).json()["access_token"]
            assert (await house.verify(preauth, "ABCD-EFGH")).status == 401

        house.tenants.uses(house.ada, house.shop)
        await try_code()
        house.people.change("update service_users set first_login_at = now(), own_since = now()")
        await try_code()
        assert house.login_events() == [(house.ada.user, None, None, False), (house.ada.user, house.acme.id, house.shop.id, False)]

    async def test_of_too_many_tries_likewise(self, house: ServiceSignInScene) -> None:
        house.came(house.ada)
        for _ in range(TRIES_FROM_ANYWHERE.burst):
            await house.browser.login(house.ada, "a wrong one")
        assert (await house.browser.login(house.ada, **SHOP)).status == 429
        assert house.login_events()[-1] == (house.ada.user, house.acme.id, house.shop.id, False)


class TestRegistration:
    async def account(self, house: ServiceSignInScene) -> dict[str, Any]:
        (row,) = house.people.rows("select id, origin_service_id, email_verified_at from users where email = 'new@example.org'")
        return row

    async def test_it_remembers_the_service_whose_user_one_becomes_by_signing_in(self, house: ServiceSignInScene) -> None:
        answer = await house.register(**SHOP)
        assert answer.status == 200, answer.body
        account = await self.account(house)
        assert account["origin_service_id"] == house.shop.id
        assert house.users() == []
        (event,) = house.events("user.signup.success")
        assert (event["organization_id"], event["target_id"]) == (house.acme.id, str(account["id"]))
        assert event["details"] == {"provider": "password", "service_id": str(house.shop.id)}
        (entry,) = house.people.rows("select organization_id, actor_id from audit_log where action = 'user.signup.success'")
        assert entry == {"organization_id": house.acme.id, "actor_id": account["id"]}
        (job,) = house.people.rows("select kind from jobs")
        assert job["kind"] == "account.mail"
        house.people.change("update users set email_verified_at = now()")
        await house.browser.tokens(replace(house.ada, email="new@example.org"), **SHOP)
        assert [user["user_id"] for user in house.users()] == [account["id"]]

    @pytest.mark.parametrize("named", [{}, {"org_slug": "acme"}, {"org_slug": "nowhere"}, {"org_slug": "acme", "service_slug": None}])
    async def test_without_a_service_it_comes_from_nowhere(self, house: ServiceSignInScene, named: dict[str, Any]) -> None:
        assert (await house.register(**named)).status == 200
        assert (await self.account(house))["origin_service_id"] is None
        (event,) = house.events("user.signup.success")
        assert (event["organization_id"], event["details"]) == (None, {"provider": "password"})

    async def test_a_stranger_who_registers_an_address_gives_no_service_a_hold_on_its_owner(self, house: ServiceSignInScene) -> None:
        """A service's rights over accounts that came through it must not extend to a person who never came."""
        await house.register(**SHOP)
        postbox = Postbox(house.postern)
        await postbox.empty()
        await house.browser.post("/api/auth/forgot-password", {"email": "new@example.org"})
        body = {"token": await postbox.token(), "new_password": "three wet matches"}
        assert (await house.browser.post("/api/auth/reset-password", body)).status == 200
        assert (await self.account(house))["origin_service_id"] is None

    @pytest.mark.parametrize("verified", [True, False], ids=["verified", "made by the service"])
    async def test_whoever_came_through_a_service_themselves_did_so_after_a_reset_too(
        self, house: ServiceSignInScene, verified: bool
    ) -> None:
        await house.register(**SHOP)
        change = "email_verified_at = now()" if verified else "password_hash = null"
        house.people.change(f"update users set {change} where email = 'new@example.org'")
        postbox = Postbox(house.postern)
        await postbox.empty()
        await house.browser.post("/api/auth/forgot-password", {"email": "new@example.org"})
        body = {"token": await postbox.token(), "new_password": "three wet matches"}
        assert (await house.browser.post("/api/auth/reset-password", body)).status == 200
        assert (await self.account(house))["origin_service_id"] == house.shop.id

    async def test_an_account_that_exists_stays_what_it_was(self, house: ServiceSignInScene) -> None:
        await house.register()
        assert (await house.register(**SHOP)).status == 409
        assert (await self.account(house))["origin_service_id"] is None
        assert len(house.events("user.signup.success")) == 1

    async def test_a_service_that_goes_away_meanwhile_is_the_origin_of_nothing(
        self, house: ServiceSignInScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        delete = "delete from all_services where id = %s"
        meanwhile(monkeypatch, house.postern.identity.passwords, "hash", lambda: house.people.change(delete, house.shop.id))
        assert (await house.register(**SHOP)).status == 200
        assert (await self.account(house))["origin_service_id"] is None

    async def test_of_many_at_once_one_is_registered(self, house: ServiceSignInScene) -> None:
        answers = await all_at_once(*[lambda: house.register(**SHOP)] * 8)
        assert sorted(answer.status for answer in answers) == [200] + [409] * 7
        assert (await self.account(house))["origin_service_id"] == house.shop.id


class TestMeanwhile:
    async def test_of_many_first_sign_ins_at_once_all_get_in_and_one_user_comes_of_it(self, house: ServiceSignInScene) -> None:
        answers = await all_at_once(*[lambda: house.browser.login(house.ada, **SHOP)] * TRIES_FROM_ANYWHERE.burst)
        assert {answer.status for answer in answers} == {200}
        assert len(house.users()) == house.user_count() == 1
        assert len(house.sessions()) == TRIES_FROM_ANYWHERE.burst

    async def test_many_newcomers_at_once_are_all_counted(self, house: ServiceSignInScene) -> None:
        newcomers = [await house.people.with_password(PASSWORD) for _ in range(20)]
        answers = await all_at_once(*[(lambda one=one: Browser(house.client).login(one, **SHOP)) for one in newcomers])
        assert {answer.status for answer in answers} == {200}
        assert len(house.users()) == house.user_count() == 20

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
        self, house: ServiceSignInScene, change: str, status: int, code: str, mfa: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if mfa:
            await enable_mfa(house.client, house.people, house.ada)
        before = house.sessions()
        meanwhile(monkeypatch, house.postern.identity.passwords, "examine", lambda: house.people.change(change))
        answer = await house.browser.login(house.ada, **SHOP)
        assert (answer.status, answer.error_code) == (status, code)
        assert house.people.rows("select * from service_users") == house.people.rows("select * from preauthentications") == []
        assert house.sessions() == before

    async def test_a_service_whose_row_is_on_its_way_out_is_waited_for_and_is_gone(
        self, house: ServiceSignInScene, database_url: str
    ) -> None:
        answers: list[Received] = []

        async def sign_in() -> None:
            answers.append(await house.browser.login(house.ada, **SHOP))

        with psycopg.connect(database_url) as connection:
            connection.execute("delete from all_services where slug = 'shop'")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sign_in)
                await house.people.somebody_waits()
                connection.commit()
        assert [(answer.status, answer.error_code) for answer in answers] == [(404, "NOT_FOUND")]

    async def test_newcomers_and_the_deletion_of_the_service_do_not_wait_for_each_other(self, house: ServiceSignInScene) -> None:
        newcomers = [await house.people.with_password(PASSWORD) for _ in range(10)]
        for _ in range(3):
            service = house.tenants.service(house.acme, "fleeting")

            async def sign_in(one: Person) -> Received:
                return await Browser(house.client, SAFARI).login(one, org_slug="acme", service_slug="fleeting")

            async def delete(service: UsedService = service) -> Received:
                # After a few requests, and then with the rows purged right after the deletion.
                await trio.sleep(0.05)
                for statement in ("update all_services set deleted_at = now() where id = %s", "delete from all_services where id = %s"):
                    await trio.to_thread.run_sync(house.people.change, statement, service.id)
                return await house.client.get("/health/live")

            answers = await all_at_once(*[(lambda one=one: sign_in(one)) for one in newcomers], delete)
            assert {answer.status for answer in answers} <= {200, 404}
            for table in ("service_users", "sessions"):
                assert house.people.rows(f"select * from {table} where service_id = %s", service.id) == []

    async def test_the_claims_are_of_the_account_as_it_is_when_it_gets_in(
        self, house: ServiceSignInScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        move = "update users set email = 'ada@new.example', email_key = 'ada@new.example' where id = %s"
        meanwhile(monkeypatch, house.postern.identity.passwords, "examine", lambda: house.people.change(move, house.ada.user))
        tokens = await house.browser.tokens(house.ada, **SHOP)
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
        self, house: ServiceSignInScene, change: str, statuses: tuple[int, int]
    ) -> None:
        elsewhere = await house.browser.tokens(house.ada, org_slug="globex", service_slug="app")
        tokens = await house.browser.tokens(house.ada, **SHOP)
        house.people.change(change)
        # Twice: the first request must not have revived the session.
        for _ in range(2):
            profile = await house.client.get("/api/user", token=tokens["access_token"])
            refreshed = await house.browser.refresh(tokens["refresh_token"])
            assert (profile.status, refreshed.status) == statuses
        assert (await house.client.get("/api/user", token=elsewhere["access_token"])).status == 200
        assert (await house.browser.refresh(elsewhere["refresh_token"])).status == 200

    async def test_a_new_service_of_the_same_slug_is_another_one(self, house: ServiceSignInScene) -> None:
        tokens = await house.browser.tokens(house.ada, org_slug="globex", service_slug="app")
        house.people.change("update all_services set deleted_at = now() where id = %s", house.theirs.id)
        house.tenants.service(house.globex, "app")
        assert (await house.client.get("/api/user", token=tokens["access_token"])).status == 401
        assert (await house.browser.refresh(tokens["refresh_token"])).status == 401

    async def test_signing_out_ends_this_session_and_no_other(self, house: ServiceSignInScene) -> None:
        in_shop = await house.browser.tokens(house.ada, **SHOP)
        in_app = await house.browser.tokens(house.ada, org_slug="acme", service_slug="app")
        assert (await house.browser.post("/api/auth/logout", token=in_shop["access_token"])).status == 200
        assert (await house.client.get("/api/user", token=in_shop["access_token"])).status == 401
        assert (await house.client.get("/api/user", token=in_app["access_token"])).status == 200

    async def test_the_token_of_one_service_says_nothing_for_another(self, house: ServiceSignInScene) -> None:
        tokens = await house.browser.tokens(house.ada, **SHOP)
        claims = claims_of(tokens["access_token"])
        person = Person(house.ada.user, UUID(claims["sid"]), house.ada.email)
        for place in (house.app, house.theirs, house.acme, None):
            forged = await house.tenants.token(person, place)
            assert (await house.client.get("/api/user", token=forged)).status == 401


def test_an_account_knows_nothing_of_services() -> None:
    """The stored origin of the account is only used for its deletion, and appears in no token and no answer."""
    assert not [name for name in names_of(Account) if "service" in name]


async def test_only_members_sign_in_where_only_they_may(house: ServiceSignInScene) -> None:
    house.people.change("update services set sign_in_policy = 'members' where id = %s", house.shop.id)
    given = {"email": house.ada.email, "password": PASSWORD, **SHOP}
    answer = await house.browser.post(LOGIN, given)
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert (house.sessions(), house.user_count()) == ([], 0)
    house.tenants.join(house.ada, house.acme)
    tokens = (await house.browser.post(LOGIN, given)).ok()
    house.people.change("delete from memberships")
    assert (await house.client.get("/api/user", token=tokens["access_token"])).status == 403
    answer = await house.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")


@pytest.mark.parametrize("way", ["person", "role", "team", "all of a team"])
async def test_a_sign_in_beside_the_end_of_the_last_assignment_opens_nothing(
    house: ServiceSignInScene, database_url: str, way: str
) -> None:
    """The sign-in waits for the account, and the assignment ends meanwhile. Its last look sees what holds after the wait."""
    owner = house.resident(house.acme, "owner")
    house.tenants.join(house.ada, house.acme)
    house.people.change("update services set sign_in_policy = 'assigned' where id = %s", house.shop.id)
    service, teams = "/api/organizations/acme/services/shop", "/api/organizations/acme/teams"
    (await house.request("POST", f"{service}/roles", {"slug": "editor", "name": "Editor"}, by=owner)).ok(201)
    if way.endswith("team"):
        (await house.request("POST", teams, {"slug": "crew", "name": "Crew"}, by=owner)).ok(201)
        assert (await house.request("PUT", f"{teams}/crew/members/{house.ada.user}", by=owner)).status == 204
    to: Any = {"person": {"user_id": house.ada.user}, "role": {"organization_role": "member"}}.get(way, {"team": "crew"})
    (await house.request("POST", f"{service}/assignments", {"role": "editor", **to}, by=owner)).ok(201)
    given = {"email": house.ada.email, "password": PASSWORD, **SHOP}
    before = (await house.browser.post(LOGIN, given)).ok()
    answers: list[Received] = []

    async def sign_in() -> None:
        answers.append(await house.browser.post(LOGIN, given))

    with psycopg.connect(database_url) as other:
        other.execute("select from users where id = %s for update", [house.ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_in)
            await house.people.somebody_waits()
            ending = "delete from team_members" if way == "team" else "delete from relations where id is not null"
            house.people.change(ending)
            other.rollback()
    (answer,) = answers
    # An answer of the wait is a refusal; a session that opened all the same opens nothing.
    tokens = [before, *([answer.json()] if answer.status == 200 else [])]
    for one in tokens:
        assert (await house.client.get("/api/user", token=one["access_token"])).status == 403
        assert (await house.client.post("/api/auth/refresh", {"refresh_token": one["refresh_token"]})).status == 403
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert [one["service_id"] for one in house.sessions()].count(house.shop.id) == 1
