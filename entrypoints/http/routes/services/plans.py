"""Plans of an application, hosted checkout and events of the payment provider, and a user's own subscription."""

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
    """The plan to create."""

    name: Annotated[Name, example("Team")]
    """The name, 1 to 100 characters."""
    price_cents: Annotated[int, example(1900)]
    """The price in the smallest unit of the currency, 0 or more."""
    currency: Annotated[Currency, example("eur")]
    """The three-letter currency code (ISO 4217), case-insensitive."""
    features: Annotated[Sequence[Word], example(["export", "priority-support"])] = ()
    """The features of the plan, each 1 to 100 characters. Each access token for the service contains all of them, so keep the list short.
    """
    billing_price_id: Annotated[PriceId, example("price_1PqR7s")] | None = None
    """The ID of the price at the payment provider. If omitted, no one can buy the plan."""
    key: PlanKey | None = None
    """The key: 1 to 50 of a-z, 0-9, - and _, unique in the service. The key never changes. If omitted, the key is derived from the name."""


class PlanPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a plan. Omitted fields keep their values."""

    name: Annotated[Name, example("Team")] | msgspec.UnsetType = msgspec.UNSET
    """The name, 1 to 100 characters."""
    price_cents: Annotated[int, example(1900)] | msgspec.UnsetType = msgspec.UNSET
    """The price in the smallest unit of the currency, 0 or more."""
    currency: Annotated[Currency, example("eur")] | msgspec.UnsetType = msgspec.UNSET
    """The three-letter currency code (ISO 4217), case-insensitive."""
    features: Annotated[Sequence[Word], example(["export", "priority-support"])] | msgspec.UnsetType = msgspec.UNSET
    """The features of the plan. The list replaces the current one."""
    billing_price_id: Annotated[PriceId, example("price_1PqR7s")] | msgspec.UnsetType | None = msgspec.UNSET
    """The ID of the price at the payment provider; null removes it."""


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that the service offers."""

    id: Id
    service_id: ServiceUuid
    key: PlanKey
    """The key for clients and configuration files, unique in the service. It never changes."""
    name: Annotated[str, example("Team")]
    """The plan's name."""
    price_cents: Annotated[int, example(1900)]
    """The price in the smallest unit of the currency."""
    currency: Annotated[str, example("eur")]
    """The three-letter currency code (ISO 4217), in lower case."""
    features: Annotated[Sequence[str], example(["export", "priority-support"])]
    """The features of the plan."""
    billing_price_id: Annotated[str, example("price_1PqR7s")] | None
    """The ID of the price at the payment provider; null if the plan cannot be bought."""
    subscription_count: Annotated[int, example(12)]
    """The number of active and past due subscriptions to the plan."""
    created_at: CreatedAt


@endpoint.get(_PLANS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_plans(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[PlanRecord]:
    """List plans

    Returns all plans of a service, cheapest first. A service has at most 100 plans.
    """
    return [plan_record(plan) for plan in await postern.services.plans.list(call.caller, call.path.service_slug)]


@endpoint.post(_PLANS, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_plan(call: Call[NewPlan, None, ServicePath, Member], postern: Postern) -> PlanRecord:
    """Create a plan

    To let people buy the plan, set `billing_price_id` to the ID of the price at the payment provider.
    """
    return plan_record(await postern.services.plans.create(call.caller, call.path.service_slug, call.actor, _wanted(call.body)))


@endpoint.patch(_PLAN, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, refuses=(BadRequest,), tags=_TAGS)
async def change_plan(call: Call[PlanPatch, None, PlanPath, Member], postern: Postern) -> PlanRecord:
    """Change a plan

    Send at least one field. Subscribers get the changes with their next access token.
    """
    plan, change = PlanId(call.path.plan_id), _change(call.body)
    return plan_record(await postern.services.plans.change(call.caller, call.path.service_slug, plan, call.actor, change))


@endpoint.delete(
    _PLAN, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, refuses=(BadRequest,), tags=_TAGS
)
async def delete_plan(call: Call[None, None, PlanPath, Member], postern: Postern) -> NoBody:
    """Delete a plan

    If the plan has active subscriptions, it cannot be deleted. Ended subscriptions keep the plan's name.
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
        f"`t=<seconds>,v1=<hex>`: HMAC-SHA256 of `<seconds>.<body>` under one of the webhook secrets. Send this header or `{other}`.",
        "t=1780000000,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd",
    )
    for name, other in (("Billing-Signature", "Stripe-Signature"), ("Stripe-Signature", "Billing-Signature"))
)


class NewCheckout(msgspec.Struct, frozen=True, kw_only=True):
    """The plan to buy, and the return URLs."""

    plan_id: UUID
    """The plan's ID."""
    success_url: Annotated[Uri, example("https://app.example.com/welcome?session={CHECKOUT_SESSION_ID}")]
    """The URL that the person returns to after paying. Its origin must match one of the service's redirect URIs. The payment provider
    replaces `{CHECKOUT_SESSION_ID}` with the ID of the checkout.
    """
    cancel_url: Annotated[Uri, example("https://app.example.com/pricing")]
    """The URL that the person returns to after canceling. Its origin must match one of the service's redirect URIs."""


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout page of the payment provider."""

    checkout_url: Annotated[str, example("https://checkout.example.com/c/pay/cs_a1B2c3")]
    """The URL of the checkout page. Send the person to it within 1 hour."""
    session_id: Annotated[str, example("cs_a1B2c3")]
    """The ID of the checkout at the payment provider."""


class NewBillingPortal(msgspec.Struct, frozen=True, kw_only=True):
    """The return URL."""

    return_url: Annotated[Uri, example("https://app.example.com/settings/billing")] | None = None
    """The URL that the person returns to. Its origin must be that of this installation, or of a redirect URI of one of the organization's
    services. If omitted, the person returns to this installation's pages.
    """


class BillingPortal(msgspec.Struct, frozen=True, kw_only=True):
    """The billing portal of the payment provider for the organization."""

    url: Annotated[str, example("https://billing.example.com/p/session/a1B2c3")]
    """The URL of the portal. Send the person to it immediately: the link is short-lived, and anyone with it has full access to the portal.
    """


class BillingEventReceived(msgspec.Struct, frozen=True, kw_only=True):
    """The confirmation that Postern stored the event."""

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
    """Create a checkout

    Returns a page of the payment provider to buy a plan. For members of the organization, and for users of the service with a token for it.
    If you repeat the request within a few minutes, you get the same checkout. A checkout for another plan replaces it. If you already have
    a subscription to the service, change it in the billing portal.
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
    """Create a billing portal link

    Only the organization's owner can open the portal. It shows invoices, changes payment methods, and changes or cancels subscriptions.
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
    """Receive a billing event

    Register this URL as a webhook at the payment provider. The header `billing-signature` has the form `t=<seconds>,v1=<hex>`: HMAC-SHA256
    of `<seconds>.<body>` under one of the secrets in `POSTERN_BILLING_WEBHOOK_SECRETS`. The timestamp must be at most 5 minutes old. The
    provider's own name for the header is also accepted. Events can arrive in any order and more than once. Events of unknown types are
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
    """The status: `active`, `cancelled`, `expired` or `past_due`."""
    current_period_end: datetime | None
    """When the current period ends; null if it never ends."""


@endpoint.get("/api/subscription", caller=USER, refuses=(BadRequest,), tags=("account",))
async def get_own_subscription(call: Call, postern: Postern) -> OwnSubscriptionRecord:
    """Get your subscription

    Returns your subscription to the service that the token is for. If you never subscribed, you have the plan `free`, which is active, has
    no features and never ends.
    """
    return _record(await postern.services.subscriptions.own(call.caller))


_record = shown(OwnSubscription, OwnSubscriptionRecord, within=("state",), named={"service": "service_slug"})
