"""Requests that have begun, and wait for a lock, while a fact ends on which their answer rests."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
import pytest
import trio

from adapters.postgres.unit_of_work import PostgresUnitOfWork
from tests.http.client import Received
from tests.http.federation.arriving import left, told
from tests.http.federation.relying import CALLBACK, Application, oauth
from tests.http.federation.resources.agents import READ, Agents
from tests.http.federation.resources.asking import ORDERS
from tests.http.locks import Statement
from tests.http.people import Person
from tests.http.signing_in import PASSWORD
from tests.patience import PATIENCE

ACME: Final = "/api/organizations/acme"
APPROVE: Final = "orders:approve"
Ask = Callable[[], Awaitable[Received]]
Act = Callable[[], Awaitable[object]]


def outcome(answer: Received) -> tuple[int, str]:
    """The refusal, or that there are tokens."""
    return (200, "tokens") if answer.status == 200 else oauth(answer)


@dataclass
class GapScene(Agents):
    """`boss` owns acme, and `governor` the platform. Ada uses acme's applications."""

    database_url: str = ""
    given: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.boss = self.resident(self.acme, "owner", "boss")
        self.governor = self.people.proved("governor@example.org", platform_owner=True)
        self.other_governor = self.people.proved("other@example.org", platform_owner=True)
        self.people.change("update users set email_verified_at = now() where id = %s", self.boss.user)

    # --- Locks.

    @property
    def account(self) -> Statement:
        """The weakest lock for which a redemption waits. Requests that change nothing of the account go on."""
        return "select from users where id = %s for share", self.ada.user

    @property
    def holding_account(self) -> Statement:
        """The lock of whoever goes on to change the account."""
        return "select from users where id = %s for no key update", self.ada.user

    @property
    def browsers(self) -> Statement:
        """The same of the browser's session, from which the application's is opened."""
        return "select from sessions where user_id = %s for no key update", self.ada.user

    def token(self, digest: bytes) -> Statement:
        return "select from refresh_tokens where digest = %s for share", digest

    def session_row(self, session: object) -> Statement:
        return "select from sessions where id = %s for share", session

    def hold(self, connection: psycopg.Connection[Any], lock: Statement) -> None:
        connection.execute(lock[0], [lock[1]])

    async def behind(self, lock: Statement, ask: Ask, act: Act | LiteralString) -> Received:
        """The answer to a request that waits for the lock of another connection, while somebody acts beside it, or this connection does."""
        answers: list[Received] = []

        async def asked() -> None:
            answers.append(await ask())

        with psycopg.connect(self.database_url) as other:
            self.hold(other, lock)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(asked)
                await self.people.somebody_waits()
                try:
                    if isinstance(act, str):
                        other.execute(act)
                        other.commit()
                    else:
                        with trio.fail_after(PATIENCE):
                            await act()
                finally:
                    other.rollback()
        (answer,) = answers
        return answer

    async def before_the_end_of(self, act: Act, ask: Ask) -> Received:
        """The answer to a request that begins when somebody's act has written everything, and that waits for the act's commit."""
        answers: list[Received] = []

        async def asked() -> None:
            answers.append(await ask())

        with pytest.MonkeyPatch.context() as patched:
            async with trio.open_nursery() as nursery:

                async def commit(uow: PostgresUnitOfWork) -> None:
                    patched.undo()
                    nursery.start_soon(asked)
                    await self.people.somebody_waits()
                    await uow.commit()

                patched.setattr(PostgresUnitOfWork, "commit", commit)
                await act()
        (answer,) = answers
        return answer

    # --- What Ada's applications have been given.

    async def plain(self, application: Application | None = None) -> str:
        return await self.code(application or self.shop, scopes="openid email")

    async def of_member(self, application: Application | None = None) -> str:
        """A code for a member, in an application for members alone."""
        self.tenants.join(self.ada, self.acme)
        await self.set_service(application or self.shop, sign_in_policy="members")
        return await self.plain(application)

    async def of_keyed(self, application: Application | None = None) -> str:
        """A code for an application that could sign assertions as well."""
        return await self.plain(self.keyed(application or self.shop, kid="one"))

    async def of_listed(self, application: Application | None = None) -> str:
        """The same for somebody whom others have listed as a member."""
        self.tenants.join(self.ada, self.acme, listed=True)
        await self.set_service(application or self.shop, sign_in_policy="members")
        return await self.plain(application)

    async def of_trusted(self, application: Application | None = None) -> str:
        """A code for a member whom nobody has asked for consent."""
        self.tenants.join(self.ada, self.acme)
        await self.set_service(application or self.shop, trusted=True)
        address = self.address(application, scope="openid email").partition("&resource=")[0]
        return str(told((await self.browser().tab().open(address)).shown, CALLBACK)["code"])

    async def of_holder(self, application: Application | None = None) -> str:
        """A code for somebody who holds a role, in an application that lets nobody else in."""
        application = application or self.shop
        self.tenants.uses(self.ada, application.service)
        await self.set_service(application, sign_in_policy="assigned")
        await self.assigned_role(application, "clerk")
        return await self.plain(application)

    async def of_api(self, application: Application | None = None) -> str:
        """A code for acme's orders, all scopes of which Ada has allowed. One of them needs a permission, which her role gives her."""
        self.tenants.uses(self.ada, self.desk.service)
        (await self.request("POST", f"{self.path(self.desk)}/permissions", {"key": "approve"}, by=self.boss)).ok(201)
        await self.assigned_role(self.desk, "approver", "approve")
        scopes = [{"name": READ, "description": "See"}, {"name": APPROVE, "description": "Approve", "permission": "approve"}]
        self.given["api"] = self.api(ORDERS, scopes=scopes)
        scope = f"openid {READ} {APPROVE}"
        tab = await self.asked(ORDERS, application=application, scope=scope)
        return left(await tab.send(answer="allow"), CALLBACK)["code"]

    async def of_agent(self, _application: Application | None = None) -> str:
        """A code for an agent."""
        self.given["api"] = self.api()
        return left(await (await self.asks()).send(answer="allow"), CALLBACK)["code"]

    def path(self, application: Application) -> str:
        return f"{ACME}/services/{application.service.slug}"

    async def assigned_role(self, application: Application, slug: str, *permissions: str) -> None:
        body = {"slug": slug, "name": slug, "permissions": list(permissions)}
        (await self.request("POST", f"{self.path(application)}/roles", body, by=self.boss)).ok(201)
        to = {"role": slug, "user_id": str(self.ada.user)}
        answer = await self.request("POST", f"{self.path(application)}/assignments", to, by=self.boss)
        self.given[f"holder of {slug}"] = answer.ok(201)["id"]

    def subscribed(self) -> UUID:
        """Ada has bought a plan of the shop. Returns the plan's id."""
        plan = self.postern.foundation.ids.new()
        self.people.change(
            "insert into plans (id, service_id, name, price_cents, currency, features, created_at, updated_at)"
            " values (%s, %s, 'Pro', 900, 'usd', '{}', now(), now())",
            *(plan, self.shop.service.id),
        )
        self.people.change(
            "insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)"
            " values (gen_random_uuid(), %s, %s, %s, 'active', now() + interval '1 day', now(), now())",
            *(self.shop.service.id, self.ada.user, plan),
        )
        return plan

    def with_second_factor(self, person: Person) -> None:
        """The person has a second factor, and has shown it just now."""
        self.people.give_passkey(person, second_factor=True)
        self.people.change("update sessions set second_factor_at = now() where user_id = %s", person.user)

    async def impersonated(self) -> dict[str, Any]:
        """What a platform owner has been given to act for Ada."""
        body = {"reason": "Ticket 4711: sees an empty list"}
        begun = (await self.request("POST", f"/api/platform/impersonate/{self.ada.user}", body, by=self.other_governor)).ok()
        return self.kept(begun)

    # --- Ends.

    async def done(self, method: str, path: str, body: Any = None, by: Person | None = None) -> None:
        answer = await self.request(method, path, body, by=by or self.boss)
        assert answer.status in {200, 201, 202, 204}, answer.body

    async def set_service(self, application: Application, **settings: Any) -> None:
        await self.done("PATCH", self.path(application), settings)

    async def set_rules(self, **rules: Any) -> None:
        await self.done("PATCH", f"{ACME}/sign-in-rules", rules)

    async def set_api(self, **settings: Any) -> None:
        await self.done("PATCH", f"{ACME}/resource-servers/{self.given['api']}", settings)

    async def secret_revoked(self) -> None:
        (row,) = self.people.rows("select id from client_secrets where service_id = %s", self.shop.service.id)
        await self.done("DELETE", f"{self.path(self.shop)}/client-secrets/{row['id']}")

    async def fapi2_held(self) -> None:
        settings = {"profile": "fapi2", "dpop_bound_access_tokens": True, "assertion_audience": "issuer"}
        await self.set_service(self.shop, **settings)

    async def service_deleted(self, application: Application | None = None) -> None:
        await self.done("DELETE", self.path(application or self.shop))

    async def suspended(self) -> None:
        await self.done("POST", f"/api/platform/organizations/{self.acme.id}/suspend", {"reason": "x"}, by=self.governor)

    async def organization_deleted(self) -> None:
        await self.done("DELETE", ACME)

    async def consent_taken_back(self, application: Application | None = None) -> None:
        """On Ada's page, in another browser."""
        await self._taken_back(f"{(application or self.shop).service.id}/revoke")

    async def api_taken_back(self) -> None:
        await self._taken_back(f"/apis/{self.given['api']}/revoke")

    async def _taken_back(self, page: str) -> None:
        tab = await self.browser().tab().open("/ui/applications")
        forms = [number for number, form in enumerate(tab.page.forms) if form.action.endswith(page)]
        if not forms:
            (link,) = [link for link in tab.page.links if link.endswith(page)]
            await tab.open(link)
            forms = [number for number, form in enumerate(tab.page.forms) if form.action.endswith("/revoke")]
        (form,) = forms
        await tab.send(form)
        assert tab.place.startswith("/ui/applications?done="), tab.page.text

    async def membership_ended(self) -> None:
        await self.done("POST", f"{ACME}/members/{self.ada.user}")

    async def role_taken(self) -> None:
        await self.done("DELETE", f"{self.path(self.shop)}/assignments/{self.given['holder of clerk']}")

    async def permission_taken(self) -> None:
        await self.done("PATCH", f"{self.path(self.desk)}/roles/approver", {"permissions": []})

    async def api_ended(self) -> None:
        await self.done("DELETE", f"{ACME}/resource-servers/{self.given['api']}")

    async def terms_due(self) -> None:
        """The owner sets terms that nobody has accepted. Their last day passes in the database: it lies in the future when it is set."""
        body = {"version": "1", "address": "https://acme.example/terms", "due_at": "2099-01-01T00:00:00Z"}
        await self.done("PUT", f"{ACME}/terms", body)
        self.people.change("update terms set due_at = now() - interval '1 hour'")

    async def deactivated(self) -> None:
        await self.done("POST", f"/api/platform/users/{self.ada.user}/deactivate", {"reason": "x"}, by=self.governor)

    async def signed_out(self) -> None:
        """In the browser whose session opens the application's."""
        (await self.client.post("/api/auth/logout", token=await self.people.token(self.ada))).ok()

    async def all_signed_out(self) -> None:
        await self.done("DELETE", f"{ACME}/users/{self.ada.user}/sessions")

    async def password_changed(self) -> None:
        body = {"current_password": PASSWORD, "new_password": "the sun over the mountains"}
        await self.done("POST", "/api/user/change-password", body, by=self.people.session_of(self.ada))

    # --- What came of it.

    def opened(self) -> list[dict[str, Any]]:
        """The sessions of applications, with those that have ended."""
        return self.people.rows("select id, most, most_in_service, revoked_at from sessions where scopes is not null order by id")

    def left_nothing(self) -> None:
        """No session, nothing to refresh it with, and no word of a sign-in."""
        assert self.opened() == []
        assert self.people.rows("select from refresh_tokens") == []
        assert self.people.rows("select from login_events") == []
        assert self.people.rows("select from events where name = 'user.login.success'") == []
        assert self.people.rows("select from service_users where last_login_at is not null") == []
