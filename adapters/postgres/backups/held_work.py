"""Work that goes out of the house and waits in the database: held after a restore, and let go by an operator.

Held work is due at one distant moment, `HELD_UNTIL`. Every claim asks for work that is due, so no actor takes held work, and no claim costs
more because work can be held. A webhook, a service that is told of sessions' ends and an export to a SIEM are held as a whole: what is
added for them later waits, too. Mail that is queued later goes out, because people wait for it.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, LiteralString

from psycopg import errors

from adapters.postgres.driver.connection import Connection
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB
from core.domain.mail import MAIL_JOB
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from core.frozen import Frozen

# Python and PostgreSQL can represent it in every time zone; no real piece of work is due then.
HELD_UNTIL: Final = "9000-01-01 00:00:00+00"


# The columns that a hold and a release write. `billing_sweeps` has a row only once the provider was looked at, and a hold makes the row.
HOLDABLE: Final[Mapping[str, Collection[str]]] = {
    "jobs": ("run_at", "lease", "leased_until"),
    "webhooks": ("rests_until", "lease", "leased_until"),
    "logout_receivers": ("rests_until", "lease", "leased_until"),
    "billing_events": ("next_at",),
    "billing_subscriptions": ("cancel_at", "check_at"),
    "billing_sweeps": ("one", "cursor", "due_at", "leased_until"),
    "siem_configurations": ("next_at", "lease", "leased_until"),
}


class OutgoingWork(StrEnum):
    MAIL = "mail"
    DELIVERIES = "deliveries"
    BILLING = "billing"
    SIEM = "siem"


class OutgoingCount(Frozen):
    """`waiting` includes what is `held`. Of deliveries, `held` counts those whose receiver is held."""

    waiting: int
    held: int


class _Statements(Frozen):
    """`held` asks whether anything is held, at the same small cost however much waits."""

    hold: tuple[LiteralString, ...]
    release: tuple[LiteralString, ...]
    held: LiteralString
    count: LiteralString


async def outgoing(conninfo: str) -> Mapping[OutgoingWork, OutgoingCount]:
    async with await Connection.connect(conninfo) as connection:
        return await _counted(connection)


async def held_kinds(conninfo: str) -> Sequence[OutgoingWork]:
    """Of a damaged schema, those that can be asked for."""
    async with await Connection.connect(conninfo) as connection:
        kinds = []
        for kind, statements in _OF.items():
            with suppress(errors.UndefinedTable, errors.UndefinedColumn):
                if await (await connection.execute(f"select exists ({statements.held})", _PARAMETERS)).fetchone() == (True,):
                    kinds.append(kind)
        return kinds


async def hold(conninfo: str, kinds: Collection[OutgoingWork]) -> None:
    """Holds what waits. All of it or nothing. May be repeated."""
    async with await Connection.connect(conninfo) as connection, connection.transaction():
        for kind in kinds:
            for statement in _OF[kind].hold:
                await connection.execute(statement, _PARAMETERS)


async def release(conninfo: str, kinds: Collection[OutgoingWork]) -> Mapping[OutgoingWork, int]:
    """Lets held work go, and returns how much of each kind was held. A second call finds nothing."""
    async with await Connection.connect(conninfo) as connection, connection.transaction():
        before = await _counted(connection)
        for kind in kinds:
            for statement in _OF[kind].release:
                await connection.execute(statement, _PARAMETERS)
    return {kind: before[kind].held for kind in kinds}


async def _counted(connection: Connection) -> Mapping[OutgoingWork, OutgoingCount]:
    counts = {}
    for kind, statements in _OF.items():
        row = await (await connection.execute(statements.count, _PARAMETERS)).fetchone()
        counts[kind] = OutgoingCount(*row) if row is not None else OutgoingCount(0, 0)
    return counts


_PARAMETERS: Final = {"until": HELD_UNTIL, "kinds": [MAIL_JOB, ORGANIZATION_MAIL_JOB, ACCOUNT_MAIL_JOB]}

_OF: Final[Mapping[OutgoingWork, _Statements]] = {
    OutgoingWork.MAIL: _Statements(
        hold=(
            """
            update jobs
               set run_at = %(until)s::timestamptz, lease = null, leased_until = null
             where state = 'waiting' and kind = any (%(kinds)s) and run_at <> %(until)s::timestamptz
            """,
        ),
        release=(
            """
            update jobs
               set run_at = now()
             where state = 'waiting' and kind = any (%(kinds)s) and run_at = %(until)s::timestamptz
            """,
        ),
        held="""
            select
              from unnest(%(kinds)s::text[]) as kinds (kind)
             cross join unnest(array[1, 0, -1]::smallint[]) as priorities (priority)
             where exists (
                       select
                         from jobs
                        where jobs.kind = kinds.kind and jobs.priority = priorities.priority and state = 'waiting'
                          and run_at = %(until)s::timestamptz
                   )
        """,
        count="""
            select count(*), count(*) filter (where run_at = %(until)s::timestamptz)
              from jobs
             where state = 'waiting' and kind = any (%(kinds)s)
        """,
    ),
    OutgoingWork.DELIVERIES: _Statements(
        hold=(
            "update webhooks set rests_until = %(until)s::timestamptz, lease = null, leased_until = null",
            "update logout_receivers set rests_until = %(until)s::timestamptz, lease = null, leased_until = null",
        ),
        release=(
            "update webhooks set rests_until = null where rests_until = %(until)s::timestamptz",
            "update logout_receivers set rests_until = null where rests_until = %(until)s::timestamptz",
        ),
        held="""
            select from webhooks where rests_until = %(until)s::timestamptz
             union all
            select from logout_receivers where rests_until = %(until)s::timestamptz
        """,
        count="""
            select count(*), count(*) filter (where rests_until = %(until)s::timestamptz)
              from (
                       select webhooks.rests_until
                         from webhook_deliveries
                         join webhooks on webhooks.id = webhook_id
                        where next_at is not null
                        union all
                       select logout_receivers.rests_until
                         from logout_notices
                         join logout_receivers on logout_receivers.service_id = logout_notices.service_id
                        where next_at is not null
                   ) as waiting
        """,
    ),
    OutgoingWork.BILLING: _Statements(
        hold=(
            "update billing_events set next_at = %(until)s::timestamptz where applied_at is null",
            "update billing_subscriptions set cancel_at = %(until)s::timestamptz where cancel_at is not null",
            "update billing_subscriptions set check_at = %(until)s::timestamptz where check_at is not null",
            """
            insert into billing_sweeps (due_at) values (%(until)s::timestamptz)
                on conflict (one) do update set due_at = excluded.due_at, leased_until = null
            """,
        ),
        release=(
            "update billing_events set next_at = now() where applied_at is null and next_at = %(until)s::timestamptz",
            "update billing_subscriptions set cancel_at = now() where cancel_at = %(until)s::timestamptz",
            "update billing_subscriptions set check_at = now() where check_at = %(until)s::timestamptz",
            "update billing_sweeps set due_at = now() where due_at = %(until)s::timestamptz",
        ),
        held="""
            select from billing_sweeps where due_at = %(until)s::timestamptz
             union all
            select from billing_events where applied_at is null and next_at = %(until)s::timestamptz
        """,
        count="""
            select count(*), count(*) filter (where at = %(until)s::timestamptz)
              from (
                       select next_at as at from billing_events where applied_at is null
                        union all
                       select cancel_at from billing_subscriptions where cancel_at is not null
                        union all
                       select due_at from billing_sweeps where due_at = %(until)s::timestamptz
                   ) as waiting
        """,
    ),
    OutgoingWork.SIEM: _Statements(
        hold=("update siem_configurations set next_at = %(until)s::timestamptz, lease = null, leased_until = null",),
        release=("update siem_configurations set next_at = now() where next_at = %(until)s::timestamptz",),
        held="select from siem_configurations where next_at = %(until)s::timestamptz",
        count="select count(*), count(*) filter (where next_at = %(until)s::timestamptz) from siem_configurations where is_active",
    ),
}
