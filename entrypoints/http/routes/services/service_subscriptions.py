"""The subscriptions of a service's users, for the service's own servers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import PlanId, UserId
from core.domain.services.api_keys import KeyHolder, Permission
from core.domain.services.plans import Subscription, SubscriptionStatus
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import key
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, OffsetPaging, Total, UserUuid, example, given
from entrypoints.http.machinery.limits import UNLIMITED

Value = TypeVar("Value")
# A date and time without its offset from UTC names no moment.
Moment = Annotated[datetime, msgspec.Meta(tz=True, examples=["2026-04-01T00:00:00Z"])]

_TAGS = ("service-interface",)
_SUBSCRIPTIONS = "/api/service/subscriptions"
_SUBSCRIPTION = "/api/service/subscriptions/{user_id}"


class SubscriptionsQuery(OffsetPaging, frozen=True, kw_only=True):
    status: SubscriptionStatus | None = None
    """Only subscriptions with this status."""


class SubscriptionPath(msgspec.Struct, frozen=True):
    user_id: UserUuid


class NewSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """The subscription to create."""

    user_id: UserUuid
    plan_id: UUID
    """The plan's ID."""
    status: SubscriptionStatus = SubscriptionStatus.ACTIVE
    """The initial status of the subscription."""
    current_period_end: Moment | msgspec.UnsetType = msgspec.UNSET
    """When the current period ends, with the UTC offset. The default is 30 days from now."""


class SubscriptionPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a subscription. Omitted fields keep their values."""

    status: Annotated[SubscriptionStatus, example("active")] | msgspec.UnsetType = msgspec.UNSET
    """The new status."""
    current_period_end: Moment | msgspec.UnsetType = msgspec.UNSET
    """When the current period ends, with the UTC offset."""


class SubscriptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription of a user to a plan."""

    id: Id
    user_id: UserUuid
    plan_id: UUID
    """The plan's ID."""
    plan_name: Annotated[str, example("Team")]
    """The plan's name."""
    status: SubscriptionStatus
    """The status of the subscription."""
    current_period_end: datetime
    """When the current period ends."""


class SubscriptionList(msgspec.Struct, frozen=True):
    """One page of subscriptions."""

    subscriptions: Sequence[SubscriptionRecord]
    """The subscriptions on this page, oldest first."""
    total: Total


@endpoint.get(_SUBSCRIPTIONS, caller=key(Permission.READ_SUBSCRIPTIONS), tags=_TAGS)
async def list_subscriptions(call: Call[None, SubscriptionsQuery, None, KeyHolder], postern: Postern) -> SubscriptionList:
    """List subscriptions

    Returns the subscriptions to the service, oldest first, including ended ones. A user can have several subscriptions, but at most one
    that is active or past due. For up to 1 minute after the period of a subscription ends, the filter `active` can still return it. Its
    `status` is already `expired`.
    """
    asked = call.query
    found = await postern.services.subscriptions.list(call.caller, asked.status, asked.limit, asked.offset)
    return SubscriptionList([_record(subscription) for subscription in found.items], found.total)


@endpoint.post(
    _SUBSCRIPTIONS,
    caller=key(Permission.WRITE_SUBSCRIPTIONS),
    limit=UNLIMITED,
    refuses=(BadRequest, NotFound, Conflict),
    tags=_TAGS,
)
async def create_subscription(call: Call[NewSubscription, None, None, KeyHolder], postern: Postern) -> SubscriptionRecord:
    """Create a subscription

    Subscribes a user of the service to a plan. A user can have at most one subscription that is active or past due. For a second one, the
    response is 409. If you create an active subscription whose period has already ended, its status is `expired` from the start.
    """
    body = call.body
    subscription = await postern.services.subscriptions.create(
        call.caller,
        UserId(body.user_id),
        PlanId(body.plan_id),
        call.actor,
        status=body.status,
        current_period_end=given(body.current_period_end),
    )
    return _record(subscription)


@endpoint.get(_SUBSCRIPTION, caller=key(Permission.READ_SUBSCRIPTIONS), tags=_TAGS)
async def get_user_subscription(call: Call[None, None, SubscriptionPath, KeyHolder], postern: Postern) -> SubscriptionRecord:
    """Get a user's subscription

    Returns the subscription that is active or past due. If there is none, returns the latest one.
    """
    return _record(await postern.services.subscriptions.get(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_SUBSCRIPTION, caller=key(Permission.WRITE_SUBSCRIPTIONS), limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_subscription(call: Call[SubscriptionPatch, None, SubscriptionPath, KeyHolder], postern: Postern) -> SubscriptionRecord:
    """Change a user's subscription

    Changes the subscription that is active or past due. If there is none, changes the latest one. To renew an expired subscription, send
    `status` and `current_period_end`. The user's next access token contains the change.
    """
    subscription = await postern.services.subscriptions.change(
        call.caller,
        UserId(call.path.user_id),
        call.actor,
        status=given(call.body.status),
        current_period_end=given(call.body.current_period_end),
    )
    return _record(subscription)


@endpoint.delete(_SUBSCRIPTION, caller=key(Permission.DELETE_SUBSCRIPTIONS), limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_subscription(call: Call[None, None, SubscriptionPath, KeyHolder], postern: Postern) -> NoBody:
    """Delete a user's subscriptions

    Deletes all subscriptions of the user, including ended ones. To keep a record, set the `status` to `cancelled` instead.
    """
    await postern.services.subscriptions.delete(call.caller, UserId(call.path.user_id), call.actor)
    return NO_BODY


_record = shown(Subscription, SubscriptionRecord, named={"user_id": "user", "plan_id": "plan"})
