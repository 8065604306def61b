"""Billing: where news and subscriptions of the payment provider are kept, and what is asked of the provider itself."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.languages import Language
from core.domain.services.billing import Buyer, Managed, OfferedPlan
from core.domain.services.billing_news import News, Snapshot
from core.frozen import Frozen


class BillingOutcome(StrEnum):
    """What became of an event."""

    APPLIED = "applied"
    IGNORED = "ignored"
    REFUSED = "refused"


class LikelyBuyer(Frozen):
    """Whose subscription it seems to be. `is_user` is False for somebody who has not used the service before buying. `new_customer` is one
    of whom nobody here has heard, while the organization has never had any: None where they belong together already.
    """

    buyer: Buyer
    is_user: bool
    new_customer: str | None = None


class HeldSubscription(Frozen):
    """A subscription at the provider, locked, with all others of the same person and service. `buyer` is None until it is known whose it
    is. `news` is what waits, oldest first.
    """

    own: Managed
    buyer: Buyer | None
    others: Sequence[Managed]
    news: Sequence[News]
    plans: Sequence[OfferedPlan]


class SettledBillingEvent(Frozen):
    """How an event ended. `reason` is for operators."""

    event: str
    outcome: BillingOutcome
    reason: str | None = None


class Customer(Frozen):
    """An organization as the payment provider's customer. `attempt` counts the requests that may have made it there, the last
    of them at `asked_at`.
    """

    id: UUID
    organization: OrganizationId
    organization_name: str
    external_id: str | None
    attempt: int
    asked_at: datetime | None


class BegunCheckout(Frozen):
    """A checkout that somebody began. `external_id` is None until the provider has answered. `has_led_somewhere`: we have heard of a
    subscription since, so it may have been paid long ago.
    """

    id: UUID
    digest: str
    external_id: str | None
    asked_at: datetime
    has_led_somewhere: bool = False


class PlanOffer(Frozen):
    """What is known when somebody wants to buy a plan of a service. `plan` is None when there is no such plan anywhere."""

    organization: OrganizationId
    service: ServiceId
    redirect_uris: Sequence[str]
    is_active: bool
    plan: PlanId | None
    plan_service: ServiceId | None
    price: str | None
    has_living: bool
    customer: str | None
    last: BegunCheckout | None


class PortalAccess(Frozen):
    """The organization's customer at the provider, if it is one, and where its services send people."""

    customer: str | None
    redirect_uris: Sequence[str]


class Reader(Frozen):
    """Who gets a mail about a subscription, and whose service it is."""

    email: Email
    language: Language | None
    organization_name: str
    service_name: str


class BillingStore(Protocol):
    """Part of the unit of work."""

    async def candidate(self, subject: str, look: Snapshot | None) -> LikelyBuyer | None:
        """By what is known, by news that wait, or by a look at the provider. None where customer, organization, service and person do not
        belong together, or one of them is gone.
        """

    async def enroll(self, buyer: Buyer, at: datetime) -> None:
        """Makes the buyer a user of the service."""

    async def hold(self, subject: str, buyer: Buyer | None, look: Snapshot | None, at: datetime) -> HeldSubscription:
        """After holding the buyer's subscriptions. Makes the row if it is new."""

    async def save(self, own: Managed, buyer: Buyer | None, check_at: datetime | None, at: datetime) -> None: ...

    async def assign(self, external_id: str, subscription: SubscriptionId) -> None:
        """Makes a record of ours the one of that subscription."""

    async def settle(self, settled: Sequence[SettledBillingEvent], at: datetime) -> None: ...

    async def reader(self, buyer: Buyer) -> Reader | None:
        """None for a deactivated account."""

    async def offer(self, organization_slug: str, service_slug: str, plan: UUID, user: UserId) -> PlanOffer | None:
        """None when there is no such service."""

    async def customer(self, organization: OrganizationId, id: UUID, at: datetime) -> Customer | None:  # noqa: A002 - the column's name
        """The organization's current one, held; made under this id when there is none. None when the organization is being deleted."""

    async def ask_for_customer(self, customer: UUID, attempt: int, at: datetime | None) -> None:
        """Without a time: the attempt has ended, and it must be asked what came of it."""

    async def link_customer(self, customer: UUID, external_id: str) -> str | None:
        """Unless it is linked already. What it is linked to by now: None if it has ended."""

    async def end_customer(self, external_id: str, at: datetime) -> None: ...

    async def begin_checkout(self, service: ServiceId, user: UserId, checkout: BegunCheckout, *, instead_of: UUID | None) -> bool:
        """False when the person's last checkout is not, or no longer, that one; and when the person or the service is gone, or the
        organization is not active.
        """

    async def forget_checkout(self, service: ServiceId, user: UserId, checkout: UUID) -> None:
        """The next one is a new one."""

    async def portal(self, organization: OrganizationId) -> PortalAccess: ...

    async def answer_checkout(self, service: ServiceId, user: UserId, checkout: UUID, external_id: str) -> bool:
        """False when the person has begun another one meanwhile, the service is gone, or the organization is not active any more."""


class ListedEvent(Frozen):
    """An event, for operators."""

    id: str
    type: str
    created: datetime
    received_at: datetime
    outcome: str | None
    subject: str | None
    attempts: int
    error: str | None


class WaitingBillingEvents(Frozen):
    """How many events have not been applied, and since when the oldest has waited."""

    events: int
    oldest: datetime | None


class BillingInbox(Protocol):
    """Outside any unit of work, one statement each."""

    async def take(self, news: News, outcome: BillingOutcome | None, at: datetime) -> bool:
        """Keeps an event. With an outcome, nothing is left to do about it. False when it was there already."""

    async def due(self, before: datetime, limit: int) -> Sequence[tuple[str, bool]]:
        """Subjects with news that wait, longest first, and whether each is a customer."""

    async def customer_news(self, subject: str) -> Sequence[News]: ...

    async def failed(self, subject: str, error: str, again: datetime) -> None: ...

    async def retry(self, event: str | None) -> int:
        """Makes one event due now, or all that wait. Returns how many."""

    async def list(self, *, waiting: bool, limit: int) -> Sequence[ListedEvent]:
        """Newest first."""

    async def waiting(self) -> WaitingBillingEvents: ...

    async def differs(self, looks: Mapping[str, Snapshot]) -> Sequence[str]:
        """Those of them that we know otherwise, or do not know although they claim to be ours."""

    async def claim_checks(self, limit: int, again: datetime) -> Sequence[str]:
        """Subscriptions to be looked at, each for one caller until `again`."""

    async def checked(self, subject: str, check_at: datetime | None) -> None: ...

    async def claim_cancellations(self, limit: int, again: datetime) -> Sequence[str]: ...

    async def cancelled(self, subject: str) -> None: ...

    async def cancel_again(self, living: Sequence[str]) -> int:
        """Those of them that nobody is to pay for any more, and that we took for cancelled. Returns how many."""

    async def claim_sweep(self, lease: timedelta) -> tuple[str | None] | None:
        """Where the daily look goes on. None when it is not due, or somebody else has it."""

    async def swept(self, cursor: str | None, due_at: datetime) -> None: ...


class PaymentRefused(Exception):
    """The provider has said no. `code` is its own word; `about` the part of the request that it is about."""

    def __init__(self, status: int, code: str, about: str = "") -> None:
        self.status = status
        self.code = code
        self.about = about
        super().__init__(code)


class PaymentUnavailable(Exception):
    """No answer, or none that says anything. Whether it was done is not known. `after` is how long the provider wants to be left alone.
    `answered`: it has failed over the request, and would answer the same to the same key.
    """

    def __init__(self, reason: str, after: timedelta | None = None, *, answered: bool = False) -> None:
        self.reason = reason
        self.after = after
        self.answered = answered
        super().__init__(reason)


class CheckoutRequest(Frozen):
    """`key` is the same for every try of the same request."""

    key: str
    customer: str
    price: str
    success_url: str
    cancel_url: str
    user: UserId
    metadata: Mapping[str, str]
    expires_at: datetime


class OpenedCheckout(Frozen):
    id: str
    url: str


class ProviderSubscriptions(Frozen):
    """Subscriptions as they are at the provider, at this time there. `cursor` leads to the next page; None: this is the last one."""

    subscriptions: Mapping[str, Snapshot]
    at: datetime
    cursor: str | None = None


class PaymentProvider(Protocol):
    """Each raises `PaymentRefused` or `PaymentUnavailable`."""

    async def create_customer(self, key: str, customer: UUID, organization: OrganizationId, name: str) -> str: ...

    async def find_customer(self, customer: UUID) -> str | None: ...

    async def open_checkout(self, checkout: CheckoutRequest) -> OpenedCheckout: ...

    async def close_checkout(self, checkout: str) -> None:
        """So that nobody can pay there any more. One that is closed, or paid, is refused."""

    async def is_checkout_paid(self, checkout: str) -> bool: ...

    async def open_portal(self, customer: str, return_url: str) -> str: ...

    async def subscription(self, subject: str) -> ProviderSubscriptions: ...

    async def subscriptions(self, cursor: str | None) -> ProviderSubscriptions: ...

    async def cancel(self, subject: str) -> None:
        """At once. One that is over already is no error."""
