"""The people, organizations and services that the tests share. A test's own scene inherits these and adds its own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, TypeVar

import trio

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.tenants import OwnRole, Tenant, Tenants, UsedService

T = TypeVar("T")


@dataclass
class Cast:
    """Adds people and organizations, sends requests as one of them, and reads what was recorded."""

    postern: Postern
    people: People
    client: Client
    log: CapturedLog
    tenants: Tenants = field(init=False)
    speaker: Person = field(init=False)
    """Asks where a test names nobody."""
    audited_columns: ClassVar = "action, organization_id, actor_id, target_type, target_id, details"

    def __post_init__(self) -> None:
        self.tenants = Tenants(self.postern, self.people)

    async def request(self, method: str, target: str, body: Any = None, *, by: Person | None = None) -> Received:
        return await self.client.request(method, target, body=body, token=await self.tenants.token(by or self.speaker))

    def resident(self, tenant: Tenant, role: str | OwnRole, name: str = "") -> Person:
        """A member with an address at the organization. The address has this name, or the name of the role."""
        called = name or (role if isinstance(role, str) else role.slug)
        return self.tenants.member(tenant, role, f"{called}@{tenant.slug}.example")

    def told(self, table: str = "events") -> list[dict[str, Any]]:
        """The events for webhooks, or the entries of the audit log, in order."""
        name = "name" if table == "events" else "action"
        return self.people.rows(
            f"select {name} as name, organization_id, actor_id, target_type, target_id, details from {table} order by id"
        )

    def audited(self, action: str = "%") -> list[dict[str, Any]]:
        return self.people.rows(f"select {self.audited_columns} from audit_log where action like %s order by id", action)


class Neighbours(Cast):
    """Acme and globex."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acme, self.globex = self.tenants.add("acme"), self.tenants.add("globex")


class Shops(Neighbours):
    """Acme with a shop and an app, and globex with a service that has the slug of one of them."""

    their_slug = "app"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shop, self.app = self.tenants.service(self.acme, "shop"), self.tenants.service(self.acme, "app")
        self.theirs = self.tenants.service(self.globex, self.their_slug)

    def user(self, *services: UsedService, email: str | None = None, **times: datetime) -> Person:
        """An end user of these services, or of the shop."""
        person = self.people.add(email)
        for service in services or (self.shop,):
            self.tenants.uses(person, service, **times)
        return person


async def served(ask: Callable[[], Awaitable[Received]]) -> Received:
    """The answer, asked for again while a busy machine has no connection for everybody in time: a 503 of that kind has done nothing."""
    while (answer := await ask()).status == 503:
        pass
    return answer


async def all_at_once(*calls: Callable[[], Awaitable[T]]) -> list[T]:
    """Runs these requests at once. Returns their results, the first to finish first."""
    results: list[T] = []

    async def one(call: Callable[[], Awaitable[T]]) -> None:
        results.append(await call())

    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(one, call)
    return results
