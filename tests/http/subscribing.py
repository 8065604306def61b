"""A service with plans, users and API keys, beside one of another organization, put there past the interface."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from core.domain.api_keys import Permission
from core.domain.secrets import Token
from entrypoints.bootstrap import Services
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.tenants import Tenant, Tenants, UsedService

SUBSCRIPTIONS = "/api/service/subscriptions"
PLANS = "/api/organizations/acme/services/shop/plans"


@dataclass
class Market:
    """Acme with a shop and an app, globex with an app of the same slug."""

    services: Services
    tenants: Tenants
    people: People
    client: Client
    log: CapturedLog
    acme: Tenant = field(init=False)
    globex: Tenant = field(init=False)
    shop: UsedService = field(init=False)
    app: UsedService = field(init=False)
    theirs: UsedService = field(init=False)
    admin: Person = field(init=False)
    key: str = field(init=False)

    def __post_init__(self) -> None:
        self.acme, self.globex = self.tenants.add("acme"), self.tenants.add("globex")
        self.shop, self.app = self.tenants.service(self.acme, "shop"), self.tenants.service(self.acme, "app")
        self.theirs = self.tenants.service(self.globex, "app")
        self.admin = self.tenants.member(self.acme, "admin", "admin@acme.example")
        self.key = self.key_of(self.shop)

    @property
    def now(self) -> datetime:
        return self.services.clock.now()

    def user(self, *services: UsedService, email: str | None = None) -> Person:
        """Of the shop, if nothing is said."""
        person = self.people.add(email)
        for service in services or (self.shop,):
            self.tenants.uses(person, service)
        return person

    def plan(self, service: UsedService | None = None, name: str = "Pro", *, price: int = 900, features: Collection[str] = ()) -> UUID:
        plan = self.services.ids.new()
        self.people.change(
            "insert into plans (id, service_id, name, price_cents, currency, features, created_at, updated_at)"
            " values (%s, %s, %s, %s, 'usd', %s, now(), now())",
            plan,
            (service or self.shop).id,
            name,
            price,
            list(features),
        )
        return plan

    def key_of(self, service: UsedService, permissions: Collection[Permission] = tuple(Permission)) -> str:
        identifier = self.services.ids.new()
        text = f"sk_{identifier.hex[-6:]}_{identifier.hex}"
        self.people.change(
            "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
            " values (%s, %s, 'key', %s, %s, %s, %s, now())",
            identifier,
            service.id,
            text[:9],
            Token(text).digest(),
            [permission.value for permission in permissions],
            self.admin.user,
        )
        return text

    async def ask(self, method: str, path: str = "", body: Any = None, *, key: str | None = None) -> Received:
        """The service interface, with the shop's key."""
        headers = [("x-api-key", key or self.key), ("user-agent", "backend/1")]
        return await self.client.request(method, SUBSCRIPTIONS + path, body=body, headers=headers)

    async def subscribe(self, person: Person, plan: UUID, *, key: str | None = None, **more: Any) -> Received:
        return await self.ask("POST", body={"user_id": str(person.user), "plan_id": str(plan), **more}, key=key)

    async def subscribed(self, person: Person, plan: UUID, **more: Any) -> dict[str, Any]:
        answer = await self.subscribe(person, plan, **more)
        assert answer.status == 200, answer.body
        body: dict[str, Any] = answer.json()
        return body

    async def get(self, person: Person) -> dict[str, Any]:
        answer = await self.ask("GET", f"/{person.user}")
        assert answer.status == 200, answer.body
        body: dict[str, Any] = answer.json()
        return body

    async def manage(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None, plans: str = PLANS) -> Received:
        """The shop's plans, as its administrator."""
        return await self.client.request(method, plans + path, body=body, token=await self.tenants.token(by or self.admin))

    def events(self, table: str = "events") -> list[dict[str, Any]]:
        """What was told, in order: to webhooks, or to the audit log."""
        name = "name" if table == "events" else "action"
        return self.people.rows(
            f"select {name} as name, organization_id, actor_id, target_type, target_id, details from {table} order by id"
        )

    def counts(self, plan: UUID) -> tuple[int, ...]:
        """Of a plan's subscriptions: active, past due, cancelled, expired, and of them those that live."""
        (row,) = self.people.rows(
            "select active_count, past_due_count, cancelled_count, expired_count, subscription_count from plans where id = %s", plan
        )
        return tuple(row.values())
