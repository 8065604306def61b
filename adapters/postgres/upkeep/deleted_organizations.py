"""Removes the rows of deleted organizations from PostgreSQL."""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
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


_USERS: Final[LiteralString] = f"""
                 select distinct user_id as id
                   from service_users
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
"""

# Sessions go first, so that a person who is signed in there never sees a membership that is half deleted.
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
                 delete from relations using batch where relations.user_id = batch.id and relations.organization_id = %(owner)s
             ),
             gone as (
                 delete from memberships
                  using batch
                  where memberships.user_id = batch.id and memberships.org_id = %(owner)s
              returning 1
             )
        {SWEPT}""",
    "provisioned_users": _people_of("provisioned_users"),
    # The accounts belong to their people now.
    "users_of_origin": _released("origin_org_id", "origin_org_id = null"),
    # Nobody is left who could let these people in again, so their accounts become active. A deactivation by the platform does not name the
    # organization, and stays.
    "users_deactivated": _released("deactivated_by_org_id", "deactivated_at = null, deactivated_by_org_id = null, updated_at = now()"),
    "management_keys": _rows_of("management_keys", "org_id"),
    "setup_drafts": _rows_of("setup_drafts", "org_id"),
    "setup_links": _rows_of("setup_links", "org_id"),
    "scim_tokens": _rows_of("scim_tokens", "org_id"),
    "scim_exchanges": _rows_of("scim_exchanges", "org_id"),
    "scim_groups": f"""
        with batch as (
                 select org_id as id from scim_groups where org_id = {_GOING} and org_id > %(after)s limit %(limit)s for update
             ),
             gone as (delete from scim_groups using batch where scim_groups.org_id = batch.id returning 1)
        {SWEPT}""",
    "invitations": _rows_of("invitations", "org_id"),
    # Memberships took the members of teams with them. Teams refer to roles, so they go first.
    "teams": _rows_of("teams", "org_id"),
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
    "roles": _rows_of("roles", "org_id"),
    "profile_values": _people_of("profile_values"),
    "profile_fields": _rows_of("all_profile_fields", "org_id"),
    "service_users": f"""
        with batch as ({held(_USERS, "service_users", "service_users.user_id = next.id and org_id = %(owner)s order by service_id")}),
             gone as (
                 delete from service_users
                  using batch
                  where service_users.user_id = batch.id and service_users.org_id = %(owner)s and batch.held
              returning 1
             )
        {SWEPT}""",
    **parts_of_services(f"(select id from all_services where org_id = {_GOING})"),
    "services": _rows_of("all_services", "org_id"),
    # For all webhooks of the organization together: it has few webhooks, and each has an index of its own deliveries.
    "webhook_deliveries": _rows_of_each("webhook_deliveries", "webhook_id", "webhooks"),
    "webhooks": _rows_of("webhooks", "org_id"),
    **{
        table: _rows_of(table, "org_id")
        for table in ("mail_servers", "logos", "domains", "oauth_credentials", "domain_routes", "join_requests")
    },
    "identities": _rows_of_each("identities", "upstream_provider_id", "upstream_providers"),
    **{
        table: _rows_of_each(table, "upstream_provider_id", "upstream_providers")
        for table in ("connection_answers", "connection_tests", "connection_exchanges")
    },
    # After the routes, because they refer to the providers.
    "upstream_providers": _rows_of("upstream_providers", "org_id"),
    "former_members": _people_of("former_members"),
    # The numbered entries of this export belong to nobody from then on. The janitor removes these.
    "siem_configurations": _rows_of("siem_configurations", "org_id"),
    "billing_customers": _rows_of("billing_customers", "org_id"),
    "former_services": _rows_of("former_services", "org_id"),
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
    "events": _rows_of("events", "organization_id"),
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
