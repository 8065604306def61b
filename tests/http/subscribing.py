"""Services with plans, users and API keys, written without the API."""

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from core.domain.secrets import Token
from core.domain.services.api_keys import Permission
from tests.http.cast import Shops
from tests.http.client import Received
from tests.http.people import Person
from tests.http.tenants import UsedService

SUBSCRIPTIONS = "/api/service/subscriptions"
PLANS = "/api/organizations/acme/services/shop/plans"


class Market(Shops):
    """Shops with plans and API keys. People's requests come from acme's administrator, servers' requests from the shop's key."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.admin = self.speaker = self.resident(self.acme, "admin")
        self.key = self.key_of(self.shop)

    @property
    def now(self) -> datetime:
        return self.postern.foundation.clock.now()

    def plan(self, service: UsedService | None = None, name: str = "Pro", *, price: int = 900, features: Collection[str] = ()) -> UUID:
        plan = self.postern.foundation.ids.new()
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
        identifier = self.postern.foundation.ids.new()
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
        """Calls the service interface, with the shop's key."""
        headers = [("x-api-key", key or self.key), ("user-agent", "backend/1")]
        return await self.client.request(method, SUBSCRIPTIONS + path, body=body, headers=headers)

    async def subscribe(self, person: Person, plan: UUID, *, key: str | None = None, **more: Any) -> Received:
        return await self.ask("POST", body={"user_id": str(person.user), "plan_id": str(plan), **more}, key=key)

    async def subscribed(self, person: Person, plan: UUID, **more: Any) -> dict[str, Any]:
        return (await self.subscribe(person, plan, **more)).ok()

    async def get(self, person: Person) -> dict[str, Any]:
        return (await self.ask("GET", f"/{person.user}")).ok()

    async def manage(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None, plans: str = PLANS) -> Received:
        """Calls the endpoints for the shop's plans, as its administrator."""
        return await self.request(method, plans + path, body, by=by)

    def by_key(self, told: dict[str, Any]) -> dict[str, Any]:
        """The audit entry that belongs to this webhook event: the entry names the shop's key as the actor."""
        (key,) = self.people.rows("select id, name, prefix from api_keys where digest = %s", Token(self.key).digest())
        return {
            **told,
            "actor_id": key["id"],
            "details": {**told["details"], "acting_key": {"name": key["name"], "prefix": key["prefix"]}},
        }

    def counts(self, plan: UUID) -> tuple[int, ...]:
        """A plan's subscriptions counted: active, past due, cancelled, expired; and how many of these are live."""
        (row,) = self.people.rows(
            "select active_count, past_due_count, cancelled_count, expired_count, subscription_count from plans where id = %s", plan
        )
        return tuple(row.values())
