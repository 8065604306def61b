"""The plans of a service, the payment provider's pages and events by which one is bought, and a user's own subscription."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, TypeVar
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, BillingFailed, Conflict, Unauthorized
from core.domain.identifiers import PlanId
from core.domain.services import plans
from core.domain.services.plans import OwnSubscription, PlanOverview
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.services.billing_checkouts import Wish
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.answers import NO_BODY, NoBody, RequestHeader
from entrypoints.http.machinery.callers import ANYONE, BUYER, OWNER_IN_PERSON, USER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    Currency,
    Id,
    Name,
    OrganizationPath,
    PriceId,
    RoleSlug,
    ServicePath,
    ServiceUuid,
    Uri,
    Word,
    example,
)
from entrypoints.http.machinery.limits import BILLING_WEBHOOK, CHECKOUTS

Value = TypeVar("Value")

_TAGS = ("plans",)
_PLANS = "/api/organizations/{org_slug}/services/{service_slug}/plans"
_PLAN = "/api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}"


PlanKey = Annotated[RoleSlug, example("team")]


class PlanPath(ServicePath, frozen=True):
    plan_id: UUID
    """The plan's ID."""


class NewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that the service offers."""

    name: Annotated[Name, example("Team")]
    """1 to 100 characters."""
    price_cents: Annotated[int, example(1900)]
    """The price in the smallest unit of the currency; 0 or more."""
    currency: Annotated[Currency, example("eur")]
    """The currency's three letters (ISO 4217), case-insensitive."""
    features: Annotated[Sequence[Word], example(["export", "priority-support"])] = ()
    """The features of the plan, each 1 to 100 characters. Every access token for the service has all of them, so keep the list short."""
    billing_price_id: Annotated[PriceId, example("price_1PqR7s")] | None = None
    """The ID of the price at the payment provider. Without it, no one can buy the plan."""
    key: PlanKey | None = None
    """1 to 50 of a-z, 0-9, - and _, unique in the service. The key never changes. Without it, the plan gets one made of its name."""


class PlanPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a plan. Omitted fields keep their values."""

    name: Annotated[Name, example("Team")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    price_cents: Annotated[int, example(1900)] | msgspec.UnsetType = msgspec.UNSET
    """The price in the smallest unit of the currency; 0 or more."""
    currency: Annotated[Currency, example("eur")] | msgspec.UnsetType = msgspec.UNSET
    """The currency's three letters (ISO 4217), case-insensitive."""
    features: Annotated[Sequence[Word], example(["export", "priority-support"])] | msgspec.UnsetType = msgspec.UNSET
    """The new list of features, which replaces the old list."""
    billing_price_id: Annotated[PriceId, example("price_1PqR7s")] | msgspec.UnsetType | None = msgspec.UNSET
    """The ID of the price at the payment provider. Null removes it."""


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that the service offers."""

    id: Id
    service_id: ServiceUuid
    key: PlanKey
    """The plan's name for clients and configuration files, unique in the service. It never changes."""
    name: Annotated[str, example("Team")]
    """The plan's name."""
    price_cents: Annotated[int, example(1900)]
    """The price in the smallest unit of the currency."""
    currency: Annotated[str, example("eur")]
    """The currency's three letters (ISO 4217), in lower case."""
    features: Annotated[Sequence[str], example(["export", "priority-support"])]
    """The features of the plan."""
    billing_price_id: Annotated[str, example("price_1PqR7s")] | None
    """The ID of the price at the payment provider. While it is null, no one can buy the plan."""
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


# Enough for an event about a subscription with many items.
_LARGEST_EVENT: Final = 256 << 10
# The payment provider's own header comes last: a gateway that forwards the events may have signed them anew in the other header.
_SIGNATURES: Final = tuple(
    RequestHeader(
        name,
        f"`t=<seconds>,v1=<hex>`: HMAC-SHA256 of `<seconds>.<body>` under one of the secrets. Send this or `{other}`.",
        "t=1780000000,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd",
    )
    for name, other in (("Billing-Signature", "Stripe-Signature"), ("Stripe-Signature", "Billing-Signature"))
)


class NewCheckout(msgspec.Struct, frozen=True, kw_only=True):
    """The plan to buy, and the return URLs."""

    plan_id: UUID
    """The plan's ID."""
    success_url: Annotated[Uri, example("https://app.example.com/welcome?session={CHECKOUT_SESSION_ID}")]
    """The URL that the payment provider sends the person to after paying. It must have the origin of one of the service's redirect URIs.
    The provider replaces `{CHECKOUT_SESSION_ID}` by the checkout's ID.
    """
    cancel_url: Annotated[Uri, example("https://app.example.com/pricing")]
    """The URL for a person who cancels. The rule for the origin is the same as for `success_url`."""


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the payment provider's, for one purchase."""

    checkout_url: Annotated[str, example("https://checkout.example.com/c/pay/cs_a1B2c3")]
    """The URL of the checkout page. Send the person to it within the hour."""
    session_id: Annotated[str, example("cs_a1B2c3")]
    """The checkout's ID at the payment provider."""


class NewBillingPortal(msgspec.Struct, frozen=True, kw_only=True):
    """The return URL."""

    return_url: Annotated[Uri, example("https://app.example.com/settings/billing")] | None = None
    """The URL must have the origin of this installation, or of a redirect URI of one of the organization's services. If omitted, the person
    returns to this installation's pages.
    """


class BillingPortal(msgspec.Struct, frozen=True, kw_only=True):
    """The payment provider's pages for the organization as its customer."""

    url: Annotated[str, example("https://billing.example.com/p/session/a1B2c3")]
    """The URL of the portal. Send the person to it soon: the link is short-lived and opens everything without a further sign-in."""


class BillingEventReceived(msgspec.Struct, frozen=True, kw_only=True):
    """Postern has stored the event."""

    status: Literal["success"] = "success"
    """Always `success`."""


@endpoint.post(
    "/api/organizations/{org_slug}/services/{service_slug}/checkout",
    caller=BUYER,
    limit=CHECKOUTS,
    refuses=(BadRequest, BillingFailed),
    tags=("billing",),
)
async def begin_checkout(call: Call[NewCheckout, None, ServicePath], postern: Postern) -> Checkout:
    """Begin to buy a plan on the payment provider's page

    For members of the organization, and for users of the service with a token for it. If you repeat this within some minutes, you get the
    same checkout; a checkout of another plan replaces it. If you already have a subscription to the service, change it in the billing
    portal.
    """
    opened = await postern.services.checkouts.open(
        Wish(
            organization_slug=call.path.org_slug,
            service_slug=call.path.service_slug,
            plan=call.body.plan_id,
            user=call.caller.user,
            success_url=call.body.success_url,
            cancel_url=call.body.cancel_url,
        )
    )
    return Checkout(checkout_url=opened.url, session_id=opened.id)


@endpoint.post(
    "/api/organizations/{org_slug}/billing/portal",
    caller=OWNER_IN_PERSON,
    limit=CHECKOUTS,
    refuses=(BadRequest, BillingFailed),
    tags=("billing",),
    verb="",
)
async def open_billing_portal(call: Call[NewBillingPortal, None, OrganizationPath, Member], postern: Postern) -> BillingPortal:
    """Open the billing portal

    Only the organization's owner can open it. The portal shows invoices, changes the means of payment, and changes or cancels every
    subscription.
    """
    return BillingPortal(url=await postern.services.checkouts.portal(call.caller, call.body.return_url))


@endpoint.post(
    "/webhooks/billing",
    caller=ANYONE,
    limit=BILLING_WEBHOOK,
    accepts=Raw("application/json", _LARGEST_EVENT),
    refuses=(BadRequest, Unauthorized),
    reads=_SIGNATURES,
    tags=("billing",),
)
async def receive_billing_event(call: Call[bytes], postern: Postern) -> BillingEventReceived:
    """Receive an event from the payment provider

    Register this URL with the payment provider. The header `billing-signature` has the form `t=<seconds>,v1=<hex>`: HMAC-SHA256 of
    `<seconds>.<body>` under one of the secrets in `POSTERN_BILLING_WEBHOOK_SECRETS`, not more than five minutes ago. The provider's own
    name for the header works, too. Events can arrive in any order and more than once. Events of types that Postern does not know are
    accepted and have no effect.
    """
    signature = next((stated for header in _SIGNATURES if (stated := call.request.says(header)) is not None), None)
    try:
        news = await postern.services.billing.take(signature, call.body)
    except (BadRequest, Unauthorized):
        raise
    except BaseException:
        # They may be stored all the same, and then the provider's next try finds that they came before.
        postern.services.billing_turns.leave()
        raise
    if news is not None:
        await postern.services.billing_turns.apply(news)
    return BillingEventReceived()


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
