"""Removes the rows of deleted services from PostgreSQL."""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.tables.declaring import SERVICE, Ends
from adapters.postgres.tables.every import TABLES
from adapters.postgres.upkeep.deleted_rows import SWEPT, PostgresDeletedRows, held
from core.domain.services.services import PURGE_JOB


class PostgresDeletedServices(PostgresDeletedRows):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, PARTS, table="all_services", job=PURGE_JOB, named="service")


# Empty for a service that is not being deleted: then no statement here finds a row.
_GOING: Final = "(select id, org_id from all_services where id = %(owner)s and deleted_at is not null)"


def _batch(services: LiteralString, table: LiteralString, column: LiteralString, rows: LiteralString) -> LiteralString:
    """The next ids of all these services together. `rows` finds the rows of one service, `going`, that come after `after`. It reads an
    index that begins with the service and ends with the id, or only few rows.
    """
    found: LiteralString = f"""
                        select going.id as service, rows.id
                          from {services} as going
                         cross join lateral ({rows} limit %(limit)s) as rows
                         order by rows.id
                         limit %(limit)s
    """
    return held(found, table, f"{table}.id = next.id and {table}.{column} = next.service")


def _delete(services: LiteralString, table: LiteralString, rows: LiteralString) -> LiteralString:
    return f"""
        with batch as ({_batch(services, table, "service_id", rows)}),
             gone as (delete from {table} using batch where {table}.id = batch.id and batch.held returning 1)
        {SWEPT}"""


def _delete_from(services: LiteralString, table: LiteralString) -> LiteralString:
    return _delete(services, table, f"select id from {table} where service_id = going.id and id > %(after)s order by id")


_ORIGINS: Final = "select id from users where origin_service_id = going.id and id > %(after)s order by id"
_APIS: Final = "select id from resource_servers where service_id = going.id and id > %(after)s order by id"


def _one_of_each(services: LiteralString, table: LiteralString) -> LiteralString:
    """Deletes from a table with one row for each service."""
    return f"""
        with batch as (
                 select {table}.service_id as id
                   from {table}
                   join {services} as going on going.id = {table}.service_id
                  where {table}.service_id > %(after)s
                  order by {table}.service_id
                  limit %(limit)s
                    for update of {table}
             ),
             gone as (delete from {table} using batch where {table}.service_id = batch.id returning 1)
        {SWEPT}"""


def parts_of_services(services: LiteralString) -> Mapping[str, LiteralString]:
    """The parts for rows that belong to these services and to nothing else that is deleted. `services` is a subquery with the services'
    ids.
    """
    derived = [table for table in TABLES.values() if table.whose == SERVICE]
    return {
        # Read for each plan separately. PostgreSQL would sort the subscriptions of all plans together again for every batch.
        "subscriptions": _delete(
            services,
            "subscriptions",
            """
            select subscriptions.id
              from plans
             cross join lateral (
                       select id from subscriptions where plan_id = plans.id and id > %(after)s order by id limit %(limit)s
                   ) as subscriptions
             where plans.service_id = going.id
             order by subscriptions.id
            """,
        ),
        "relations": _delete_from(services, "relations"),
        # These rows have no id, and a service has few enough for each batch to begin at the first.
        "former_slugs_of_services": f"""
        with batch as (
                 select former_slugs.service_id as id, noun, slug
                   from former_slugs
                   join {services} as going on going.id = former_slugs.service_id
                  where %(after)s::uuid is not null
                  order by former_slugs.service_id, noun, slug
                  limit %(limit)s
                    for update of former_slugs
             ),
             gone as (
                 delete from former_slugs
                  using batch
                  where former_slugs.service_id = batch.id and (former_slugs.noun, former_slugs.slug) = (batch.noun, batch.slug)
              returning 1
             )
        {SWEPT}""",
        # Accounts that were created through the service stay, because they belong to their people.
        "origins": f"""
        with batch as ({_batch(services, "users", "origin_service_id", _ORIGINS)}),
             gone as (update users set origin_service_id = null from batch where users.id = batch.id and batch.held returning 1)
        {SWEPT}""",
        # An API stays when the service that stands for it goes. Nobody holds the permissions that its scopes may need, from then on.
        "apis": f"""
        with batch as ({_batch(services, "resource_servers", "service_id", _APIS)}),
             gone as (
                 update resource_servers set service_id = null from batch where resource_servers.id = batch.id and batch.held returning 1
             )
        {SWEPT}""",
        # Those of management keys go with their keys.
        "trusted_issuers": _delete_from(services, "trusted_issuers"),
        **{table.name: _delete_from(services, table.name) for table in derived if table.ends is Ends.ROWS},
        **{table.name: _one_of_each(services, table.name) for table in derived if table.ends is Ends.ONE},
    }


_LOGINS: Final[LiteralString] = f"""
                 select id
                   from login_events
                  where organization_id = (select org_id from {_GOING} as going) and id > %(after)s
                  order by id
                  limit %(limit)s
"""

# Sessions go first, so that a person who is signed in there never sees anything that is half deleted.
PARTS: Final[Mapping[str, LiteralString]] = {
    "sessions": _delete_from(_GOING, "sessions"),
    "preauthentications": _delete_from(_GOING, "preauthentications"),
    **parts_of_services(_GOING),
    "service_users": f"""
        with batch as (
                 select service_users.user_id as id
                   from service_users
                   join {_GOING} as going on going.id = service_users.service_id
                  where service_users.user_id > %(after)s
                  order by service_users.user_id
                  limit %(limit)s
                    for update of service_users
             ),
             gone as (
                 delete from service_users
                  using batch
                  where service_users.user_id = batch.id and service_users.service_id = %(owner)s
              returning 1
             )
        {SWEPT}""",
    # The sign-ins belong to the people and to the organization: the risk of a person's next sign-in depends on them. This reads all rows of
    # the organization, because no index lists the rows of one service by id, and none is worth having for this.
    "login_events": f"""
        with batch as ({held(_LOGINS, "login_events", "id = next.id and service_id = %(owner)s", "no key update")}),
             gone as (
                 update login_events set service_id = null from batch where login_events.id = batch.id and batch.held returning 1
             )
        {SWEPT}""",
}
