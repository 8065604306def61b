"""Plans and subscriptions, and the subscription's state that tokens carry."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns, DueRow, IdRow, due_in, page_of, storable_text
from adapters.postgres.identity.sessions.parts import CURRENT_FIRST, SUBSCRIPTION_STATE, subscription_state
from adapters.postgres.statements import OnStatements, first, first_made, only
from core.domain.identifiers import OrganizationId, PlanId, ServiceId, UserId
from core.domain.requests import Listed
from core.domain.services.plans import (
    SUBSCRIPTION_TOPIC,
    Expired,
    Occasion,
    OwnSubscription,
    Plan,
    PlanOverview,
    Subscription,
    SubscriptionStatus,
)
from core.frozen import Frozen
from ports.services.billing import Subscriber

PLAN: Final = Columns(Plan, "plans", named={"service": "service_id"}, texts=("name", "features"))


class _Service(Frozen):
    id: UUID


def _overview(*, subscription_count: int, **columns: Any) -> PlanOverview:
    return PlanOverview(PLAN.row(**columns), subscription_count)


class PlanRows(OnStatements):
    """Implements `ports.services.billing.PlanStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[PlanOverview] | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        rows = await self._statements.ask(_overview, _LIST, parameters)
        if not rows and not await self._statements.ask(_Service, _FIND_SERVICE, parameters):
            return None
        return rows

    async def keys(self, service: ServiceId) -> Collection[str]:
        return set(await self._statements.ask_in_order(str, _KEYS, {"service": service}))

    async def add(self, plan: Plan) -> None:
        await self._statements.tell(_ADD, PLAN.values(plan))

    async def find_for_update(self, organization: OrganizationId, service_slug: str, plan: PlanId) -> PlanOverview | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "id": plan}
        await self._statements.tell(_HOLD, parameters)
        return first(await self._statements.ask(_overview, _GET, parameters))

    async def offer(self, service: ServiceId, plan: PlanId, *, leaving: PlanId | None = None) -> Plan | None:
        await self._statements.tell(_HOLD_OWN, {"service": service, "id": plan, "leaving": leaving})
        return first_made(await self._statements.ask(_overview, _OFFER, {"id": plan}), lambda row: row.plan)

    async def save(self, plan: Plan) -> None:
        await self._statements.tell(_SAVE, PLAN.values(plan))

    async def delete(self, plan: PlanId, at: datetime) -> None:
        await self._statements.tell(_DELETE, {"id": plan, "at": at})


_PLAN: Final[LiteralString] = f"""
    select {PLAN.names}, plans.subscription_count
      from plans
      join services on services.id = plans.service_id
     where plans.deleted_at is null
"""

_OF_SERVICE: Final = "and services.org_id = %(organization)s and services.slug = %(slug)s"

_LIST: Final[LiteralString] = f"{_PLAN} {_OF_SERVICE} order by plans.price_cents, plans.created_at, plans.id"

_GET: Final[LiteralString] = f"{_PLAN} {_OF_SERVICE} and plans.id = %(id)s"

_OFFER: Final[LiteralString] = f"{_PLAN} and plans.id = %(id)s"

_FIND_SERVICE: Final = "select id from services where org_id = %(organization)s and slug = %(slug)s"

_KEYS: Final = "select key from plans where service_id = %(service)s and deleted_at is null"

# `_HOLD` and `_HOLD_OWN` are statements of their own: the next statement sees what others committed while the lock was waited for. The lock
# is as strong as an update needs, because counting a subscription updates the plan's row. Two people who subscribe to the same plan wait
# for each other in any case, and upgrading a weaker lock would deadlock.
_HOLD: Final = """
    select
      from plans
      join services on services.id = plans.service_id
     where plans.id = %(id)s and services.org_id = %(organization)s and services.slug = %(slug)s
       for no key update of plans
"""

# Locks plans in the same order as the counting trigger and the removal of subscriptions.
_HOLD_OWN: Final = "select from plans where id in (%(id)s, %(leaving)s) and service_id = %(service)s order by id for no key update"

_ADD: Final[LiteralString] = f"insert into plans ({PLAN.into()}) values ({PLAN.inserted()})"

_SAVE: Final[LiteralString] = f"update plans set {PLAN.changes('id', 'service', 'key', 'created_at')} where id = %(id)s"

_DELETE: Final = "update plans set deleted_at = %(at)s, updated_at = %(at)s where id = %(id)s and deleted_at is null"


SUBSCRIPTION: Final = Columns(
    Subscription,
    "subscriptions",
    named={"service": "service_id", "user": "user_id", "plan": "plan_id"},
    # The plan has its name.
    apart=("plan_name",),
)


class _Own(Frozen):
    service_slug: str
    subscription: Mapping[str, Any] | None


def _expired(*, organization_id: OrganizationId | None, service_slug: str | None, **columns: Any) -> Expired:
    occasion = None if organization_id is None or service_slug is None else Occasion(organization_id, service_slug)
    return Expired(SUBSCRIPTION.row(**columns), occasion)


class SubscriptionRows(OnStatements):
    """Implements `ports.services.billing.SubscriptionStore`."""

    async def list(self, service: ServiceId, status: SubscriptionStatus | None, limit: int, offset: int) -> Listed[Subscription]:
        parameters = {"service": service, "limit": limit, "offset": offset}
        return page_of(await self._statements.ask(SUBSCRIPTION.counted, SUBSCRIPTION_LISTS[status], parameters))

    async def current(self, service: ServiceId, user: UserId) -> Subscription | None:
        return first(await self._statements.ask(SUBSCRIPTION.row, CURRENT_SUBSCRIPTION, {"service": service, "user": user}))

    async def own(self, organization: OrganizationId, service_slug: str, user: UserId) -> OwnSubscription | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "user": user}
        return first_made(
            await self._statements.ask(_Own, OWN_SUBSCRIPTIONS, parameters),
            lambda row: OwnSubscription(row.service_slug, subscription_state(row.subscription)),
        )

    async def find_for_update(self, service: ServiceId, user: UserId) -> Subscriber | None:
        parameters = {"service": service, "user": user}
        for statement in (_HOLD_USER, _HOLD_USER_OF_SERVICE, _SUBSCRIPTION_HOLD):
            await self._statements.tell(statement, parameters)
        return first_made(await self._statements.ask(SUBSCRIPTION.found, _FIND_SUBSCRIBER, parameters), Subscriber)

    async def add(self, subscription: Subscription) -> bool:
        self._statements.ring_here(SUBSCRIPTION_TOPIC)
        return bool(await self._statements.ask(IdRow, _SUBSCRIPTION_ADD, SUBSCRIPTION.values(subscription)))

    async def save(self, subscription: Subscription, *, overridden_at: datetime | None = None) -> None:
        self._statements.ring_here(SUBSCRIPTION_TOPIC)
        await self._statements.tell(_SUBSCRIPTION_SAVE, {**SUBSCRIPTION.values(subscription), "overridden_at": overridden_at})

    async def delete_all(self, service: ServiceId, user: UserId) -> None:
        await self._statements.tell(_DELETE_ALL, {"service": service, "user": user})

    async def expire_due(self, since: datetime | None, most: int) -> Sequence[Expired]:
        return await self._statements.ask(_expired, EXPIRE_DUE, {"since": since, "most": most})

    async def due_in(self) -> float | None:
        return only(await self._statements.ask(DueRow, _EXPIRES_IN)).due_in


_COLUMNS: Final[LiteralString] = f"{SUBSCRIPTION.names}, plans.name as plan_name"

CURRENT_SUBSCRIPTION: Final[LiteralString] = f"""
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

_SUBSCRIPTION_HOLD: Final = """
    select from subscriptions where service_id = %(service)s and user_id = %(user)s order by id for no key update
"""

_FIND_SUBSCRIBER: Final[LiteralString] = f"""
    select current.*
      from service_users
      left join lateral ({CURRENT_SUBSCRIPTION}) as current on true
     where service_users.service_id = %(service)s and service_users.user_id = %(user)s
"""

_SUBSCRIPTION_ADD: Final[LiteralString] = f"""
    insert into subscriptions ({SUBSCRIPTION.into()})
    values ({SUBSCRIPTION.inserted()})
        on conflict (service_id, user_id) where status in ('active', 'past_due') do nothing
 returning id
"""

_SUBSCRIPTION_SAVE: Final[LiteralString] = f"""
    update subscriptions
       set {SUBSCRIPTION.changes("id", "service", "user", "created_at", "managed")},
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

# One step in an index. A row that is being changed at this moment may be due already.
_EXPIRES_IN: Final = f"""
    select {due_in("current_period_end")} as due_in
      from (
               select current_period_end
                 from subscriptions
                where status = 'active' and not managed
                order by current_period_end
                limit 1
           ) as first
"""

OWN_SUBSCRIPTIONS: Final[LiteralString] = f"""
    select services.slug as service_slug, {SUBSCRIPTION_STATE} as subscription
      from services
      join users on users.id = %(user)s
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

# Plans keep exact counts of their subscriptions, also deleted plans. So the statement knows the total, and reads a page from the nearer end
# of the index. `offset 0` is needed: the planner assumes that an unknown limit takes a tenth of the table, and would read the whole table.
_SUBSCRIPTION_LIST: Final[LiteralString] = """
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
SUBSCRIPTION_LISTS: Final[Mapping[SubscriptionStatus | None, LiteralString]] = {
    None: _SUBSCRIPTION_LIST.format(
        counts="active_count + past_due_count + cancelled_count + expired_count", condition="", columns=_COLUMNS
    ),
    SubscriptionStatus.ACTIVE: _SUBSCRIPTION_LIST.format(counts="active_count", condition="and status = 'active'", columns=_COLUMNS),
    SubscriptionStatus.PAST_DUE: _SUBSCRIPTION_LIST.format(counts="past_due_count", condition="and status = 'past_due'", columns=_COLUMNS),
    SubscriptionStatus.CANCELLED: _SUBSCRIPTION_LIST.format(
        counts="cancelled_count", condition="and status = 'cancelled'", columns=_COLUMNS
    ),
    SubscriptionStatus.EXPIRED: _SUBSCRIPTION_LIST.format(counts="expired_count", condition="and status = 'expired'", columns=_COLUMNS),
}
