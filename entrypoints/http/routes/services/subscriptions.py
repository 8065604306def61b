"""A user's own subscription to the service that they are signed in to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.services.plans import OwnSubscription
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example


class OwnSubscriptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Your subscription to a service."""

    service: Annotated[str, example("billing")]
    """The service's slug."""
    plan: Annotated[str, example("Team")]
    """The plan's name."""
    features: Annotated[Sequence[str], example(["export", "priority-support"])]
    """The features of the plan."""
    status: Annotated[str, example("active")]
    """One of `active`, `cancelled`, `expired` and `past_due`."""
    current_period_end: datetime | None
    """When the current period ends; null if it does not."""


@endpoint.get("/api/subscription", caller=USER, refuses=(BadRequest,), tags=("account",))
async def get_own_subscription(call: Call, postern: Postern) -> OwnSubscriptionRecord:
    """Get your subscription to the service that the token is for

    If you never subscribed, you have the plan `free`, which is active, has no features and never ends.
    """
    return _record(await postern.services.subscriptions.own(call.caller))


_record = shown(OwnSubscription, OwnSubscriptionRecord, within=("state",), named={"service": "service_slug"})
