"""What deleted organizations leave behind in PostgreSQL, taken away in batches.

A batch begins after the last row of the one before, and not at the first that is left: while a long transaction elsewhere keeps deleted
rows from being cleaned up, each batch would have to step over all that went before it. Its rows are locked in the order of their ids, as
whoever else touches several of them does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.pool import Pool
from adapters.postgres.statements import ask
from core.domain.identifiers import OrganizationId
from core.domain.organizations import PURGE_JOB
from ports.organizations import Swept


class PostgresOrganizationRemains:
    """Implements `ports.organizations.OrganizationRemains`."""

    parts: Sequence[str]

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.parts = tuple(PARTS)

    async def sweep(self, part: str, organization: OrganizationId, after: UUID | None, limit: int) -> Swept:
        parameters = {"organization": organization, "after": after or _BEFORE_ALL, "limit": limit}
        (swept,) = await ask(self._pool, Swept, PARTS[part], parameters)
        return swept

    async def finish(self, organization: OrganizationId) -> bool:
        return bool(await ask(self._pool, _Identity, _FINISH, {"organization": organization}))

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[OrganizationId]:
        rows = await ask(self._pool, _Identity, _STRANDED, {"kind": PURGE_JOB, "patience": patience, "limit": limit})
        return [OrganizationId(row.id) for row in rows]


@dataclass(frozen=True, slots=True)
class _Identity:
    id: UUID


_BEFORE_ALL: Final = UUID(int=0)

# Null for an organization that lives: then no statement here finds a row.
_GOING: Final = "(select id from all_organizations where id = %(organization)s and deleted_at is not null)"

# A batch that a crash of the server undoes is swept once more: nobody waits for the disk on its account, least of all the other tenants.
_AT_LEISURE: Final = "set_config('synchronous_commit', 'off', true) = 'off'"

_SWEPT: Final = f"""
        select (select id from batch order by id desc limit 1) as last, (select count(*) from gone) as rows
         where {_AT_LEISURE}"""


def _rows_of(table: LiteralString, organization: LiteralString) -> LiteralString:
    """Of a table whose rows have an id, and an index by organization and id or few of them to an organization."""
    return f"""
        with batch as (
                 select id
                   from {table}
                  where {organization} = {_GOING} and id > %(after)s
                  order by id
                  limit %(limit)s
                    for update
             ),
             gone as (delete from {table} using batch where {table}.id = batch.id returning 1)
        {_SWEPT}"""


# The sessions first, so that whoever is signed in there is not asked about a membership that is going.
PARTS: Final[Mapping[str, LiteralString]] = {
    "sessions": _rows_of("sessions", "organization_id"),
    "preauthentications": _rows_of("preauthentications", "organization_id"),
    "memberships": f"""
        with batch as (
                 select user_id as id
                   from memberships
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
                    for update
             ),
             unrelated as (
                 delete from relations using batch where relations.user_id = batch.id and relations.organization_id = %(organization)s
             ),
             gone as (
                 delete from memberships
                  using batch
                  where memberships.user_id = batch.id and memberships.org_id = %(organization)s
              returning 1
             )
        {_SWEPT}""",
    "invitations": _rows_of("invitations", "org_id"),
    "roles": _rows_of("roles", "org_id"),
    "service_users": f"""
        with batch as (
                 select distinct user_id as id
                   from service_users
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
             ),
             gone as (
                 delete from service_users
                  using batch
                  where service_users.user_id = batch.id and service_users.org_id = %(organization)s
              returning 1
             )
        {_SWEPT}""",
    "services": _rows_of("services", "org_id"),
    "events": _rows_of("events", "organization_id"),
    # They are their people's, whose habits are read from them.
    "login_events": f"""
        with batch as (
                 select id
                   from login_events
                  where organization_id = {_GOING} and id > %(after)s
                  order by id
                  limit %(limit)s
                    for update
             ),
             gone as (
                 update login_events set organization_id = null, service_id = null from batch where login_events.id = batch.id returning 1
             )
        {_SWEPT}""",
    # The entries stay: nobody gets rid of what is on record by deleting the organization. Who they are about is nobody's business any more.
    # In the order of their index, which begins with the time.
    "audit_personal": f"""
        with begin as (
                 select coalesce((select created_at from audit_entries where id = %(after)s), '-infinity') as created_at
             ),
             batch as (
                 select id, created_at
                   from audit_entries
                  where organization_id = {_GOING} and (created_at, id) > ((select created_at from begin), %(after)s)
                  order by created_at, id
                  limit %(limit)s
             ),
             gone as (delete from audit_personal using batch where audit_personal.entry_id = batch.id returning 1)
        select (select id from batch order by created_at desc, id desc limit 1) as last, (select count(*) from gone) as rows
         where {_AT_LEISURE}
    """,
}

# What was written into it since its part went, or by a later release that knows more parts, goes with it by its foreign keys.
_FINISH: Final = "delete from all_organizations where id = %(organization)s and deleted_at is not null returning id"

_STRANDED: Final = """
    select id
      from all_organizations
     where deleted_at < now() - %(patience)s::interval
       and not exists (
               select from jobs
                where jobs.kind = %(kind)s and jobs.state = 'waiting' and jobs.payload ->> 'organization' = all_organizations.id::text
           )
     order by deleted_at
     limit %(limit)s
"""
