"""Buying a plan: the payment provider's pages, and its events."""

from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, BillingFailed, Unauthorized
from core.domain.tenancy.members import Member
from core.usecases.services.billing_checkouts import Wish
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.callers import ANYONE, BUYER, OWNER_IN_PERSON
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, ServicePath, Uri, example
from entrypoints.http.machinery.headers import RequestHeader
from entrypoints.http.machinery.limits import BILLING_WEBHOOK, CHECKOUTS

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
    """The plan to buy, and the addresses to come back to."""

    plan_id: UUID
    """The plan's id."""
    success_url: Annotated[Uri, example("https://app.example.com/welcome?session={CHECKOUT_SESSION_ID}")]
    """The address that the payment provider sends the person to after paying. The address must be on an origin of the service's redirect
    URIs. The provider replaces `{CHECKOUT_SESSION_ID}` by the checkout's id.
    """
    cancel_url: Annotated[Uri, example("https://app.example.com/pricing")]
    """The address that the payment provider sends a person to who cancels. The rule for the origin is the same as for `success_url`."""


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the payment provider's, for one purchase."""

    checkout_url: Annotated[str, example("https://checkout.example.com/c/pay/cs_a1B2c3")]
    """Send the person there, within the hour."""
    session_id: Annotated[str, example("cs_a1B2c3")]
    """The checkout's id at the payment provider."""


class NewBillingPortal(msgspec.Struct, frozen=True, kw_only=True):
    """The address to come back to."""

    return_url: Annotated[Uri, example("https://app.example.com/settings/billing")] | None = None
    """The address must be on an origin of this installation, or of a redirect URI of one of the organization's services. Without it, the
    person comes back to this installation's pages.
    """


class BillingPortal(msgspec.Struct, frozen=True, kw_only=True):
    """The payment provider's pages for the organization as its customer."""

    url: Annotated[str, example("https://billing.example.com/p/session/a1B2c3")]
    """Send the person there soon: the link is short-lived and opens everything without a further sign-in."""


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
    """Take an event from the payment provider

    Register this address with the payment provider. The header `billing-signature` has the form `t=<seconds>,v1=<hex>`: HMAC-SHA256 of
    `<seconds>.<body>` under one of the secrets in `POSTERN_BILLING_WEBHOOK_SECRETS`, not more than five minutes ago. The provider's own
    name for the header works, too. Events may come in any order and more than once. Events of types that Postern does not know are accepted
    and have no effect.
    """
    signature = next((stated for header in _SIGNATURES if (stated := call.request.says(header)) is not None), None)
    news = await postern.services.billing.take(signature, call.body)
    if news is not None:
        await postern.services.billing_turns.apply(news)
    return BillingEventReceived()
