"""Subscriptions in PostgreSQL, and the subscription's state that tokens carry."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.sessions.subscription_state import CURRENT_FIRST, SUBSCRIPTION_STATE, subscription_state
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId, PlanId, ServiceId, SubscriptionId, UserId
from core.domain.pages import Listed
from core.domain.services.subscriptions import Expired, Occasion, OwnSubscription, Subscription, SubscriptionStatus
from core.frozen import Frozen
from ports.services.subscriptions import Subscriber


class _Subscription(Frozen, kw_only=True):
    id: UUID
    service_id: UUID
    user_id: UUID
    plan_id: UUID
    plan_name: str
    status: str
    current_period_end: datetime
    created_at: datetime
    updated_at: datetime
    managed: bool

    def subscription(self) -> Subscription:
        return Subscription(
            id=SubscriptionId(self.id),
            service=ServiceId(self.service_id),
            user=UserId(self.user_id),
            plan=PlanId(self.plan_id),
            plan_name=self.plan_name,
            status=SubscriptionStatus(self.status),
            current_period_end=self.current_period_end,
            created_at=self.created_at,
            updated_at=self.updated_at,
            managed=self.managed,
        )


class _Expired(_Subscription, kw_only=True):
    organization_id: UUID | None
    service_slug: str | None

    @property
    def occasion(self) -> Occasion | None:
        if self.organization_id is None or self.service_slug is None:
            return None
        return Occasion(OrganizationId(self.organization_id), self.service_slug)


class _Own(Frozen):
    service_slug: str
    subscription: Mapping[str, Any] | None


class _Subscriber:
    """A user of the service. Their current subscription is beside them, or null in all its columns."""

    def __init__(self, *, id: UUID | None, **columns: Any) -> None:  # noqa: A002 - the column's name
        self.current = None if id is None else _Subscription(id=id, **columns).subscription()


class _Listed:
    """A row of the page. An empty page is one row without a subscription."""

    def __init__(self, *, total: int, id: UUID | None, **columns: Any) -> None:  # noqa: A002 - the column's name
        self.total = total
        self.subscription = None if id is None else _Subscription(id=id, **columns).subscription()


class SubscriptionRows:
    """Implements `ports.services.subscriptions.SubscriptionStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, service: ServiceId, status: SubscriptionStatus | None, limit: int, offset: int) -> Listed[Subscription]:
        rows = await self._statements.ask(_Listed, LISTS[status], {"service": service, "limit": limit, "offset": offset})
        return Listed([row.subscription for row in rows if row.subscription is not None], rows[0].total)

    async def current(self, service: ServiceId, user: UserId) -> Subscription | None:
        rows = await self._statements.ask(_Subscription, CURRENT, {"service": service, "user": user})
        return rows[0].subscription() if rows else None

    async def own(self, organization: OrganizationId, service_slug: str, user: UserId) -> OwnSubscription | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "user": user}
        rows = await self._statements.ask(_Own, OWN, parameters)
        return OwnSubscription(rows[0].service_slug, subscription_state(rows[0].subscription)) if rows else None

    async def hold(self, service: ServiceId, user: UserId) -> Subscriber | None:
        parameters = {"service": service, "user": user}
        for statement in (_HOLD_USER, _HOLD_USER_OF_SERVICE, _HOLD):
            await self._statements.tell(statement, parameters)
        rows = await self._statements.ask(_Subscriber, _FIND_SUBSCRIBER, parameters)
        return Subscriber(rows[0].current) if rows else None

    async def add(self, subscription: Subscription) -> bool:
        parameters = {
            **_columns(subscription),
            "service": subscription.service,
            "user": subscription.user,
            "created_at": subscription.created_at,
            "managed": subscription.managed,
        }
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def save(self, subscription: Subscription, *, overridden_at: datetime | None = None) -> None:
        await self._statements.tell(_SAVE, {**_columns(subscription), "overridden_at": overridden_at})

    async def delete_all(self, service: ServiceId, user: UserId) -> None:
        await self._statements.tell(_DELETE_ALL, {"service": service, "user": user})

    async def expire_due(self, since: datetime | None, most: int) -> Sequence[Expired]:
        rows = await self._statements.ask(_Expired, EXPIRE_DUE, {"since": since, "most": most})
        return [Expired(row.subscription(), row.occasion) for row in rows]


def _columns(subscription: Subscription) -> dict[str, Any]:
    """The subscription's columns that may change, and its id."""
    return {
        "id": subscription.id,
        "plan": subscription.plan,
        "status": subscription.status.value,
        "end": subscription.current_period_end,
        "updated_at": subscription.updated_at,
    }


_COLUMNS: Final = """
           subscriptions.id, subscriptions.service_id, subscriptions.user_id, subscriptions.plan_id, plans.name as plan_name,
           subscriptions.status, subscriptions.current_period_end, subscriptions.created_at, subscriptions.updated_at,
           subscriptions.managed"""

CURRENT: Final[LiteralString] = f"""
    select {_COLUMNS}
      from subscriptions
      join plans on plans.id = subscriptions.plan_id
     where subscriptions.service_id = %(service)s and subscriptions.user_id = %(user)s
     {CURRENT_FIRST}
"""

# These statements lock in the same order as the deletion of an account. The account comes first, so that nobody deletes the account
# meanwhile. The row of `service_users` comes second: two requests for the same user meet there, even for the first subscription. The
# existing subscriptions come last, because one of them may be expiring at this moment.
_HOLD_USER: Final = "select from users where id = %(user)s for key share"

_HOLD_USER_OF_SERVICE: Final = "select from service_users where service_id = %(service)s and user_id = %(user)s for no key update"

_HOLD: Final = """
    select from subscriptions where service_id = %(service)s and user_id = %(user)s order by id for no key update
"""

_FIND_SUBSCRIBER: Final[LiteralString] = f"""
    select current.*
      from service_users
      left join lateral ({CURRENT}) as current on true
     where service_users.service_id = %(service)s and service_users.user_id = %(user)s
"""

_ADD: Final = """
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at, managed)
    values (%(id)s, %(service)s, %(user)s, %(plan)s, %(status)s, %(end)s, %(created_at)s, %(updated_at)s, %(managed)s)
        on conflict (service_id, user_id) where status in ('active', 'past_due') do nothing
 returning id
"""

_SAVE: Final = """
    update subscriptions
       set plan_id = %(plan)s, status = %(status)s, current_period_end = %(end)s, updated_at = %(updated_at)s,
           overridden_at = case when managed then %(overridden_at)s::timestamptz end
     where id = %(id)s
"""

_DELETE_ALL: Final = "delete from subscriptions where service_id = %(service)s and user_id = %(user)s"

# Any number of processes may run this statement at once. A locked row is about to be changed, so the row is left for the next run.
EXPIRE_DUE: Final[LiteralString] = f"""
    with due as (
             select id
               from subscriptions
              where status = 'active' and not managed and current_period_end <= now()
                and current_period_end >= coalesce(%(since)s::timestamptz, '-infinity')
              order by current_period_end
              limit %(most)s::bigint
                for no key update skip locked
         ),
         expired as (
             update subscriptions
                set status = 'expired', updated_at = now()
               from due
              where subscriptions.id = due.id
          returning subscriptions.*
         )
  select {_COLUMNS}, organizations.id as organization_id, services.slug as service_slug
    from expired as subscriptions
    join plans on plans.id = subscriptions.plan_id
    left join services on services.id = subscriptions.service_id
    left join organizations on organizations.id = services.org_id
"""

OWN: Final[LiteralString] = f"""
    select services.slug as service_slug, {SUBSCRIPTION_STATE} as subscription
      from services
      join users on users.id = %(user)s
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

# Plans keep exact counts of their subscriptions, also deleted plans. So the statement knows the total, and reads a page from the nearer end
# of the index. `offset 0` is needed: the planner assumes that an unknown limit takes a tenth of the table, and would read the whole table.
_LIST: Final[LiteralString] = """
    with counted as materialized (
             select coalesce(sum({counts}), 0)::bigint as total from plans where service_id = %(service)s
         ),
         place as materialized (
             select %(offset)s::bigint <= total / 2 as from_start,
                    greatest(total - %(offset)s::bigint - %(limit)s::bigint, 0) as offset_from_end,
                    least(greatest(total - %(offset)s::bigint, 0), %(limit)s::bigint) as rows
               from counted
         ),
         page as materialized (
            (select id
               from subscriptions
              where service_id = %(service)s {condition}
              order by created_at, id
             offset (select case when from_start then %(offset)s::bigint else 0 end from place)
              limit (select case when from_start then rows else 0 end from place))
              union all
            (select id
               from subscriptions
              where service_id = %(service)s {condition}
              order by created_at desc, id desc
             offset (select case when from_start then 0 else offset_from_end end from place)
              limit (select case when from_start then 0 else rows end from place))
         )
    select counted.total, listed.*
      from counted
      left join page on true
      left join lateral (
                select {columns}
                  from subscriptions
                  join plans on plans.id = subscriptions.plan_id
                 where subscriptions.id = page.id
                offset 0
           ) as listed on true
     order by listed.created_at, listed.id
"""

# One statement for each status. Each status has an index in the order of the list.
LISTS: Final[Mapping[SubscriptionStatus | None, LiteralString]] = {
    None: _LIST.format(counts="active_count + past_due_count + cancelled_count + expired_count", condition="", columns=_COLUMNS),
    SubscriptionStatus.ACTIVE: _LIST.format(counts="active_count", condition="and status = 'active'", columns=_COLUMNS),
    SubscriptionStatus.PAST_DUE: _LIST.format(counts="past_due_count", condition="and status = 'past_due'", columns=_COLUMNS),
    SubscriptionStatus.CANCELLED: _LIST.format(counts="cancelled_count", condition="and status = 'cancelled'", columns=_COLUMNS),
    SubscriptionStatus.EXPIRED: _LIST.format(counts="expired_count", condition="and status = 'expired'", columns=_COLUMNS),
}
