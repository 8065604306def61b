"""Billing: the payment provider sends events at a steady pace, and the case measures how soon they count."""

import hmac
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

import psycopg
import trio

from ops.bench.filling.fill_services import Size, grow_services
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.load import Broken, Client, Target, percentile
from ops.bench.report import Figure, at_least, at_most

SECRET: Final = "whsec_bench"  # noqa: S105 - of the benchmark alone
SETTINGS: Final = {"POSTERN_BILLING_WEBHOOK_SECRETS": SECRET}
SERVICES: Final = 10
BUYERS: Final = 2_000
PACE: Final = 500
# The events of each purchase, in this order.
TOLD: Final = (
    *("customer.subscription.created", "invoice.paid", "customer.subscription.updated"),
    *("invoice.paid", "customer.subscription.updated"),
)
CONNECTIONS: Final = 64
MONTH: Final = 30 * 86_400
PATIENCE: Final = 120.0

Purchase = Mapping[str, str]


async def billing(_options: Options) -> Sequence[Figure]:
    """Five hundred events a second for twenty seconds, about two thousand purchases in ten services: the time until the provider has its
    answer, and until the events count. In the first run, the events of a purchase come within a second; in the second run, four seconds
    apart.
    """
    figures: list[Figure] = []
    for what, together in (("within a second", PACE // len(TOLD)), ("over sixteen seconds", BUYERS)):
        async with AsyncExitStack() as stack:
            place = stack.enter_context(directory())
            server = await stack.enter_async_context(serving(place, settings=SETTINGS))
            await trio.to_thread.run_sync(grow_services, server.database_url, Size(SERVICES, BUYERS, SERVICES))
            purchases = await trio.to_thread.run_sync(purchases_of, server.database_url)
            groups = [purchases[begin : begin + together] for begin in range(0, len(purchases), together)]
            events = [event_of(purchase, step) for group in groups for step in range(len(TOLD)) for purchase in group]
            waits, failures, took = await _send(server, events)
            with trio.move_on_after(PATIENCE):
                while await trio.to_thread.run_sync(_waiting, server.database_url):  # noqa: ASYNC110 - another process is waited for
                    await trio.sleep(0.2)
            applied, living = await trio.to_thread.run_sync(_applied, server.database_url)
        figures += [
            Figure(f"{what}: events a second", len(events) / took, bar=at_least(0.95 * PACE)),
            Figure(f"{what}: until the answer, 95th percentile", percentile(sorted(waits), 95) * 1e3, "ms", at_most(50)),
            Figure(f"{what}: until the news count, median", percentile(applied, 50), "s"),
            Figure(f"{what}: until the news count, the longest", applied[-1], "s", at_most(5)),
            Figure(f"{what}: subscriptions that live afterwards", living, bar=at_least(len(purchases))),
            Figure(f"{what}: requests that failed", failures, bar=at_most(0)),
        ]
    return figures


def purchases_of(url: str) -> Sequence[Purchase]:
    """Each person buys the plan of their service."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update plans set billing_price_id = 'price_' || id")
        connection.execute(
            "insert into billing_customers (id, org_id, external_id, created_at)"
            " select gen_random_uuid(), id, 'cus_' || id, now() from all_organizations"
        )
        rows = connection.execute(
            "select distinct on (users.user_id) org_id::text, users.service_id::text, users.user_id::text, plans.id::text"
            "  from service_users as users join plans on plans.service_id = users.service_id"
            " order by users.user_id, users.service_id desc"
        ).fetchall()
        connection.execute("analyze")
    return [dict(zip(("org_id", "service_id", "user_id", "plan_id"), row, strict=True)) for row in rows]


def event_of(purchase: Purchase, step: int) -> bytes:
    name, began = TOLD[step], int(time.time()) - 60
    subscription, customer = f"sub_{purchase['user_id']}", f"cus_{purchase['org_id']}"
    end = began + MONTH + step
    thing: Mapping[str, Any]
    if name == "invoice.paid":
        details = {"type": "subscription_details", "subscription_details": {"subscription": subscription, "metadata": purchase}}
        period = {"start": began, "end": end}
        thing = {"id": f"in_{step}", "object": "invoice", "customer": customer, "parent": details, "lines": {"data": [{"period": period}]}}
    else:
        item = {"id": "si", "price": {"id": f"price_{purchase['plan_id']}"}, "current_period_end": end}
        thing = {
            "id": subscription,
            "object": "subscription",
            "status": "active",
            "customer": customer,
            "created": began,
            "metadata": purchase,
            "items": {"data": [item]},
            "ended_at": None,
            "livemode": False,
        }
    event = {"id": f"evt_{step}_{purchase['user_id']}", "type": name, "created": began + step, "livemode": False}
    return json.dumps({**event, "data": {"object": thing}}).encode()


def handed(server: Server, event: bytes) -> Target:
    """The request by which the provider tells of the event."""
    stamp = str(int(time.time()))
    proof = hmac.new(SECRET.encode(), stamp.encode() + b"." + event, "sha256").hexdigest()
    headers = {"Content-Type": "application/json", "Billing-Signature": f"t={stamp},v1={proof}"}
    return replace(server.target("/webhooks/billing", headers), method="POST", body=event)


async def _send(server: Server, events: Sequence[bytes]) -> tuple[list[float], int, float]:
    """Sends each event at its moment, even if earlier ones are late. Waits count from that moment."""
    waits: list[float] = []
    failures = 0
    began = trio.current_time() + 0.1
    numbers = iter(range(len(events)))

    async def hand() -> None:
        nonlocal failures
        async with Client.connected(server.target("/webhooks/billing")) as client:
            for number in numbers:
                due = began + number / PACE
                await trio.sleep_until(due)
                try:
                    answer = await client.ask(handed(server, events[number]))
                except Broken:
                    failures += 1
                    return
                waits.append(trio.current_time() - due)
                failures += answer.status != 200

    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS):
            nursery.start_soon(hand)
    return waits, failures, trio.current_time() - began


def _waiting(url: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute("select exists (select from billing_events where applied_at is null)").fetchone()
    return row is not None and bool(row[0])


def _applied(url: str) -> tuple[list[float], int]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select extract(epoch from coalesce(applied_at, now() + interval '1 day') - received_at)::float8"
            "  from billing_events order by 1"
        ).fetchall()
        row = connection.execute("select count(*) from subscriptions where status = 'active' and managed").fetchone()
    return [seconds for (seconds,) in rows], 0 if row is None else row[0]
