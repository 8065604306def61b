"""The plans of a service."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.governance import UNCHANGED
from core.domain.identifiers import PlanId
from core.domain.members import Member
from core.domain.plans import PlanOverview
from core.domain.roles import Capability
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NoBody
from entrypoints.http.callers import able
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

Value = TypeVar("Value")

_TAGS = ("plans",)
_PLANS = "/api/organizations/{org_slug}/services/{service_slug}/plans"
_PLAN = "/api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}"


class PlansPath(msgspec.Struct, frozen=True):
    org_slug: str
    service_slug: str


class PlanPath(msgspec.Struct, frozen=True):
    org_slug: str
    service_slug: str
    plan_id: UUID


class NewPlan(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    price_cents: int
    currency: str
    features: Sequence[str] = ()
    billing_price_id: str | None = None


class PlanPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays. `features` are replaced, not merged; a `billing_price_id` of null is taken away."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    price_cents: int | msgspec.UnsetType = msgspec.UNSET
    currency: str | msgspec.UnsetType = msgspec.UNSET
    features: Sequence[str] | msgspec.UnsetType = msgspec.UNSET
    billing_price_id: str | msgspec.UnsetType | None = msgspec.UNSET


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`subscription_count` are those that live: active or past due. A plan without `billing_price_id` cannot be bought."""

    id: UUID
    service_id: UUID
    name: str
    price_cents: int
    currency: str
    features: Sequence[str]
    billing_price_id: str | None
    subscription_count: int
    created_at: datetime


@endpoint.get(_PLANS, caller=able(Capability.SERVICES_VIEW), tags=_TAGS)
async def list_plans(call: Call[None, None, PlansPath, Member], services: Services) -> Sequence[PlanRecord]:
    """The plans of a service, the cheapest first

    All of them, 100 at most.
    """
    return [plan_record(plan) for plan in await services.plans.list(call.caller, call.path.service_slug)]


@endpoint.post(_PLANS, caller=able(Capability.SERVICES_MANAGE), refuses=(BadRequest,), tags=_TAGS)
async def create_plan(call: Call[NewPlan, None, PlansPath, Member], services: Services) -> PlanRecord:
    """Add a plan

    `name` is 1 to 100 characters, `price_cents` 0 or more, `currency` three letters, each of the `features` 1 to 100 characters and all of
    them little enough to stand in every access token of the service.
    """
    body = call.body
    plan = await services.plans.create(
        call.caller,
        call.path.service_slug,
        call.actor,
        name=body.name,
        price_cents=body.price_cents,
        currency=body.currency,
        features=body.features,
        billing_price_id=body.billing_price_id,
    )
    return plan_record(plan)


@endpoint.patch(_PLAN, caller=able(Capability.SERVICES_MANAGE), refuses=(BadRequest,), tags=_TAGS)
async def change_plan(call: Call[PlanPatch, None, PlanPath, Member], services: Services) -> PlanRecord:
    """Change a plan

    At least one field is needed. Whoever is subscribed has the new terms from their next access token on.
    """
    body = call.body
    plan = await services.plans.change(
        call.caller,
        call.path.service_slug,
        PlanId(call.path.plan_id),
        call.actor,
        name=_given(body.name),
        price_cents=_given(body.price_cents),
        currency=_given(body.currency),
        features=_given(body.features),
        billing_price_id=UNCHANGED if isinstance(body.billing_price_id, msgspec.UnsetType) else body.billing_price_id,
    )
    return plan_record(plan)


@endpoint.delete(_PLAN, caller=able(Capability.SERVICES_MANAGE), status=204, refuses=(BadRequest,), tags=_TAGS)
async def delete_plan(call: Call[None, None, PlanPath, Member], services: Services) -> NoBody:
    """Delete a plan

    Not while it has active subscriptions. Those that are over keep its name.
    """
    await services.plans.delete(call.caller, call.path.service_slug, PlanId(call.path.plan_id), call.actor)
    return NO_BODY


def _given(value: Value | msgspec.UnsetType) -> Value | None:
    return None if isinstance(value, msgspec.UnsetType) else value


def plan_record(overview: PlanOverview) -> PlanRecord:
    plan = overview.plan
    return PlanRecord(
        id=plan.id,
        service_id=plan.service,
        name=plan.name,
        price_cents=plan.price_cents,
        currency=plan.currency,
        features=plan.features,
        billing_price_id=plan.billing_price_id,
        subscription_count=overview.subscription_count,
        created_at=plan.created_at,
    )
