"""The plans of a service."""

from collections.abc import Sequence
from typing import Annotated, TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import PlanId
from core.domain.services import plans
from core.domain.services.plans import PlanOverview
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    Currency,
    Id,
    Name,
    PriceId,
    RoleSlug,
    ServicePath,
    ServiceUuid,
    example,
)

Value = TypeVar("Value")

_TAGS = ("plans",)
_PLANS = "/api/organizations/{org_slug}/services/{service_slug}/plans"
_PLAN = "/api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}"


PlanKey = Annotated[RoleSlug, example("team")]


class PlanPath(ServicePath, frozen=True):
    plan_id: UUID
    """The plan's id."""


class NewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that the service offers."""

    name: Annotated[Name, example("Team")]
    """1 to 100 characters."""
    price_cents: Annotated[int, example(1900)]
    """The price in the smallest unit of the currency; 0 or more."""
    currency: Annotated[Currency, example("eur")]
    """The currency's three letters (ISO 4217), in upper or lower case."""
    features: Annotated[Sequence[str], example(["export", "priority-support"])] = ()
    """The features of the plan, each 1 to 100 characters. Every access token for the service has all of them, so keep the list short."""
    billing_price_id: Annotated[PriceId, example("price_1PqR7s")] | None = None
    """The id of the price at the payment provider. Without it, nobody can buy the plan."""
    key: PlanKey | None = None
    """1 to 50 of a-z, 0-9, - and _, unique in the service. The key never changes. Without it, the plan gets one made of its name."""


class PlanPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a plan. Fields that you leave out stay as they are."""

    name: Annotated[Name, example("Team")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    price_cents: Annotated[int, example(1900)] | msgspec.UnsetType = msgspec.UNSET
    """The price in the smallest unit of the currency; 0 or more."""
    currency: Annotated[Currency, example("eur")] | msgspec.UnsetType = msgspec.UNSET
    """The currency's three letters (ISO 4217), in upper or lower case."""
    features: Annotated[Sequence[str], example(["export", "priority-support"])] | msgspec.UnsetType = msgspec.UNSET
    """The new list of features, which replaces the old list."""
    billing_price_id: Annotated[PriceId, example("price_1PqR7s")] | msgspec.UnsetType | None = msgspec.UNSET
    """The id of the price at the payment provider. Null removes it."""


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that the service offers."""

    id: Id
    service_id: ServiceUuid
    key: PlanKey
    """The plan's name for programs and documents, unique in the service. It never changes."""
    name: Annotated[str, example("Team")]
    """The plan's name."""
    price_cents: Annotated[int, example(1900)]
    """The price in the smallest unit of the currency."""
    currency: Annotated[str, example("eur")]
    """The currency's three letters (ISO 4217), in lower case."""
    features: Annotated[Sequence[str], example(["export", "priority-support"])]
    """The features of the plan."""
    billing_price_id: Annotated[str, example("price_1PqR7s")] | None
    """The id of the price at the payment provider. While it is null, nobody can buy the plan."""
    subscription_count: Annotated[int, example(12)]
    """The number of subscriptions to the plan that are active or past due."""
    created_at: CreatedAt


@endpoint.get(_PLANS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_plans(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[PlanRecord]:
    """List the plans of a service, the cheapest first

    You get all plans; a service has at most 100.
    """
    return [plan_record(plan) for plan in await postern.services.plans.list(call.caller, call.path.service_slug)]


@endpoint.post(_PLANS, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_plan(call: Call[NewPlan, None, ServicePath, Member], postern: Postern) -> PlanRecord:
    """Add a plan to a service

    `billing_price_id` names the price at the payment provider by which people can buy the plan.
    """
    return plan_record(await postern.services.plans.create(call.caller, call.path.service_slug, call.actor, _wanted(call.body)))


@endpoint.patch(_PLAN, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, refuses=(BadRequest,), tags=_TAGS)
async def change_plan(call: Call[PlanPatch, None, PlanPath, Member], postern: Postern) -> PlanRecord:
    """Change a plan

    Send at least one field. Subscribers get the new terms with their next access token.
    """
    plan, change = PlanId(call.path.plan_id), _change(call.body)
    return plan_record(await postern.services.plans.change(call.caller, call.path.service_slug, plan, call.actor, change))


@endpoint.delete(
    _PLAN, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, refuses=(BadRequest,), tags=_TAGS
)
async def delete_plan(call: Call[None, None, PlanPath, Member], postern: Postern) -> NoBody:
    """Delete a plan

    Not possible while the plan has active subscriptions. Ended subscriptions keep the plan's name.
    """
    await postern.services.plans.delete(call.caller, call.path.service_slug, PlanId(call.path.plan_id), call.actor)
    return NO_BODY


_wanted = taken(NewPlan, plans.WantedPlan)
_change = taken(PlanPatch, plans.PlanChange)
plan_record = shown(PlanOverview, PlanRecord, within=("plan",), named={"service_id": "plan.service"})
