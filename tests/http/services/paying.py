"""People who buy from acme's shop, and the payment provider."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from adapters.crypto.key_ring import EncryptionKey
from core.domain.tokens import KeyPurpose
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.settings import read
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.people import BASE_URL, People, Person
from tests.http.signing_in import unlimited
from tests.http.subscribing import Market
from tests.http.tenants import UsedService
from tests.payment_provider import KEY, SECRET, PaymentProvider, providing, signed
from tests.signing import current_key

CHECKOUT: Final = "/api/organizations/acme/services/shop/checkout"
PORTAL: Final = "/api/organizations/acme/billing/portal"
RECEIVER: Final = "/webhooks/billing"
APP: Final = "https://app.example.com"
NOTHING: Final[Mapping[str, str]] = {}
OTHER_SECRET: Final = "whsec_the_next_one"


class Counter(Market):
    """The market, with a payment provider that knows prices for the plans."""

    provider: PaymentProvider
    environment: Mapping[str, str]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.member = self.resident(self.acme, "member")
        self.pro, self.team = self.priced("price_pro"), self.priced("price_team", name="Team")
        for service in (self.shop, self.app):
            self.people.change("update all_services set redirect_uris = %s where id = %s", [f"{APP}/callback"], service.id)
        self.log.remember(KEY, SECRET)

    def priced(self, price: str, service: UsedService | None = None, name: str = "Pro") -> UUID:
        plan = self.plan(service, name)
        self.people.change("update plans set billing_price_id = %s where id = %s", price, plan)
        return plan

    async def checkout(self, plan: UUID | None = None, *, by: Person | None = None, more: Mapping[str, str] = NOTHING) -> Received:
        body = {"plan_id": str(plan or self.pro), "success_url": f"{APP}/welcome", "cancel_url": f"{APP}/pricing", **more}
        return await self.request("POST", CHECKOUT, body, by=by or self.member)

    def customer(self, name: str = "cus_acme") -> str:
        """A customer of acme's, made without a checkout."""
        self.people.change(
            "insert into billing_customers (id, org_id, external_id, created_at) values (gen_random_uuid(), %s, %s, now())",
            self.acme.id,
            name,
        )
        return name

    def metadata(self, person: Person, plan: UUID | None = None, **more: Any) -> dict[str, str]:
        return {
            "org_id": str(self.acme.id),
            "service_id": str(self.shop.id),
            "plan_id": str(plan or self.pro),
            "user_id": str(person.user),
            **more,
        }

    def bought(self, person: Person, plan: UUID | None = None, price: str = "price_pro", **more: Any) -> dict[str, Any]:
        return self.provider.subscribe("cus_acme", price, self.metadata(person, plan), **more)

    async def send(self, event: dict[str, Any], **more: Any) -> Received:
        return await send(self.client, event, **more)

    async def tell(self, name: str, thing: dict[str, Any], at: int | None = None) -> dict[str, Any]:
        event = self.provider.event(name, thing, at)
        assert (await self.send(event)).ok() == {"status": "success"}
        return event

    async def own(self, person: Person) -> dict[str, Any]:
        token = await self.tenants.token_in(person, self.shop)
        return (await self.client.get("/api/subscription", token=token)).ok()

    def records(self, person: Person) -> list[dict[str, Any]]:
        return self.people.rows(
            "select plans.name, status, current_period_end, managed, subscriptions.created_at from subscriptions"
            " join plans on plans.id = plan_id where user_id = %s order by subscriptions.created_at, plans.name",
            person.user,
        )

    def told_about(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.told() if event["name"] == name]

    def outcomes(self) -> dict[str, str]:
        return {row["id"]: row["outcome"] for row in self.people.rows("select id, outcome from billing_events")}

    def mails(self) -> int:
        (row,) = self.people.rows("select count(*) as n from jobs where kind = 'mail'")
        return int(row["n"])


async def send(client: Client, event: dict[str, Any], *, signature: str | None = "", body: bytes | None = None) -> Received:
    sent = json.dumps(event).encode() if body is None else body
    headers = [("content-type", "application/json")]
    if signature is not None:
        headers.append(("billing-signature", signature or signed(sent)))
    return await client.request("POST", RECEIVER, body=sent, headers=headers)


@asynccontextmanager
async def counter_on(database_url: str, directory: Path, log: CapturedLog, **settings: str) -> AsyncIterator[Counter]:
    """A whole Postern with billing, and the payment provider."""
    async with providing() as provider:
        environment = {
            "POSTERN_DATABASE_URL": database_url,
            "POSTERN_DATA_DIR": str(directory),
            "POSTERN_BASE_URL": BASE_URL,
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
            "POSTERN_BILLING_API_URL": provider.url,
            "POSTERN_BILLING_KEY": KEY,
            "POSTERN_BILLING_WEBHOOK_SECRETS": f"{SECRET}, {OTHER_SECRET}",
            **settings,
        }
        async with open_postern(read(environment)) as postern:
            await _with_keys(postern)
            with People(postern, database_url) as people:
                counter = Counter(postern, people, unlimited(postern), log)
                counter.provider, counter.environment = provider, environment
                yield counter


async def _with_keys(postern: Postern) -> None:
    async with postern.foundation.unit_of_work() as uow:
        await uow.signing_keys.lock_for_update()
        for purpose in KeyPurpose:
            await uow.signing_keys.add(current_key(purpose))
        await uow.commit()


@asynccontextmanager
async def beside(database_url: str, directory: Path) -> AsyncIterator[Client]:
    """Another process on the same database."""
    environment = {
        "POSTERN_DATABASE_URL": database_url,
        "POSTERN_DATA_DIR": str(directory),
        "POSTERN_BASE_URL": BASE_URL,
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        "POSTERN_BILLING_WEBHOOK_SECRETS": SECRET,
    }
    async with open_postern(read(environment)) as postern:
        yield unlimited(postern)
