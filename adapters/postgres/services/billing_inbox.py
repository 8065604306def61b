"""News of the payment provider in PostgreSQL, and the subscriptions that are due for a check at the provider."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from adapters.postgres.statements import ask, ask_in_order, first_made, only, tell
from adapters.postgres.transaction import OnPool
from core.domain.services.billing import Facets
from core.domain.services.billing_news import News, Snapshot
from core.frozen import Frozen
from ports.services.billing import BillingOutcome, ListedEvent, WaitingBillingEvents


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
        return only(await ask(self._pool, WaitingBillingEvents, _WAITING))

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

_CUSTOMER_NEWS: Final = """
    select id, type, created, payload from billing_events where subject = %(subject)s and applied_at is null order by created, id
"""

_FAILED: Final = """
    update billing_events
       set attempts = attempts + 1, error = %(error)s,
           next_at = greatest(%(again)s::timestamptz, %(again)s::timestamptz + least(attempts, 360) * interval '1 minute')
     where subject = %(subject)s and applied_at is null
"""

_RETRY: Final = """
    update billing_events set next_at = now() where applied_at is null and (%(id)s::text is null or id = %(id)s)
"""

_LISTED: Final = "select id, type, created, received_at, outcome, subject, attempts, error from billing_events"

_LIST: Final = f"{_LISTED} order by received_at desc limit %(limit)s"

_LIST_WAITING: Final = f"{_LISTED} where applied_at is null order by received_at desc limit %(limit)s"

_WAITING: Final = "select count(*) as events, min(received_at) as oldest from billing_events where applied_at is null"

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
