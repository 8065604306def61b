"""The metrics that the database knows, in one statement: a process asks for them twice a minute, also when nobody uses it."""

from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres import database
from adapters.postgres.database import ACTIVE_USERS, MFA_ENABLED_USERS, count_or_estimate
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import MOST_COUNTED, PRIORITIES, QUEUE_STATE
from adapters.postgres.record.audit import AUDIT_BACKLOG, LAST_OF_PLATFORM, MOST_PENDING_COUNTED
from adapters.postgres.services.billing import BILLING_WAITING
from adapters.postgres.statements import OnPool, ask
from core.domain.backups import BACKUP_CHECKED
from core.domain.jobs import QueueState
from core.frozen import Frozen
from ports.metrics import Population
from ports.platform import DatabaseGauges, DirectoriesInNeed
from ports.record import Backlog
from ports.services.billing import WaitingBillingEvents


class PostgresGauges(OnPool):
    """Implements `ports.platform.GaugeReader`. `directories` is a statement of an area that this one does not know: its columns are
    `waiting` and `failing`.
    """

    def __init__(self, pool: Pool, directories: LiteralString) -> None:
        super().__init__(pool)
        self._statement = _gauges(directories)

    async def read(self) -> DatabaseGauges:
        most = database.COUNTED_EXACTLY
        parameters = {
            "most": most,
            "most_jobs": MOST_COUNTED,
            "priorities": list(PRIORITIES),
            "most_entries": MOST_PENDING_COUNTED,
            "action": BACKUP_CHECKED,
        }
        rows = await ask(self._pool, _Gauges, self._statement, parameters)
        row = rows[0]
        return DatabaseGauges(
            population=Population(
                active_users=count_or_estimate(row.users_counted, row.users_estimated),
                organizations=count_or_estimate(row.organizations_counted, row.organizations_estimated),
                mfa_enabled_users=count_or_estimate(row.mfa_counted, row.mfa_estimated),
            ),
            queue=[QueueState(one.kind, one.waiting, one.dead, one.oldest_due) for one in rows if one.kind is not None],
            audit=Backlog(row.pending, row.oldest_entry),
            billing=WaitingBillingEvents(row.billing_events, row.oldest_billing_event),
            backup_checked=row.backup_checked,
            directories=DirectoriesInNeed(row.directories_waiting, row.directories_failing),
            keys_since=dict(zip(row.purposes, row.keys_since, strict=True)),
        )


class _Gauges(Frozen):
    """One row for each kind of jobs, and a row without a kind if there are no jobs. The other columns are the same in all rows."""

    users_counted: int
    users_estimated: float
    organizations_counted: int
    organizations_estimated: float
    mfa_counted: int
    mfa_estimated: float
    pending: int
    oldest_entry: datetime | None
    billing_events: int
    oldest_billing_event: datetime | None
    backup_checked: datetime | None
    directories_waiting: int
    directories_failing: int
    purposes: list[str]
    keys_since: list[datetime]
    kind: str | None
    waiting: int
    dead: int
    oldest_due: datetime | None


_ORGANIZATIONS: Final = """
    select (select count(*) from (select from organizations limit %(most)s) as capped) as counted,
           (select reltuples from pg_class where oid = 'all_organizations'::regclass) as estimated
"""

_KEYS: Final = """
    select coalesce(array_agg(purpose), '{}') as purposes, coalesce(array_agg(coalesce(activated_at, created_at)), '{}') as keys_since
      from signing_keys
     where state = 'current'
"""


def _gauges(directories: LiteralString) -> LiteralString:
    return f"""
    select users.counted as users_counted, users.estimated as users_estimated,
           organizations.counted as organizations_counted, organizations.estimated as organizations_estimated,
           mfa.counted as mfa_counted, mfa.estimated as mfa_estimated,
           audit.pending, audit.oldest as oldest_entry, billing.events as billing_events, billing.oldest as oldest_billing_event,
           ({LAST_OF_PLATFORM}) as backup_checked,
           directories.waiting as directories_waiting, directories.failing as directories_failing, keys.purposes, keys.keys_since,
           queue.kind, coalesce(queue.waiting, 0) as waiting, coalesce(queue.dead, 0) as dead, queue.oldest_due
      from ({ACTIVE_USERS}) as users
     cross join ({_ORGANIZATIONS}) as organizations
     cross join ({MFA_ENABLED_USERS}) as mfa
     cross join ({AUDIT_BACKLOG}) as audit
     cross join ({BILLING_WAITING}) as billing
     cross join ({directories}) as directories
     cross join ({_KEYS}) as keys
      left join ({QUEUE_STATE}) as queue on true
     order by queue.kind
"""
