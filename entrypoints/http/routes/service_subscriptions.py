"""The subscriptions of a service's users, for the service's own servers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeVar
from uuid import UUID

import msgspec

from core.domain.api_keys import KeyHolder, Permission
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import PlanId, UserId
from core.domain.subscriptions import Subscription, SubscriptionStatus
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import key
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.paging import OffsetPaging

Value = TypeVar("Value")
# A moment is only one with its offset from UTC.
Moment = Annotated[datetime, msgspec.Meta(tz=True)]

_TAGS = ("service-interface",)
_SUBSCRIPTIONS = "/api/service/subscriptions"
_SUBSCRIPTION = "/api/service/subscriptions/{user_id}"


class SubscriptionsQuery(OffsetPaging, frozen=True, kw_only=True):
    status: SubscriptionStatus | None = None


class SubscriptionPath(msgspec.Struct, frozen=True):
    user_id: UUID


class NewSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """`current_period_end` is thirty days ahead when nothing is said."""

    user_id: UUID
    plan_id: UUID
    status: SubscriptionStatus = SubscriptionStatus.ACTIVE
    current_period_end: Moment | msgspec.UnsetType = msgspec.UNSET


class SubscriptionPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays."""

    status: SubscriptionStatus | msgspec.UnsetType = msgspec.UNSET
    current_period_end: Moment | msgspec.UnsetType = msgspec.UNSET


class SubscriptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    user_id: UUID
    plan_id: UUID
    plan_name: str
    status: SubscriptionStatus
    current_period_end: datetime


class SubscriptionList(msgspec.Struct, frozen=True):
    """One page of them, and how many there are in all."""

    subscriptions: Sequence[SubscriptionRecord]
    total: int


@endpoint.get(_SUBSCRIPTIONS, caller=key(Permission.READ_SUBSCRIPTIONS), tags=_TAGS)
async def list_subscriptions(call: Call[None, SubscriptionsQuery, None, KeyHolder], services: Services) -> SubscriptionList:
    """The subscriptions to the service, the oldest first

    Those too that are over: a user may have several, of which one at most is active or past due. One whose period ended within the last
    minute may still be found among the active ones; it says that it has expired.
    """
    asked = call.query
    found = await services.subscriptions.list(call.caller, asked.status, asked.limit, asked.offset)
    return SubscriptionList([_record(subscription) for subscription in found.items], found.total)


@endpoint.post(
    _SUBSCRIPTIONS,
    caller=key(Permission.WRITE_SUBSCRIPTIONS),
    refuses=(BadRequest, NotFound, Conflict),
    tags=_TAGS,
)
async def create_subscription(call: Call[NewSubscription, None, None, KeyHolder], services: Services) -> SubscriptionRecord:
    """Subscribe a user of the service to one of its plans

    One at most is active or past due for each user: while there is one, another is a conflict. An active one whose period has already ended
    is expired from the beginning.
    """
    body = call.body
    subscription = await services.subscriptions.create(
        call.caller,
        UserId(body.user_id),
        PlanId(body.plan_id),
        call.actor,
        status=body.status,
        current_period_end=_given(body.current_period_end),
    )
    return _record(subscription)


@endpoint.get(_SUBSCRIPTION, caller=key(Permission.READ_SUBSCRIPTIONS), tags=_TAGS)
async def user_subscription(call: Call[None, None, SubscriptionPath, KeyHolder], services: Services) -> SubscriptionRecord:
    """The subscription of a user

    The one that is active or past due, or else the last one that there was.
    """
    return _record(await services.subscriptions.get(call.caller, UserId(call.path.user_id)))


@endpoint.patch(_SUBSCRIPTION, caller=key(Permission.WRITE_SUBSCRIPTIONS), refuses=(BadRequest,), tags=_TAGS)
async def change_subscription(call: Call[SubscriptionPatch, None, SubscriptionPath, KeyHolder], services: Services) -> SubscriptionRecord:
    """Change the subscription of a user

    The one that is active or past due, or else the last one that there was. To renew one that has expired, say `status` and
    `current_period_end`. The user's next access token says what became of it.
    """
    subscription = await services.subscriptions.change(
        call.caller,
        UserId(call.path.user_id),
        call.actor,
        status=_given(call.body.status),
        current_period_end=_given(call.body.current_period_end),
    )
    return _record(subscription)


@endpoint.delete(_SUBSCRIPTION, caller=key(Permission.DELETE_SUBSCRIPTIONS), status=204, tags=_TAGS)
async def delete_subscription(call: Call[None, None, SubscriptionPath, KeyHolder], services: Services) -> NoBody:
    """Delete the subscriptions of a user

    Those too that are over. To keep them, cancel the last one instead.
    """
    await services.subscriptions.delete(call.caller, UserId(call.path.user_id), call.actor)
    return NO_BODY


def _given(value: Value | msgspec.UnsetType) -> Value | None:
    return None if isinstance(value, msgspec.UnsetType) else value


def _record(subscription: Subscription) -> SubscriptionRecord:
    return SubscriptionRecord(
        id=subscription.id,
        user_id=subscription.user,
        plan_id=subscription.plan,
        plan_name=subscription.plan_name,
        status=subscription.status,
        current_period_end=subscription.current_period_end,
    )
