"""Removes the rows of deleted organizations from PostgreSQL."""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.accounts import LIFTED
from adapters.postgres.tables.declaring import ENTRY, ORGANIZATION, OWN_ORGANIZATION, PROVIDER, WEBHOOK, Ends, Table, Whose
from adapters.postgres.tables.every import TABLES
from adapters.postgres.upkeep.deleted_rows import AT_LEISURE, SWEPT, PostgresDeletedRows, held
from adapters.postgres.upkeep.deleted_services import parts_of_services
from core.domain.tenancy.organizations import PURGE_JOB


class PostgresDeletedOrganizations(PostgresDeletedRows):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, PARTS, table="all_organizations", job=PURGE_JOB, named="organization")


# Null for an organization that is not being deleted: then no statement here finds a row.
_GOING: Final = "(select id from all_organizations where id = %(owner)s and deleted_at is not null)"


def _rows_of(table: LiteralString, organization: LiteralString) -> LiteralString:
    """Deletes from a table whose rows have an id, and either an index by organization and id or only a few rows for each organization."""
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
        {SWEPT}"""


def _rows_of_each(table: LiteralString, column: LiteralString, owners: LiteralString) -> LiteralString:
    """Deletes from a table whose rows belong to one of the few `owners` of the organization, with an index by owner and id."""
    rows: LiteralString = f"""
                 select rows.id
                   from {owners}
                  cross join lateral (
                            select id from {table} where {column} = {owners}.id and id > %(after)s order by id limit %(limit)s
                        ) as rows
                  where {owners}.org_id = {_GOING}
                  order by rows.id
                  limit %(limit)s
    """
    return f"""
        with batch as ({held(rows, table, f"{table}.id = next.id")}),
             gone as (delete from {table} using batch where {table}.id = batch.id and batch.held returning 1)
        {SWEPT}"""


def _released(column: LiteralString, change: LiteralString) -> LiteralString:
    """Releases accounts that the organization created, or that its directory has deactivated."""
    return f"""
        with batch as (
                 select id
                   from users
                  where {column} = {_GOING} and id > %(after)s
                  order by id
                  limit %(limit)s
                    for no key update
             ),
             gone as (update users set {change} from batch where users.id = batch.id returning 1)
        {SWEPT}"""


def _people_of(table: LiteralString) -> LiteralString:
    """Deletes from a table with one row for each organization and person."""
    return f"""
        with batch as (
                 select user_id as id
                   from {table}
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
                    for update
             ),
             gone as (
                 delete from {table} using batch where {table}.user_id = batch.id and {table}.org_id = %(owner)s returning 1
             )
        {SWEPT}"""


def _one_of(table: LiteralString) -> LiteralString:
    """Deletes from a table with one row for each organization."""
    return f"""
        with batch as (
                 select org_id as id from {table} where org_id = {_GOING} and org_id > %(after)s limit %(limit)s for update
             ),
             gone as (delete from {table} using batch where {table}.org_id = batch.id returning 1)
        {SWEPT}"""


_USERS: Final[LiteralString] = f"""
                 select distinct user_id as id
                   from service_users
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
"""

_OWN: Final[Mapping[str, LiteralString]] = {
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
                 delete from relations using batch where relations.user_id = batch.id and relations.organization_id = %(owner)s
             ),
             gone as (
                 delete from memberships
                  using batch
                  where memberships.user_id = batch.id and memberships.org_id = %(owner)s
              returning 1
             )
        {SWEPT}""",
    # These rows have no id, and an organization has few enough for each batch to begin at the first.
    "former_slugs": f"""
        with batch as (
                 select org_id as id, noun, slug
                   from former_slugs
                  where org_id = {_GOING} and service_id is null and %(after)s::uuid is not null
                  order by noun, slug
                  limit %(limit)s
                    for update
             ),
             gone as (
                 delete from former_slugs
                  using batch
                  where former_slugs.org_id = batch.id and former_slugs.service_id is null
                    and (former_slugs.noun, former_slugs.slug) = (batch.noun, batch.slug)
              returning 1
             )
        {SWEPT}""",
    "managed_objects": f"""
        with batch as (
                 select org_id as id, service, kind, name
                   from managed_objects
                  where org_id = {_GOING} and %(after)s::uuid is not null
                  order by service, kind, name
                  limit %(limit)s
                    for update
             ),
             gone as (
                 delete from managed_objects
                  using batch
                  where managed_objects.org_id = batch.id
                    and (managed_objects.service, managed_objects.kind, managed_objects.name) = (batch.service, batch.kind, batch.name)
              returning 1
             )
        {SWEPT}""",
    "service_users": f"""
        with batch as ({held(_USERS, "service_users", "service_users.user_id = next.id and org_id = %(owner)s order by service_id")}),
             gone as (
                 delete from service_users
                  using batch
                  where service_users.user_id = batch.id and service_users.org_id = %(owner)s and batch.held
              returning 1
             )
        {SWEPT}""",
    # These sign-ins still count for the platform.
    "uncounted_logins": f"""
        with batch as (
                 select id from uncounted_logins where organization_id = {_GOING} and id > %(after)s order by id limit %(limit)s for update
             ),
             gone as (
                 update uncounted_logins
                    set organization_id = null, service_id = null
                   from batch
                  where uncounted_logins.id = batch.id
              returning 1
             )
        {SWEPT}""",
    # The rows have no ids, and no process adds to these rows any more. So a batch deletes any rows that it finds.
    "login_counts": f"""
        with gone as (
                 delete from login_counts
                  where ctid = any (array(select ctid from login_counts where org_id = {_GOING} limit %(limit)s))
              returning org_id
             )
        select (select org_id from gone limit 1) as last, (select count(*) from gone) as rows
         where {AT_LEISURE}
    """,
    # The sign-ins belong to the people: the risk of a person's next sign-in depends on them.
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
        {SWEPT}""",
    # The entries stay, because deleting an organization must not remove the record. Only their personal parts are removed, in the order of
    # their index, which begins with the time.
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
             held as (
                 select entry_id from audit_personal join batch on batch.id = audit_personal.entry_id
                  order by entry_id
                    for update of audit_personal
             ),
             gone as (delete from audit_personal using held where audit_personal.entry_id = held.entry_id returning 1)
        select (select id from batch order by created_at desc, id desc limit 1) as last, (select count(*) from gone) as rows
         where {AT_LEISURE}
    """,
}

_ACCOUNTS: Final[Mapping[str, LiteralString]] = {
    # The accounts belong to their people now.
    "users_of_origin": _released("origin_org_id", "origin_org_id = null"),
    # Nobody is left who could let these people in again, so their accounts become active, or locked again. A deactivation by the platform
    # does not name the organization, and stays.
    "users_deactivated": _released("deactivated_by_org_id", f"{LIFTED}, updated_at = now()"),
}


def _statement(table: Table) -> LiteralString:
    name, whose = table.name, table.whose
    if name in _OWN:
        return _OWN[name]
    if table.ends is Ends.PEOPLE:
        return _people_of(name)
    if table.ends is Ends.ONE:
        return _one_of(name)
    return _rows_of(name, whose.column) if whose in _ORGANIZATIONS else _rows_of_each(name, whose.column, whose.owners)


def _parts(*owners: Whose) -> Mapping[str, LiteralString]:
    return {
        table.name.removeprefix("all_"): _statement(table)
        for table in TABLES.values()
        if table.whose in owners and (table.ends in {Ends.ROWS, Ends.PEOPLE, Ends.ONE} or table.name in _OWN)
    }


_ORGANIZATIONS: Final = (ORGANIZATION, OWN_ORGANIZATION)

# Sessions go first, so that a person who is signed in there never sees a membership that is half deleted. Memberships take the members of
# teams with them. What belongs to a thing of the organization goes before the thing; the rest is in the order in which the tables are
# declared.
PARTS: Final[Mapping[str, LiteralString]] = {
    **{name: _statement(TABLES[name]) for name in ("sessions", "preauthentications", "memberships")},
    **parts_of_services(f"(select id from all_services where org_id = {_GOING})"),
    **_parts(PROVIDER, WEBHOOK),
    **_parts(*_ORGANIZATIONS, ENTRY),
    **_ACCOUNTS,
}
