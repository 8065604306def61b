"""Checks a restored database for gaps, and pauses outgoing work until an operator releases it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Final, LiteralString

from psycopg import errors

from adapters.postgres.driver.connection import Connection
from adapters.postgres.jobs import ANYTHING
from adapters.postgres.migrate import shipped, shipped_views_and_functions
from adapters.postgres.migrating.schema import MARK
from adapters.postgres.statements import CHANNEL, NOTIFY
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB
from core.domain.mail import MAIL_JOB
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from core.frozen import Frozen

# Python and PostgreSQL can represent it in every time zone; no real piece of work is due then.
HELD_UNTIL: Final = "9000-01-01 00:00:00+00"


# Receivers of deliveries.
_RESTING: Final[Sequence[LiteralString]] = ("webhooks", "logout_receivers", "signal_streams")

# The columns that a hold and a release write. `billing_sweeps` has a row only once the provider was looked at, and a hold makes the row.
HOLDABLE: Final[Mapping[str, Collection[str]]] = {
    "jobs": ("run_at", "lease", "leased_until"),
    **dict.fromkeys(_RESTING, ("rests_until", "lease", "leased_until")),
    "billing_events": ("next_at",),
    "billing_subscriptions": ("cancel_at", "check_at"),
    "billing_sweeps": ("one", "cursor", "due_at", "leased_until"),
    "siem_configurations": ("next_at", "lease", "leased_until"),
    "provisioning_connections": ("state", "stopped_why", "holder", "leased_until"),
    "hooks": ("since",),
}


class OutgoingWork(StrEnum):
    MAIL = "mail"
    DELIVERIES = "deliveries"
    BILLING = "billing"
    SIEM = "siem"
    PROVISIONING = "provisioning"
    HOOKS = "hooks"


class OutgoingCount(Frozen):
    """`waiting` includes what is `held`. Of deliveries, `held` counts those whose receiver is held. Of hooks, those in report-only mode
    are counted.
    """

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


async def enforced_hooks(conninfo: str) -> int:
    """How many hooks are asked whatever is held."""
    async with await Connection.connect(conninfo) as connection:
        row = await (await connection.execute("select count(*) from hooks where counts_as is not null", {})).fetchone()
        return 0 if row is None else int(str(row[0]))


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
    """Pauses the queued work that leaves this installation, such as mails and webhooks.

    Paused work is due at one distant time, `HELD_UNTIL`. Every claim asks for work that is due, so no actor takes paused work, and no claim
    costs more because work can be paused. A connection that provisions users to an application is stopped instead. A hook in report-only
    mode is not called. A webhook, an application that gets logout tokens and a SIEM export are paused as a whole: what is added for them
    later waits, too. Mail that is queued later goes out, because users wait for it.

    Holds what waits. All of it or nothing. May be repeated.
    """
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
        # The processes that serve sleep until what they believe to be due.
        await connection.execute(NOTIFY, {"channel": CHANNEL, "topics": [ANYTHING]})
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
        hold=tuple(f"update {table} set rests_until = %(until)s::timestamptz, lease = null, leased_until = null" for table in _RESTING),
        release=tuple(f"update {table} set rests_until = null where rests_until = %(until)s::timestamptz" for table in _RESTING),
        held=" union all ".join(f"select from {table} where rests_until = %(until)s::timestamptz" for table in _RESTING),
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
                        union all
                       select signal_streams.rests_until
                         from webhook_deliveries
                         join signal_streams on signal_streams.id = webhook_id
                        where next_at is not null
                        union all
                       select signal_streams.rests_until
                         from logout_notices
                         join signal_streams on signal_streams.id = logout_notices.stream_id
                        where tell_at is not null
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
    # The state holds it: what an owner presses meanwhile would empty a time. An owner who makes it active again lets it go, too.
    OutgoingWork.PROVISIONING: _Statements(
        hold=(
            """
            update provisioning_connections
               set stopped_why = case state when 'ending' then 'restored_ending' else 'restored' end,
                   state = 'stopped', holder = null, leased_until = null
             where state in ('active', 'ending')
            """,
        ),
        release=(
            """
            update provisioning_connections
               set state = case stopped_why when 'restored_ending' then 'ending' else 'active' end, stopped_why = null
             where state = 'stopped' and stopped_why in ('restored', 'restored_ending')
            """,
        ),
        held="select from provisioning_connections where state = 'stopped' and stopped_why in ('restored', 'restored_ending')",
        count="""
            select count(*), count(*) filter (where state = 'stopped')
              from provisioning_connections
             where state in ('active', 'ending') or (state = 'stopped' and stopped_why in ('restored', 'restored_ending'))
        """,
    ),
    # A hook that counts is held, too, and asked all the same: nobody comes in whom its owner keeps out. Whoever puts it into report-only
    # mode in a copy ends its questions. `updated_at` is when it was changed last, as `since` was.
    OutgoingWork.HOOKS: _Statements(
        hold=("update hooks set since = %(until)s::timestamptz where since <> %(until)s::timestamptz",),
        release=("update hooks set since = updated_at where since = %(until)s::timestamptz",),
        held="select from hooks where since = %(until)s::timestamptz",
        count="select count(*), count(*) filter (where since = %(until)s::timestamptz) from hooks where counts_as is null",
    ),
}


_MADE: Final = re.compile(
    r"^create (?:or replace )?(?:unlogged )?(?:unique )?(?P<kind>table|view|index|function|trigger) (?:concurrently )?"
    r"(?P<name>\w+)(?P<rest>[^;]*)",
    re.MULTILINE,
)
# A migration that takes a part away, or gives it another name, does so before it makes parts.
_GONE: Final = re.compile(r"^drop (?P<kind>table|view|index|function|trigger) (?:concurrently )?(?:if exists )?(?P<name>\w+)", re.MULTILINE)
_RENAMED: Final = re.compile(r"^alter (?P<kind>table|index) (?P<name>\w+) rename to (?P<now>\w+);", re.MULTILINE)
_KEYED: Final = re.compile(r"\bprimary key\b")
_PARTED: Final = re.compile(r"^create table (?P<name>\w+) \((?:\n .*)*\n\) partition by", re.MULTILINE)


class _Needed(Frozen):
    """A rule about the `table`. The statement looks at up to `most` of the newest rows that need others, and counts those that lack
    them.
    """

    table: str
    sentence: str
    statement: LiteralString


async def missing_parts(conninfo: str) -> Sequence[str]:
    """The tables, views, indexes, functions and triggers of this program's schema that the database lacks, such as `table relations`.

    A restore that failed half-way leaves such gaps, and the server starts nevertheless.
    """
    async with await Connection.connect(conninfo) as connection:
        rows = await (await connection.execute(_THERE)).fetchall()
    there = {str(row[0]) for row in rows}
    return [part for part in _expected() if part not in there]


async def missing_rows(conninfo: str, most: int | None = None) -> Mapping[str, str]:
    """One sentence for each table whose rows others need, and that lacks some. `most` bounds the rows that are looked at; without it, all
    are. Needs a whole schema.
    """
    found: dict[str, str] = {}
    async with await Connection.connect(conninfo) as connection:
        if most is None:
            await connection.execute("select set_config('statement_timeout', '0', false)")
        for one in _NEEDED:
            row = await (await connection.execute(one.statement, {"most": most})).fetchone()
            if row is not None and row[0]:
                found[one.table] = one.sentence.format(row[0])
    return found


@cache
def _expected() -> Sequence[str]:
    made = dict.fromkeys(("table schema_migrations", "index schema_migrations_pkey", f"function {MARK}"))
    for migration in shipped():
        for gone in _GONE.finditer(migration.sql):
            made.pop(f"{gone['kind']} {gone['name']}", None)
        for renamed in _RENAMED.finditer(migration.sql):
            made.pop(f"{renamed['kind']} {renamed['name']}", None)
            made[f"{renamed['kind']} {renamed['now']}"] = None
        made |= dict.fromkeys(_parts(migration.sql))
    # A migration that drops one of several functions of a name says no more than the name.
    made |= dict.fromkeys(_parts(shipped_views_and_functions().sql))
    return tuple(made)


def _parts(schema: str) -> Iterator[str]:
    for made in _MADE.finditer(schema):
        yield f"{made['kind']} {made['name']}"
        if made["kind"] == "table" and _KEYED.search(made["rest"]):
            yield f"index {made['name']}_pkey"
    for parted in _PARTED.finditer(schema):
        # The parts stand in a schema of their own, which a dump of `public` alone leaves out. Without parts, the table takes no row.
        yield f"table {parted['name']}_rest"


# An index that is not valid does nothing.
_THERE: Final = """
    select case when relkind in ('r', 'p') then 'table ' when relkind = 'v' then 'view ' else 'index ' end || relname
      from pg_class
      left join pg_index on indexrelid = pg_class.oid
     where (relnamespace = 'public'::regnamespace or relispartition and relkind = 'r') and relkind in ('r', 'p', 'v', 'i', 'I')
       and coalesce(indisvalid, true)
     union all
    select 'function ' || proname from pg_proc where pronamespace = 'public'::regnamespace
     union all
    select 'trigger ' || tgname
      from pg_trigger
      join pg_class on pg_class.oid = tgrelid
     where relnamespace = 'public'::regnamespace and not tgisinternal
"""

_NEEDED: Final = (
    _Needed(
        "tiers",
        "no tier is there, and every organization has one",
        "select case when exists (select from tiers) then 0 else 1 end",
    ),
    _Needed(
        "memberships",
        "{} organizations count members, and have no memberships",
        """
        select count(*)
          from (select id, member_count from all_organizations where deleted_at is null order by id desc limit %(most)s) as looked
         where member_count > 0 and not exists (select from memberships where memberships.org_id = looked.id)
        """,
    ),
    _Needed(
        "relations",
        "{} members stand in no relation to their organization, so they may do nothing there",
        """
        select count(*)
          from (select org_id, user_id from memberships order by id desc limit %(most)s) as looked
         where not exists (
                   select
                     from relations
                    where relations.user_id = looked.user_id and relations.organization_id = looked.org_id
                      and relations.object_type in ('organization', 'role')
               )
        """,
    ),
    _Needed(
        "service_users",
        "{} services count users, and have none",
        """
        select count(*)
          from (select id, user_count from all_services where deleted_at is null order by id desc limit %(most)s) as looked
         where user_count > 0 and not exists (select from service_users where service_users.service_id = looked.id)
        """,
    ),
    _Needed(
        "mfa_secrets",
        "{} people have backup codes and no second factor, so their password alone lets them in",
        """
        select count(*)
          from (select distinct user_id
                  from (select user_id from backup_codes order by user_id desc limit %(most)s) as looked) as people
         where not exists (select from mfa_secrets where mfa_secrets.user_id = people.user_id)
           and not exists (
                   select from passkeys where passkeys.user_id = people.user_id and passkeys.second_factor_since is not null
               )
        """,
    ),
    _Needed(
        "refresh_tokens",
        "{} open sessions have neither a refresh token nor a cookie, so they end within minutes",
        """
        select count(*)
          from (select *
                  from sessions
                 order by id desc
                 limit %(most)s) as looked
         where revoked_at is null and expires_at > now() and ends_at > now()
           and service_id is null and parent_id is null and impersonator_id is null and scopes is null
           and not exists (select from browser_sessions where browser_sessions.session_id = looked.id)
           and not exists (select from refresh_tokens where refresh_tokens.session_id = looked.id and rotated_at is null)
        """,
    ),
    _Needed(
        "signing_keys",
        "{} of the kinds of signing keys have no key in force, so nobody can sign in",
        """
        select case when exists (select from signing_keys) or exists (select from users)
                    then 2 - (select count(*) from signing_keys where state = 'current' and purpose in ('access', 'id'))
                    else 0
               end
        """,
    ),
    _Needed(
        "server_secrets",
        "the secret of the audit chains is missing, so nobody can verify them",
        """
        select case when exists (select from audit_links) and not exists (select from server_secrets where purpose = 'audit_chain')
                    then 1
                    else 0
               end
        """,
    ),
    _Needed(
        "audit_entries",
        "{} audit entries wait to be linked, and are not there",
        """
        select count(*)
          from (select entry_id from audit_pending order by entry_id desc limit %(most)s) as looked
         where not exists (select from audit_entries where audit_entries.id = looked.entry_id)
        """,
    ),
    _Needed(
        "events",
        "{} deliveries wait whose event is missing",
        """
        select count(*)
          from (select event_id from webhook_deliveries where next_at is not null limit %(most)s) as looked
         where not exists (select from events where events.id = looked.event_id)
        """,
    ),
    _Needed(
        "pictures",
        "{} people have a picture that is missing",
        """
        select count(*)
          from (select picture_id from users order by id desc limit %(most)s) as looked
         where picture_id is not null and not exists (select from pictures where pictures.id = looked.picture_id)
        """,
    ),
)
