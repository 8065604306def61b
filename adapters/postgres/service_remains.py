"""What deleted services leave behind in PostgreSQL."""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.pool import Pool
from adapters.postgres.remains import SWEPT, PostgresRemains
from core.domain.services import PURGE_JOB


class PostgresServiceRemains(PostgresRemains):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, PARTS, table="all_services", job=PURGE_JOB, named="service")


# Empty for a service that lives: then no statement here finds a row.
_GOING: Final = "(select id, org_id from all_services where id = %(owner)s and deleted_at is not null)"


def _batch(services: LiteralString, rows: LiteralString) -> LiteralString:
    """The next ids of all these services' together. `rows` finds those of one, `going`, after `after`: in an index that begins with the
    service and ends with the id, or among few. They are locked in the order of their ids, as whoever else touches several of them does.
    """
    return f"""
             select rows.id
               from {services} as going
              cross join lateral ({rows} limit %(limit)s for update) as rows
              order by rows.id
              limit %(limit)s
    """


def _delete(services: LiteralString, table: LiteralString, rows: LiteralString) -> LiteralString:
    return f"""
        with batch as ({_batch(services, rows)}),
             gone as (delete from {table} using batch where {table}.id = batch.id returning 1)
        {SWEPT}"""


def _delete_from(services: LiteralString, table: LiteralString) -> LiteralString:
    return _delete(services, table, f"select id from {table} where service_id = going.id and id > %(after)s order by id")


def parts_of_services(services: LiteralString) -> Mapping[str, LiteralString]:
    """What hangs on these services and on nothing else that goes. They are a subquery with their ids."""
    return {
        # Of each plan on its own: together they would be sorted again for every batch.
        "subscriptions": _delete(
            services,
            "subscriptions",
            """
            select subscriptions.id
              from plans
             cross join lateral (
                       select id from subscriptions where plan_id = plans.id and id > %(after)s order by id limit %(limit)s for update
                   ) as subscriptions
             where plans.service_id = going.id
             order by subscriptions.id
            """,
        ),
        "plans": _delete_from(services, "plans"),
        "api_keys": _delete_from(services, "api_keys"),
        "client_secrets": _delete_from(services, "client_secrets"),
        # Accounts that came to be through it stay: they are their people's.
        "origins": f"""
        with batch as ({_batch(services, "select id from users where origin_service_id = going.id and id > %(after)s order by id")}),
             gone as (update users set origin_service_id = null from batch where users.id = batch.id returning 1)
        {SWEPT}""",
    }


# The sessions first, so that whoever is signed in there is not asked about anything that is going.
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
             ),
             gone as (
                 delete from service_users
                  using batch
                  where service_users.user_id = batch.id and service_users.service_id = %(owner)s
              returning 1
             )
        {SWEPT}""",
    # They are their people's, whose habits are read from them, and the organization's. All of hers are gone through: no index has those of
    # one service by their ids, and none is worth having for this.
    "login_events": f"""
        with batch as (
                 select id, service_id
                   from login_events
                  where organization_id = (select org_id from {_GOING} as going) and id > %(after)s
                  order by id
                  limit %(limit)s
             ),
             gone as (
                 update login_events
                    set service_id = null
                   from batch
                  where login_events.id = batch.id and batch.service_id = %(owner)s
              returning 1
             )
        {SWEPT}""",
}
