"""Purchases, and the events by which the payment provider tells of them."""

import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import psycopg

from ops.bench.harness import Server
from ops.bench.load import Target

SECRET: Final = "whsec_bench"  # noqa: S105 - of the benchmark alone
SETTINGS: Final = {"POSTERN_BILLING_WEBHOOK_SECRETS": SECRET}
# The events of each purchase, in this order.
TOLD: Final = (
    *("customer.subscription.created", "invoice.paid", "customer.subscription.updated"),
    *("invoice.paid", "customer.subscription.updated"),
)
MONTH: Final = 30 * 86_400

Purchase = Mapping[str, str]


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
