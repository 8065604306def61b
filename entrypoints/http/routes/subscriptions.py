"""A user's own subscription to the service that they are signed in to."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from core.domain.errors import BadRequest
from entrypoints.bootstrap import Services
from entrypoints.http.callers import USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint


class OwnSubscriptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`plan` is its name, `service` the service's slug. `status` is one of active, cancelled, expired and past_due."""

    service: str
    plan: str
    features: Sequence[str]
    status: str
    current_period_end: datetime | None


@endpoint.get("/api/subscription", caller=USER, refuses=(BadRequest,), tags=("account",))
async def own_subscription(call: Call, services: Services) -> OwnSubscriptionRecord:
    """The caller's subscription to the service of their token

    Whoever never subscribed is on the plan `free`, active, without features and without an end.
    """
    found = await services.subscriptions.own(call.caller)
    return OwnSubscriptionRecord(
        service=found.service_slug,
        plan=found.state.plan,
        features=found.state.features,
        status=found.state.status,
        current_period_end=found.state.current_period_end,
    )
