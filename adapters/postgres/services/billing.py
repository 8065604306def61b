"""Billing: subscriptions at the payment provider, their buyers, customers and checkouts, and the provider's news."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import IdRow, storable_text
from adapters.postgres.statements import CHANNEL, OnPool, OnTransaction, ask, ask_in_order, first_made, only, tell
from core.domain.identifiers import OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.services.billing import Buyer, Facets, Managed, OfferedPlan
from core.domain.services.billing_news import BILLING_TOPIC, News, Snapshot
from core.domain.services.plans import Subscription, SubscriptionStatus
from core.frozen import Frozen
from ports.services.billing import (
    BegunCheckout,
    BillingOutcome,
    Customer,
    HeldSubscription,
    LikelyBuyer,
    ListedEvent,
    PlanOffer,
    PortalAccess,
    Reader,
    SettledBillingEvent,
    WaitingBillingEvents,
)


class _Candidate(Frozen):
    organization_id: UUID
    service_id: UUID
    service_slug: str
    user_id: UUID
    is_user: bool
    new_customer: str | None

    def candidate(self) -> LikelyBuyer:
        buyer = Buyer(OrganizationId(self.organization_id), ServiceId(self.service_id), self.service_slug, UserId(self.user_id))
        return LikelyBuyer(buyer, self.is_user, self.new_customer)


class _Held(Frozen):
    managed: Sequence[dict[str, Any]]
    news: Sequence[dict[str, Any]]
    plans: Sequence[dict[str, Any]]


class _Linked(Frozen):
    external_id: str | None


class _Customer(Frozen):
    id: UUID
    org_id: UUID
    name: str
    external_id: str | None
    attempt: int
    asked_at: datetime | None


class _Offer(Frozen):
    organization_id: UUID
    service_id: UUID
    redirect_uris: list[str]
    is_active: bool
    plan_id: UUID | None
    plan_service_id: UUID | None
    price: str | None
    has_living: bool
    customer: str | None
    checkout_id: UUID | None
    checkout_digest: str | None
    checkout_external_id: str | None
    checkout_asked_at: datetime | None
    has_led_somewhere: bool

    def checkout(self) -> BegunCheckout | None:
        if self.checkout_id is None or self.checkout_digest is None or self.checkout_asked_at is None:
            return None
        return BegunCheckout(
            self.checkout_id, self.checkout_digest, self.checkout_external_id, self.checkout_asked_at, self.has_led_somewhere
        )


class _Portal(Frozen):
    customer: str | None
    redirect_uris: list[str]


class _Reader(Frozen):
    email: str
    language: str | None
    organization_name: str
    service_name: str
    service_logo: str | None


class BillingRows(OnTransaction):
    """Implements `ports.services.billing.BillingStore` in one transaction."""

    async def candidate(self, subject: str, look: Snapshot | None) -> LikelyBuyer | None:
        return first_made(
            await self._transaction.ask(_Candidate, _CANDIDATE, {"subject": subject, "look": _look(look)}), _Candidate.candidate
        )

    async def enroll(self, buyer: Buyer, at: datetime) -> None:
        parameters = {"service": buyer.service, "user": buyer.user, "organization": buyer.organization, "at": at}
        await self._transaction.tell(_ENROLL, parameters)

    async def get_or_add_for_update(self, subject: str, buyer: Buyer | None, look: Snapshot | None, at: datetime) -> HeldSubscription:
        parameters = {
            "subject": subject,
            "service": None if buyer is None else buyer.service,
            "user": None if buyer is None else buyer.user,
            "look": _look(look),
            "at": at,
        }
        for statement in (_MAKE, _LOCK, _LOCK_PLANS):
            await self._transaction.tell(statement, parameters)
        (found,) = await self._transaction.ask(_Held, _READ, parameters)
        own = next(one for one in found.managed if one["external_id"] == subject)
        return HeldSubscription(
            own=_managed(own),
            buyer=buyer if _is_of(own, buyer) else None,
            others=[_managed(one) for one in found.managed if one is not own],
            news=[News.of_json(one["id"], one["type"], one["created"], subject, one["payload"]) for one in found.news],
            plans=[
                OfferedPlan(PlanId(UUID(one["id"])), one["name"], one["billing_price_id"], datetime.fromisoformat(one["created_at"]))
                for one in found.plans
            ],
        )

    async def save(self, own: Managed, buyer: Buyer | None, check_at: datetime | None, at: datetime) -> None:
        state = own.facets.state()
        parameters = {
            "subject": own.external_id,
            "customer": own.customer,
            "organization": None if buyer is None else buyer.organization,
            "service": None if buyer is None else buyer.service,
            "user": None if buyer is None else buyer.user,
            "plan": own.plan,
            "facets": Jsonb(own.facets.as_json()),
            "is_over": state is not None and state.is_over,
            "check_at": check_at,
            "at": at,
        }
        await self._transaction.tell(_SAVE, parameters)

    async def assign(self, external_id: str, subscription: SubscriptionId) -> None:
        await self._transaction.tell(_ASSIGN, {"subject": external_id, "subscription": subscription})

    async def settle(self, settled: Sequence[SettledBillingEvent], at: datetime) -> None:
        told = [{"id": one.event, "outcome": one.outcome.value, "reason": one.reason} for one in settled]
        await self._transaction.tell(_SETTLE, {"settled": Jsonb(told), "at": at})

    async def reader(self, buyer: Buyer) -> Reader | None:
        rows = await self._transaction.ask(_Reader, _READER, {"user": buyer.user, "service": buyer.service})
        if not rows:
            return None
        row = rows[0]
        return Reader(Email(row.email), Language.of(row.language), row.organization_name, row.service_name, row.service_logo)

    async def offer(self, organization_slug: str, service_slug: str, plan: UUID, user: UserId) -> PlanOffer | None:
        parameters = {
            "organization": storable_text(organization_slug),
            "service": storable_text(service_slug),
            "plan": plan,
            "user": user,
        }
        rows = await self._transaction.ask(_Offer, _OFFER, parameters)
        if not rows:
            return None
        row = rows[0]
        return PlanOffer(
            organization=OrganizationId(row.organization_id),
            service=ServiceId(row.service_id),
            redirect_uris=row.redirect_uris,
            is_active=row.is_active,
            plan=None if row.plan_id is None else PlanId(row.plan_id),
            plan_service=None if row.plan_service_id is None else ServiceId(row.plan_service_id),
            price=row.price,
            has_living=row.has_living,
            customer=row.customer,
            last=row.checkout(),
        )

    async def customer(self, organization: OrganizationId, id: UUID, at: datetime) -> Customer | None:  # noqa: A002 - the column's name
        parameters = {"organization": organization, "id": id, "at": at}
        await self._transaction.tell(_MAKE_CUSTOMER, parameters)
        rows = await self._transaction.ask(_Customer, _CUSTOMER, parameters)
        if not rows:
            return None
        row = rows[0]
        return Customer(row.id, OrganizationId(row.org_id), row.name, row.external_id, row.attempt, row.asked_at)

    async def ask_for_customer(self, customer: UUID, attempt: int, at: datetime | None) -> None:
        await self._transaction.tell(_ASK_FOR_CUSTOMER, {"id": customer, "attempt": attempt, "at": at})

    async def link_customer(self, customer: UUID, external_id: str) -> str | None:
        return first_made(
            await self._transaction.ask(_Linked, _LINK_CUSTOMER, {"id": customer, "external_id": external_id}), lambda row: row.external_id
        )

    async def add_customer(self, organization: OrganizationId, id: UUID, external_id: str, at: datetime) -> bool:  # noqa: A002 - the column's name
        parameters = {"id": id, "organization": organization, "external_id": external_id, "at": at}
        return bool(await self._transaction.ask(IdRow, _ADD_CUSTOMER, parameters))

    async def end_customer(self, external_id: str, at: datetime) -> None:
        await self._transaction.tell(_END_CUSTOMER, {"external_id": external_id, "at": at})

    async def begin_checkout(self, service: ServiceId, user: UserId, checkout: BegunCheckout, *, instead_of: UUID | None) -> bool:
        parameters = {
            "service": service,
            "user": user,
            "id": checkout.id,
            "digest": checkout.digest,
            "at": checkout.asked_at,
            "instead_of": instead_of,
        }
        return bool(await self._transaction.ask(IdRow, _BEGIN_CHECKOUT, parameters))

    async def forget_checkout(self, service: ServiceId, user: UserId, checkout: UUID) -> None:
        await self._transaction.tell(_FORGET_CHECKOUT, {"service": service, "user": user, "id": checkout})

    async def portal(self, organization: OrganizationId) -> PortalAccess:
        (row,) = await self._transaction.ask(_Portal, _PORTAL, {"organization": organization})
        return PortalAccess(row.customer, row.redirect_uris)

    async def answer_checkout(self, service: ServiceId, user: UserId, checkout: UUID, external_id: str) -> bool:
        parameters = {"service": service, "user": user, "id": checkout, "external_id": external_id}
        return bool(await self._transaction.ask(IdRow, _ANSWER_CHECKOUT, parameters))


def _look(look: Snapshot | None) -> Jsonb | None:
    return None if look is None else Jsonb(look.as_json())


def _is_of(row: dict[str, Any], buyer: Buyer | None) -> bool:
    return buyer is not None and (row["service_id"], row["user_id"]) == (str(buyer.service), str(buyer.user))


def _managed(row: dict[str, Any]) -> Managed:
    record = row["record"]
    overridden = None if record is None else record["overridden_at"]
    return Managed(
        external_id=row["external_id"],
        facets=Facets.of_json(row["facets"]),
        customer=row["customer"],
        plan=None if row["plan_id"] is None else PlanId(UUID(row["plan_id"])),
        record=None if record is None else _subscription(record),
        overridden_at=None if overridden is None else datetime.fromisoformat(overridden),
        is_released=row["released_at"] is not None,
    )


def _subscription(row: dict[str, Any]) -> Subscription:
    end, created_at, updated_at = (
        datetime.fromisoformat(row[name]).astimezone(UTC) for name in ("current_period_end", "created_at", "updated_at")
    )
    return Subscription(
        id=SubscriptionId(UUID(row["id"])),
        service=ServiceId(UUID(row["service_id"])),
        user=UserId(UUID(row["user_id"])),
        plan=PlanId(UUID(row["plan_id"])),
        plan_name=row["plan_name"],
        status=SubscriptionStatus(row["status"]),
        current_period_end=end,
        created_at=created_at,
        updated_at=updated_at,
        managed=row["managed"],
    )


# Events and earlier looks may name a buyer. The statement takes the earliest of these whose plan, service, customer and user belong
# together. The casts to uuid are safe, because the ids were checked when the events were read.
_CANDIDATE: Final = """
    with known as materialized (
             select org_id, service_id, user_id, released_at, customer, facets
               from billing_subscriptions
              where external_id = %(subject)s
         ),
         named as materialized (
             select (names ->> 'organization')::uuid as org_id, (names ->> 'service')::uuid as service_id,
                    (names ->> 'user')::uuid as user_id, (names ->> 'plan')::uuid as plan_id, said.customer, created
               from (
                        select %(look)s::jsonb -> 'names' as names, %(look)s::jsonb ->> 'customer' as customer, 'infinity'::float8 as
                        created
                         union all
                        select payload -> 'snapshot' -> 'names', payload -> 'snapshot' ->> 'customer', created
                          from billing_events
                         where subject = %(subject)s and applied_at is null
                         union all
                        select one -> 1, known.customer, (one ->> 0)::float8
                          from known
                         cross join lateral jsonb_array_elements(coalesce(known.facets -> 'said', '[]')) as one
                    ) as said
              where jsonb_typeof(names) = 'object'
         ),
         claimed as (
             select org_id, service_id, user_id, true as is_user, null as new_customer, 0 as created
               from known
              where service_id is not null and user_id is not null and released_at is null
              union all
             select named.org_id, named.service_id, named.user_id, service_users.user_id is not null,
                    case when billing_customers.id is null then named.customer end, named.created
               from named
               left join billing_customers on billing_customers.external_id = named.customer
               join plans on plans.id = named.plan_id and plans.service_id = named.service_id
               left join service_users on service_users.service_id = named.service_id and service_users.user_id = named.user_id
               left join billing_checkouts
                 on billing_checkouts.service_id = named.service_id and billing_checkouts.user_id = named.user_id
              where not exists (select from known where service_id is not null or released_at is not null)
                -- A customer that nobody has becomes one of the organization. A customer of another organization never does.
                and (billing_customers.org_id = named.org_id or (billing_customers.id is null and named.customer is not null))
                and (service_users.user_id is not null or billing_checkouts.user_id is not null)
         )
    select services.org_id as organization_id, services.id as service_id, services.slug as service_slug, users.id as user_id,
           claimed.is_user, claimed.new_customer
      from claimed
      join services on services.id = claimed.service_id and services.org_id = claimed.org_id
      join users on users.id = claimed.user_id
     order by claimed.created
     limit 1
"""

_ENROLL: Final = """
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, services.org_id, %(at)s
      from services
      join users on users.id = %(user)s
     where services.id = %(service)s and services.org_id = %(organization)s
        on conflict (service_id, user_id) do nothing
"""

_MAKE: Final = """
    insert into billing_subscriptions (external_id, facets, created_at, updated_at)
    values (%(subject)s, '{}', %(at)s, %(at)s)
        on conflict (external_id) do nothing
"""

# The buyer's own records are locked before these rows. Their removal locks in the same order.
_LOCK: Final = """
    select
      from billing_subscriptions
     where external_id = %(subject)s or (service_id = %(service)s and user_id = %(user)s)
     order by external_id
       for update
"""

# Locks all plans whose counts the next statements may change, in the order in which every transaction locks plans.
_LOCK_PLANS: Final = """
    with snapshots as materialized (
             select payload -> 'snapshot' as snapshot from billing_events where subject = %(subject)s and applied_at is null
              union all
             select facets -> 'seen' -> 'snapshot' from billing_subscriptions where external_id = %(subject)s
              union all
             select %(look)s::jsonb
         )
    select
      from plans
     where service_id = %(service)s
       and (
               id in (select plan_id from subscriptions where service_id = %(service)s and user_id = %(user)s)
            or id in (select plan_id from billing_subscriptions where service_id = %(service)s and user_id = %(user)s)
            or id in (select (snapshot -> 'names' ->> 'plan')::uuid from snapshots where jsonb_typeof(snapshot -> 'names') = 'object')
            or id in (
                   select (one -> 1 ->> 'plan')::uuid
                     from billing_subscriptions
                    cross join lateral jsonb_array_elements(coalesce(facets -> 'said', '[]')) as one
                    where external_id = %(subject)s
               )
            or billing_price_id in (select snapshot ->> 'price' from snapshots)
           )
     order by id
       for no key update
"""

_READ: Final = """
    select (
               select jsonb_agg(to_jsonb(billing_subscriptions) || jsonb_build_object('record', case when subscriptions.id is not null then
                          to_jsonb(subscriptions) || jsonb_build_object('plan_name', plans.name) end))
                 from billing_subscriptions
                 left join subscriptions on subscriptions.id = billing_subscriptions.subscription_id
                 left join plans on plans.id = subscriptions.plan_id
                where billing_subscriptions.external_id = %(subject)s
                   or (
                          billing_subscriptions.service_id = %(service)s and billing_subscriptions.user_id = %(user)s
                          and billing_subscriptions.released_at is null
                      )
           ) as managed,
           (
               select coalesce(jsonb_agg(to_jsonb(waiting) order by waiting.created, waiting.id), '[]')
                 from (select id, type, created, payload from billing_events where subject = %(subject)s and applied_at is null) as waiting
           ) as news,
           (
               select coalesce(jsonb_agg(to_jsonb(offered)), '[]')
                 from (select id, name, billing_price_id, created_at from plans where service_id = %(service)s) as offered
           ) as plans
"""

# A person who was forgotten pays for nothing. So a subscription that the person began to buy earlier is queued for cancellation.
_SAVE: Final = """
    update billing_subscriptions
       set customer = %(customer)s, facets = %(facets)s, plan_id = %(plan)s, is_over = %(is_over)s, check_at = %(check_at)s,
           updated_at = %(at)s, org_id = coalesce(%(organization)s::uuid, org_id),
           service_id = coalesce(%(service)s::uuid, service_id), user_id = coalesce(%(user)s::uuid, user_id),
           cancel_at = case
                           when %(is_over)s then null
                           when released_at is null and exists (
                               select from users where id = coalesce(%(user)s::uuid, user_id) and anonymized_at is not null
                           ) then coalesce(cancel_at, %(at)s)
                           else cancel_at
                       end
     where external_id = %(subject)s
"""

_ASSIGN: Final = "update billing_subscriptions set subscription_id = %(subscription)s where external_id = %(subject)s"

_SETTLE: Final = """
    update billing_events
       set applied_at = %(at)s, outcome = settled.outcome, error = settled.reason, attempts = attempts + 1
      from jsonb_to_recordset(%(settled)s) as settled (id text, outcome text, reason text)
     where billing_events.id = settled.id and billing_events.applied_at is null
"""

_READER: Final = """
    select users.email, users.language, organizations.name as organization_name, services.name as service_name,
           services.logo_digest as service_logo
      from users
      join services on services.id = %(service)s
      join organizations on organizations.id = services.org_id
     where users.id = %(user)s and users.deactivated_at is null
"""

# A subscription that lives at the provider counts as living, even if somebody has set our own record to another status through the API.
_OFFER: Final = """
    select organizations.id as organization_id, services.id as service_id, services.redirect_uris,
           organizations.status = 'active' as is_active, plans.id as plan_id, plans.service_id as plan_service_id,
           plans.billing_price_id as price,
           exists (
               select
                 from billing_subscriptions
                 left join subscriptions on subscriptions.id = billing_subscriptions.subscription_id
                where billing_subscriptions.service_id = services.id and billing_subscriptions.user_id = %(user)s
                  and not billing_subscriptions.is_over
                  and (
                          facets #>> '{seen,snapshot,status}' in ('active', 'trialing', 'past_due', 'unpaid')
                       or (subscriptions.status in ('active', 'past_due') and subscriptions.overridden_at is null)
                      )
           ) as has_living,
           exists (
               select
                 from billing_subscriptions
                where billing_subscriptions.service_id = services.id and billing_subscriptions.user_id = %(user)s
                  and billing_subscriptions.created_at >= billing_checkouts.asked_at
           ) as has_led_somewhere,
           billing_customers.external_id as customer, billing_checkouts.id as checkout_id, billing_checkouts.digest as checkout_digest,
           billing_checkouts.external_id as checkout_external_id, billing_checkouts.asked_at as checkout_asked_at
      from organizations
      join services on services.org_id = organizations.id and services.slug = %(service)s
      left join plans on plans.id = %(plan)s and plans.deleted_at is null
      left join billing_customers on billing_customers.org_id = organizations.id and billing_customers.ended_at is null
      left join billing_checkouts on billing_checkouts.service_id = services.id and billing_checkouts.user_id = %(user)s
     where organizations.slug = %(organization)s
"""

_MAKE_CUSTOMER: Final = """
    insert into billing_customers (id, org_id, created_at)
    select %(id)s, id, %(at)s from organizations where id = %(organization)s
        on conflict (org_id) where ended_at is null do nothing
"""

_CUSTOMER: Final = """
    select billing_customers.id, org_id, organizations.name, external_id, attempt, asked_at
      from billing_customers
      join organizations on organizations.id = billing_customers.org_id
     where org_id = %(organization)s and ended_at is null
       for no key update of billing_customers
"""

_ASK_FOR_CUSTOMER: Final = "update billing_customers set attempt = %(attempt)s, asked_at = %(at)s where id = %(id)s"

_LINK_CUSTOMER: Final = """
    update billing_customers
       set external_id = coalesce(external_id, %(external_id)s)
     where id = %(id)s and ended_at is null
 returning external_id
"""

_ADD_CUSTOMER: Final = """
    insert into billing_customers (id, org_id, external_id, created_at, ended_at)
    values (%(id)s, %(organization)s, %(external_id)s, %(at)s, %(at)s)
        on conflict (external_id) do nothing
 returning id
"""

_END_CUSTOMER: Final = "update billing_customers set ended_at = %(at)s where external_id = %(external_id)s and ended_at is null"

# Locks the service as a foreign key does: a deletion of the service waits, or has already happened.
_OPEN_SERVICE: Final = """
        select services.id
          from services
          join organizations on organizations.id = services.org_id and organizations.status = 'active'
         where services.id = %(service)s
           for key share
"""

# Of two requests that begin a checkout at the same moment, the second finds another id than `instead_of`, and changes nothing.
_BEGIN_CHECKOUT: Final[LiteralString] = f"""
    insert into billing_checkouts (service_id, user_id, id, digest, asked_at)
    select open.id, buyer.id, %(id)s, %(digest)s, %(at)s
      from (select id from users where id = %(user)s for key share) as buyer
     cross join ({_OPEN_SERVICE}) as open
        on conflict (service_id, user_id)
        do update set id = excluded.id, digest = excluded.digest, external_id = null, asked_at = excluded.asked_at
                where billing_checkouts.id = %(instead_of)s
 returning id
"""

# The row stays, because the row proves that this person wanted to buy here: `_CANDIDATE` needs the proof.
_FORGET_CHECKOUT: Final = """
    update billing_checkouts set digest = '' where service_id = %(service)s and user_id = %(user)s and id = %(id)s
"""

_PORTAL: Final = """
    select (select external_id from billing_customers where org_id = %(organization)s and ended_at is null) as customer,
           array(select unnest(redirect_uris) from services where org_id = %(organization)s) as redirect_uris
"""

_ANSWER_CHECKOUT: Final = """
    update billing_checkouts
       set external_id = %(external_id)s
      from services
      join organizations on organizations.id = services.org_id and organizations.status = 'active'
     where services.id = billing_checkouts.service_id
       and service_id = %(service)s and user_id = %(user)s and billing_checkouts.id = %(id)s
 returning billing_checkouts.id
"""


class _FirstDue(Frozen):
    next_at: datetime | None


class _Due(Frozen):
    subject: str
    is_customer: bool


class _Event(Frozen):
    id: str
    type: str
    created: int
    payload: Mapping[str, Any]


class _Known(Frozen):
    external_id: str
    facets: Mapping[str, Any]
    is_released: bool
    agrees: bool


class _Sweep(Frozen):
    cursor: str | None


def _listed(*, created: int, **columns: Any) -> ListedEvent:
    return ListedEvent(created=datetime.fromtimestamp(created, UTC), **columns)


class PostgresBillingInbox(OnPool):
    """Implements `ports.services.billing.BillingInbox`."""

    async def take(self, news: News, outcome: BillingOutcome | None, at: datetime) -> bool:
        parameters = {
            "id": news.id,
            "type": news.type,
            "created": news.created,
            "subject": news.subject,
            "payload": Jsonb(news.as_json()),
            "outcome": None if outcome is None else outcome.value,
            "at": at,
        }
        return bool(await ask_in_order(self._pool, str, _TAKE, parameters))

    async def due(self, before: datetime, limit: int) -> Sequence[tuple[str, bool]]:
        return [(row.subject, row.is_customer) for row in await ask(self._pool, _Due, _DUE, {"before": before, "limit": limit})]

    async def next_due(self) -> datetime | None:
        return only(await ask(self._pool, _FirstDue, _NEXT_DUE)).next_at

    async def customer_news(self, subject: str) -> Sequence[News]:
        rows = await ask(self._pool, _Event, _CUSTOMER_NEWS, {"subject": subject})
        return [News.of_json(row.id, row.type, row.created, subject, row.payload) for row in rows]

    async def failed(self, subject: str, error: str, again: datetime) -> None:
        await tell(self._pool, _FAILED, {"subject": subject, "error": error, "again": again})

    async def retry(self, event: str | None) -> int:
        return await tell(self._pool, _RETRY, {"id": event})

    async def list(self, *, waiting: bool, limit: int) -> Sequence[ListedEvent]:
        return await ask(self._pool, _listed, _LIST_WAITING if waiting else _LIST, {"limit": limit})

    async def waiting(self) -> WaitingBillingEvents:
        return only(await ask(self._pool, WaitingBillingEvents, BILLING_WAITING))

    async def differs(self, looks: Mapping[str, Snapshot]) -> Sequence[str]:
        rows = await ask(self._pool, _Known, _KNOWN, {"subjects": list(looks)})
        known = {row.external_id: row for row in rows}
        return [subject for subject, snapshot in looks.items() if _differs(snapshot, known.get(subject))]

    async def claim_checks(self, limit: int, again: datetime) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _CLAIM_CHECKS, {"limit": limit, "again": again})

    async def checked(self, subject: str, check_at: datetime | None) -> None:
        await tell(self._pool, _CHECKED, {"subject": subject, "check_at": check_at})

    async def claim_cancellations(self, limit: int, again: datetime) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _CLAIM_CANCELLATIONS, {"limit": limit, "again": again})

    async def cancelled(self, subject: str) -> None:
        await tell(self._pool, _CANCELLED, {"subject": subject})

    async def cancel_again(self, living: Sequence[str]) -> int:
        return await tell(self._pool, _CANCEL_AGAIN, {"subjects": list(living)})

    async def claim_sweep(self, lease: timedelta) -> tuple[str | None] | None:
        return first_made(await ask(self._pool, _Sweep, _CLAIM_SWEEP, {"lease": lease}), lambda row: (row.cursor,))

    async def swept(self, cursor: str | None, due_at: datetime) -> None:
        await tell(self._pool, _SWEPT, {"cursor": cursor, "due_at": due_at})


def _differs(snapshot: Snapshot, known: _Known | None) -> bool:
    if known is None:
        return snapshot.claims
    facets = Facets.of_json(known.facets)
    is_as_known = facets.seen is not None and facets.seen.snapshot == snapshot and not facets.is_open
    return not known.is_released and not (is_as_known and known.agrees)


# Copies of an event may arrive at once. The first is kept, and the others find the row there.
_TAKE: Final = """
    insert into billing_events (id, type, created, subject, payload, received_at, next_at, applied_at, outcome)
    values (%(id)s, %(type)s, %(created)s, %(subject)s, %(payload)s, %(at)s, %(at)s,
            case when %(outcome)s::text is not null then %(at)s::timestamptz end, %(outcome)s)
        on conflict (id) do nothing
 returning id
"""

_DUE: Final = """
    select subject, bool_or(type in ('customer.created', 'customer.updated', 'customer.deleted')) as is_customer
      from (
               select subject, type, next_at
                 from billing_events
                where applied_at is null and next_at <= %(before)s
                order by next_at
                limit %(limit)s
           ) as due
     group by subject
     order by min(next_at)
"""

_NEXT_DUE: Final = "select min(next_at) as next_at from billing_events where applied_at is null"

_CUSTOMER_NEWS: Final = """
    select id, type, created, payload from billing_events where subject = %(subject)s and applied_at is null order by created, id
"""

_FAILED: Final = """
    update billing_events
       set attempts = attempts + 1, error = %(error)s,
           next_at = greatest(%(again)s::timestamptz, %(again)s::timestamptz + least(attempts, 360) * interval '1 minute')
     where subject = %(subject)s and applied_at is null
"""

# A command sends it, which has no reconciler.
_RETRY: Final = f"""
    update billing_events
       set next_at = now()
     where applied_at is null and (%(id)s::text is null or id = %(id)s)
 returning pg_notify('{CHANNEL}', '{BILLING_TOPIC}')
"""

_LISTED: Final = "select id, type, created, received_at, outcome, subject, attempts, error from billing_events"

_LIST: Final = f"{_LISTED} order by received_at desc limit %(limit)s"

_LIST_WAITING: Final = f"{_LISTED} where applied_at is null order by received_at desc limit %(limit)s"

BILLING_WAITING: Final = "select count(*) as events, min(received_at) as oldest from billing_events where applied_at is null"

# `agrees` compares the provider's last known status with our own record. A record that somebody set through the API
# (`overridden_at`) counts as agreeing.
_KNOWN: Final = """
    select external_id, facets, released_at is not null as is_released,
           case
               when billing_subscriptions.facets #>> '{seen,snapshot,status}' in ('active', 'trialing', 'past_due', 'unpaid')
               then coalesce(subscriptions.status in ('active', 'past_due') or subscriptions.overridden_at is not null, false)
               else coalesce(subscriptions.status not in ('active', 'past_due') or subscriptions.overridden_at is not null, true)
           end as agrees
      from billing_subscriptions
      left join subscriptions on subscriptions.id = billing_subscriptions.subscription_id
     where external_id = any (%(subjects)s)
"""

_CLAIM_CHECKS: Final = """
    with due as (
             select external_id
               from billing_subscriptions
              where check_at <= now() and released_at is null
              order by check_at
              limit %(limit)s
                for update skip locked
         )
  update billing_subscriptions
     set check_at = %(again)s
    from due
   where billing_subscriptions.external_id = due.external_id
 returning billing_subscriptions.external_id
"""

_CHECKED: Final = "update billing_subscriptions set check_at = %(check_at)s where external_id = %(subject)s and released_at is null"

_CLAIM_CANCELLATIONS: Final = """
    with due as (
             select external_id
               from billing_subscriptions
              where cancel_at <= now()
              order by cancel_at
              limit %(limit)s
                for update skip locked
         )
  update billing_subscriptions
     set cancel_at = %(again)s + least(cancel_attempts, 60) * interval '1 minute', cancel_attempts = cancel_attempts + 1
    from due
   where billing_subscriptions.external_id = due.external_id
 returning billing_subscriptions.external_id
"""

_CANCELLED: Final = "update billing_subscriptions set cancel_at = null, updated_at = now() where external_id = %(subject)s"

# With the API key of another provider account, a cancellation finds no subscription and counts as done. This statement cancels such
# subscriptions again.
_CANCEL_AGAIN: Final = """
    update billing_subscriptions
       set cancel_at = now(), updated_at = now()
     where external_id = any (%(subjects)s) and cancel_at is null
       and (released_at is not null or exists (select from users where users.id = user_id and anonymized_at is not null))
"""

# The table has one row, which the first claim inserts. The row's lease keeps other processes away while one of them reads a page.
_CLAIM_SWEEP: Final = """
    insert into billing_sweeps (due_at, leased_until)
    values (now(), now() + %(lease)s)
        on conflict (one) do update
       set leased_until = excluded.leased_until
     where billing_sweeps.due_at <= now() and coalesce(billing_sweeps.leased_until, '-infinity') <= now()
 returning cursor
"""

_SWEPT: Final = "update billing_sweeps set cursor = %(cursor)s, due_at = %(due_at)s, leased_until = null"
