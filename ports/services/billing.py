"""The payment provider, and the stores of its news, of plans and of subscriptions."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.requests import Listed
from core.domain.services.billing import Buyer, Managed, OfferedPlan
from core.domain.services.billing_news import News, Snapshot
from core.domain.services.plans import Expired, OwnSubscription, Plan, PlanOverview, Subscription, SubscriptionStatus
from core.frozen import Frozen


class BillingOutcome(StrEnum):
    """How an event ended."""

    APPLIED = "applied"
    IGNORED = "ignored"
    REFUSED = "refused"


class LikelyBuyer(Frozen):
    """The person whose subscription it seems to be. `is_user` is False for a person who has not used the service before buying.
    `new_customer` is a customer that no organization has. It is None when customer and organization belong together already.
    """

    buyer: Buyer
    is_user: bool
    new_customer: str | None = None


class HeldSubscription(Frozen):
    """A subscription at the provider, locked with all others of the same person and service. `buyer` is None until the buyer is known.
    `news` holds the waiting news, oldest first.
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
    """An organization as the payment provider's customer. `attempt` counts the requests that may have made the customer there. The last of
    those left at `asked_at`.
    """

    id: UUID
    organization: OrganizationId
    organization_name: str
    external_id: str | None
    attempt: int
    asked_at: datetime | None


class BegunCheckout(Frozen):
    """A checkout that somebody began. `external_id` is None until the provider has answered. With `has_led_somewhere`, news of a
    subscription has come since, so the checkout may have been paid long ago.
    """

    id: UUID
    digest: str
    external_id: str | None
    asked_at: datetime
    has_led_somewhere: bool = False


class PlanOffer(Frozen):
    """The facts that decide whether somebody may buy a plan of a service. `plan` is None when there is no such plan anywhere."""

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
    """The organization's customer at the provider, if it has one, and the redirect URIs of its services."""

    customer: str | None
    redirect_uris: Sequence[str]


class Reader(Frozen):
    """The person who gets a mail about a subscription, with the names of the service and its organization, and the digest of the
    service's logo.
    """

    email: Email
    language: Language | None
    organization_name: str
    service_name: str
    service_logo: str | None


class BillingStore(Protocol):
    """All methods need a unit of work."""

    async def candidate(self, subject: str, look: Snapshot | None) -> LikelyBuyer | None:
        """The likely buyer, by what is known, by waiting news, or by a look at the provider. None when customer, organization, service and
        person do not belong together, or one of them is gone.
        """

    async def enroll(self, buyer: Buyer, at: datetime) -> None:
        """Makes the buyer a user of the service."""

    async def get_or_add_for_update(self, subject: str, buyer: Buyer | None, look: Snapshot | None, at: datetime) -> HeldSubscription:
        """Adds the row if the subscription is new. Called after the subscriptions of the buyer are held."""

    async def save(self, own: Managed, buyer: Buyer | None, check_at: datetime | None, at: datetime) -> None: ...

    async def assign(self, external_id: str, subscription: SubscriptionId) -> None:
        """Ties a record of ours to this subscription at the provider."""

    async def settle(self, settled: Sequence[SettledBillingEvent], at: datetime) -> None: ...

    async def reader(self, buyer: Buyer) -> Reader | None:
        """None when the account is deactivated."""

    async def offer(self, organization_slug: str, service_slug: str, plan: UUID, user: UserId) -> PlanOffer | None:
        """None when there is no such service."""

    async def customer(self, organization: OrganizationId, id: UUID, at: datetime) -> Customer | None:  # noqa: A002 - the column's name
        """The organization's current customer, held. If there is none, one is made under this id. None when the organization is being
        deleted.
        """

    async def ask_for_customer(self, customer: UUID, attempt: int, at: datetime | None) -> None:
        """Records an attempt to make the customer. Without a time, the attempt has ended, and the provider must be asked for its result."""

    async def link_customer(self, customer: UUID, external_id: str) -> str | None:
        """Links the customer unless it is linked already. Returns the id that it is linked to now; None when the customer has ended."""

    async def add_customer(self, organization: OrganizationId, id: UUID, external_id: str, at: datetime) -> bool:  # noqa: A002 - the column's name
        """One more customer of the organization, beside the one that checkouts and the portal use. False when some organization has it
        already.
        """

    async def end_customer(self, external_id: str, at: datetime) -> None: ...

    async def begin_checkout(self, service: ServiceId, user: UserId, checkout: BegunCheckout, *, instead_of: UUID | None) -> bool:
        """Begins a checkout `instead_of` the person's last one. False when the person's last checkout is another one by now. False also
        when the person or the service is gone, or the organization is not active.
        """

    async def forget_checkout(self, service: ServiceId, user: UserId, checkout: UUID) -> None:
        """The next checkout of the person is a new one."""

    async def portal(self, organization: OrganizationId) -> PortalAccess: ...

    async def answer_checkout(self, service: ServiceId, user: UserId, checkout: UUID, external_id: str) -> bool:
        """Keeps the answer of the provider. False when the person has begun another checkout meanwhile, the service is gone, or the
        organization is no longer active.
        """


class ListedEvent(Frozen):
    """An event of the provider, for operators."""

    id: str
    type: str
    created: datetime
    received_at: datetime
    outcome: str | None
    subject: str | None
    attempts: int
    error: str | None


class WaitingBillingEvents(Frozen):
    """How many events have not been applied, and since when the oldest of them has waited."""

    events: int
    oldest: datetime | None


class BillingInbox(Protocol):
    """Each method is one statement, outside any unit of work."""

    async def take(self, news: News, outcome: BillingOutcome | None, at: datetime) -> bool:
        """Keeps an event. An event with an outcome needs no further work. False when the event was there already."""

    async def due(self, before: datetime, limit: int) -> Sequence[tuple[str, bool]]:
        """Subjects with waiting news, the longest wait first, and whether each subject is a customer."""

    async def next_due(self) -> datetime | None:
        """Since or from when the first of the waiting news are due. None when none wait."""

    async def customer_news(self, subject: str) -> Sequence[News]: ...

    async def failed(self, subject: str, error: str, again: datetime) -> None: ...

    async def retry(self, event: str | None) -> int:
        """Makes one event due now, or all waiting events. Returns how many."""

    async def list(self, *, waiting: bool, limit: int) -> Sequence[ListedEvent]:
        """Newest first."""

    async def waiting(self) -> WaitingBillingEvents: ...

    async def differs(self, looks: Mapping[str, Snapshot]) -> Sequence[str]:
        """The subscriptions of which we know something else, and those that name us and that we do not know."""

    async def claim_checks(self, limit: int, again: datetime) -> Sequence[str]:
        """Subscriptions that somebody should look at. Each is for one caller until `again`."""

    async def checked(self, subject: str, check_at: datetime | None) -> None: ...

    async def claim_cancellations(self, limit: int, again: datetime) -> Sequence[str]: ...

    async def cancelled(self, subject: str) -> None: ...

    async def cancel_again(self, living: Sequence[str]) -> int:
        """Of the `living` subscriptions, queues those again that nobody should pay for any more and that we took for cancelled. Returns how
        many.
        """

    async def claim_sweep(self, lease: timedelta) -> tuple[str | None] | None:
        """The cursor at which the daily look goes on. None when the look is not due, or another process has it."""

    async def swept(self, cursor: str | None, due_at: datetime) -> None: ...


class PaymentRefused(Exception):
    """The provider refused the request. `code` is the provider's own word. `about` is the part of the request that it refused."""

    def __init__(self, status: int, code: str, about: str = "") -> None:
        self.status = status
        self.code = code
        self.about = about
        super().__init__(code)


class PaymentUnavailable(Exception):
    """There was no answer, or one without meaning: the request may or may not have been carried out. `after` is how long the provider wants
    no further request. With `answered`, the provider has failed over the request, and would answer the same to the same key.
    """

    def __init__(self, reason: str, after: timedelta | None = None, *, answered: bool = False) -> None:
        self.reason = reason
        self.after = after
        self.answered = answered
        super().__init__(reason)


class CheckoutRequest(Frozen):
    """A request for a checkout. `key` is the same for every try of the same request."""

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
    """Subscriptions as they are at the provider, at this time there. `cursor` leads to the next page; None on the last page."""

    subscriptions: Mapping[str, Snapshot]
    at: datetime
    cursor: str | None = None


class PaymentProvider(Protocol):
    """Each method raises `PaymentRefused` or `PaymentUnavailable`. A client of a hosted checkout implements it; another payment provider
    would be another implementation.
    """

    async def create_customer(self, key: str, customer: UUID, organization: OrganizationId, name: str) -> str: ...

    async def find_customer(self, customer: UUID) -> str | None: ...

    async def open_checkout(self, checkout: CheckoutRequest) -> OpenedCheckout: ...

    async def close_checkout(self, checkout: str) -> None:
        """Nobody can pay there any more. The provider refuses to close a checkout that is closed or paid."""

    async def is_checkout_paid(self, checkout: str) -> bool: ...

    async def open_portal(self, customer: str, return_url: str) -> str: ...

    async def subscription(self, subject: str) -> ProviderSubscriptions: ...

    async def subscriptions(self, cursor: str | None) -> ProviderSubscriptions: ...

    async def cancel(self, subject: str) -> None:
        """Cancels the subscription at once. A subscription that is over already is no error."""


class PlanStore(Protocol):
    """Outside a unit of work, `list` is one statement, and two when there is nothing to list. The other methods need a unit of work."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[PlanOverview] | None:
        """Cheapest first. None when the organization has no such service."""

    async def keys(self, service: ServiceId) -> Collection[str]:
        """The keys of all its plans."""

    async def add(self, plan: Plan) -> None: ...

    async def find_for_update(self, organization: OrganizationId, service_slug: str, plan: PlanId) -> PlanOverview | None:
        """The plan stays as it is, and nobody subscribes to it, until the unit of work ends. None when the service has no such plan."""

    async def offer(self, service: ServiceId, plan: PlanId, *, leaving: PlanId | None = None) -> Plan | None:
        """A plan of any service, for a person who is about to subscribe. A plan of this service stays as it is until the unit of work ends,
        and so does the plan that the person is `leaving`. None when there is no such plan. This method is the only way to hold two plans.
        It holds both at once, because two people who change places would otherwise wait for each other. Call it before anything is changed
        about subscriptions to either plan.
        """

    async def save(self, plan: Plan) -> None:
        """Saves everything but id, service and creation. After `find_for_update`."""

    async def delete(self, plan: PlanId, at: datetime) -> None:
        """After `find_for_update`."""


class Subscriber(Frozen):
    """A user of a service, whose subscriptions to it stay as they are until the unit of work ends. `current` is as it was last written
    down.
    """

    current: Subscription | None


class SubscriptionStore(Protocol):
    """Outside a unit of work, `list`, `current`, `own` and `due_in` are one statement and one round trip each. The other methods need a
    unit of work.
    """

    async def list(self, service: ServiceId, status: SubscriptionStatus | None, limit: int, offset: int) -> Listed[Subscription]:
        """All subscriptions, oldest first, with their exact number. `status` filters by the status that was last written down."""

    async def current(self, service: ServiceId, user: UserId) -> Subscription | None:
        """None when the user has no current subscription."""

    async def own(self, organization: OrganizationId, service_slug: str, user: UserId) -> OwnSubscription | None:
        """The subscription as this user's tokens for the service tell it. None when the service or the user is gone."""

    async def find_for_update(self, service: ServiceId, user: UserId) -> Subscriber | None:
        """One change to a user's subscriptions at a time. None when the person is not a user of the service."""

    async def add(self, subscription: Subscription) -> bool:
        """False when the user has an active or past-due subscription already: of two callers, one gets False."""

    async def save(self, subscription: Subscription, *, overridden_at: datetime | None = None) -> None:
        """Saves plan, status and end of the period. `overridden_at` is the time at which somebody other than the payment provider changed a
        subscription that the provider manages. After `find_for_update`.
        """

    async def delete_all(self, service: ServiceId, user: UserId) -> None:
        """Deletes all subscriptions of the user, current and earlier. After `find_for_update`."""

    async def due_in(self) -> float | None:
        """The seconds until the first active subscription's period ends. None when there is none. Also outside a unit of work."""

    async def expire_due(self, since: datetime | None, most: int) -> Sequence[Expired]:
        """Records that the periods of active subscriptions have ended, earliest end first, from `since` on. Subscriptions that another
        transaction holds are left for the next time.
        """
