"""The janitor's sweeps: what each table declares of its rows' age. Each statement deletes one small batch, and skips rows that another
transaction holds at the moment. What goes for its age stays while the clock cannot be believed.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, LiteralString

from adapters.postgres.database import BELIEVED
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation import logout_notices
from adapters.postgres.rate_limits import FORGET_FULL
from adapters.postgres.signing_keys import NEEDED_UNTIL
from adapters.postgres.statements import ask_in_order, only, tell
from adapters.postgres.tables.declaring import Age, Setting
from adapters.postgres.tables.every import TABLES
from adapters.postgres.tenancy.siem_queue import FORGET_RECEIVED
from adapters.postgres.tenancy.webhook_queue import FORSAKE
from core.frozen import Frozen
from ports.database import Housekeeping


class Sweep(Frozen):
    """Implements `ports.database.Housekeeping`."""

    pool: Pool
    name: str
    statement: LiteralString
    retention: timedelta | None = None

    async def delete_expired(self, limit: int) -> int:
        return await tell(self.pool, self.statement, {"limit": limit, "retention": self.retention})


class SweepOfParts(Sweep):
    """Sweeps a table that is cut by month. Whole months are dropped, not swept (`upkeep/partitions.py`). These rows were there before the
    first month, or belong to none.
    """

    async def delete_expired(self, limit: int) -> int:
        return only(await ask_in_order(self.pool, int, self.statement, {"limit": limit, "retention": self.retention}))


def sweep(pool: Pool, name: str, retention: timedelta | None = None) -> Sweep:
    return (SweepOfParts if name in _OF_PARTS else Sweep)(pool, name, STATEMENTS[name], retention)


def sweeps(
    pool: Pool, *, login_event_retention: timedelta, delivery_retention: timedelta, event_retention: timedelta
) -> tuple[Housekeeping, ...]:
    """All sweeps. Events are kept as long as deliveries: else each sweep would pass over all those that a delivery still tells."""
    kept = {
        Setting.LOGIN_EVENTS: login_event_retention,
        Setting.DELIVERIES: delivery_retention,
        Setting.EVENTS: max(event_retention, delivery_retention),
        None: None,
    }
    return tuple(sweep(pool, age.name, kept[age.kept]) for table in TABLES.values() for age in table.ages)


def _delete(
    table: LiteralString, condition: LiteralString, key: LiteralString = "id", oldest_first: LiteralString | None = None
) -> LiteralString:
    order = f"order by {oldest_first}" if oldest_first else ""
    return f"""
        delete from {table}
         where {BELIEVED}
           and {key} = any (array(select {key} from {table} where {condition} {order} limit %(limit)s for update skip locked))
    """


_OWN: Final[Mapping[str, LiteralString]] = {
    "FullBuckets": FORGET_FULL,
    "RetiredSigningKeys": _delete("signing_keys", f"state = 'outgoing' and {NEEDED_UNTIL} < now()"),
    # Drafts go with their link, and so do the connections that never became active.
    "PastSetupLinks": f"""
        with past as (
                 select id
                   from setup_links
                  where {BELIEVED} and expires_at < now() - interval '30 days'
                  order by expires_at
                  limit %(limit)s
                    for update skip locked
             ),
             gone as (
                 delete from upstream_providers
                  using setup_drafts
                  where setup_drafts.link_id in (select id from past) and setup_drafts.upstream_provider_id = upstream_providers.id
                    and upstream_providers.state <> 'active' and upstream_providers.activated_at is null
                    and not exists (select from domain_routes where domain_routes.own_provider = upstream_providers.id)
             )
        delete from setup_links where id in (select id from past)
    """,
    "PastEventDetails": f"""
        update events
           set personal = null
         where {BELIEVED}
           and id = any (array(
                   select id
                     from events
                    where personal is not null and occurred_at < now() - interval '90 days'
                    order by occurred_at
                    limit %(limit)s
                      for update skip locked
               ))
    """,
    "ForsakenDeliveries": FORSAKE,
    "ExpiredLogins": logout_notices.EXPIRE,
    "ForsakenNotices": logout_notices.FORSAKE,
    "ReceivedSignIns": FORGET_RECEIVED,
    "DeliveriesOfNobody": """
        with recursive named (webhook_id) as (
                 (select webhook_id from webhook_deliveries order by webhook_id limit 1)
                  union all
                 select (select webhook_id
                           from webhook_deliveries
                          where webhook_deliveries.webhook_id > named.webhook_id
                          order by webhook_id
                          limit 1)
                   from named
                  where named.webhook_id is not null
             ),
             deleted as materialized (
                 select webhook_id from named where not exists (select from webhooks where webhooks.id = named.webhook_id)
             ),
             left_over as (
                 select deliveries.id
                   from deleted
                  cross join lateral (
                            select id from webhook_deliveries where webhook_id = deleted.webhook_id limit %(limit)s for update skip locked
                        ) as deliveries
                  limit %(limit)s
             )
      delete from webhook_deliveries where id = any (array(select id from left_over))
    """,
}
_OF_PARTS: Final = frozenset(age.name for table in TABLES.values() for age in table.ages if age.kept and not age.condition)


def _statement(table: LiteralString, age: Age) -> LiteralString:
    if age.name in _OF_PARTS:
        return f"select sweep_partitions('{table}', %(retention)s::interval, %(limit)s) as count"
    return _delete(table, age.condition, age.key, age.oldest_first) if age.condition else _OWN[age.name]


STATEMENTS: Final[Mapping[str, LiteralString]] = {age.name: _statement(table.name, age) for table in TABLES.values() for age in table.ages}
