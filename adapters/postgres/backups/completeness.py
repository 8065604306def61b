"""What a database lacks, judged by itself: parts of the schema, and rows that other rows need. A restore that failed half-way leaves such
gaps, and the server starts nevertheless.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, LiteralString

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import shipped, shipped_views_and_functions
from adapters.postgres.migrating.replaceable import MARK
from core.frozen import Frozen

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
    """The tables, views, indexes, functions and triggers of this program's schema that the database lacks, such as `table relations`."""
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
