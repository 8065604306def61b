"""Makes services with their users and API keys. PostgreSQL makes the rows, in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from psycopg import sql

from ops.bench.filling.fill import NO_TRIGGERS, TRIGGERS, growing, without_indexes, without_triggers


@dataclass(frozen=True, slots=True)
class Customer:
    """A user of a service, and one of its API keys, with every permission for users."""

    service: UUID
    user: UUID
    key: str


@dataclass(frozen=True, slots=True)
class Size:
    services: int
    users: int
    """How many users there are. All of them use the first service; each other service has an even share."""
    keys: int
    """How many keys all services have together. Each service has an even share, and at most a thousand."""


def grow_services(database_url: str, size: Size) -> Sequence[Customer]:
    """Adds these numbers of rows, with ten services to an organization. Returns up to ten thousand of the users, from the whole range, with
    the services and their keys in rotation. The first one uses the first service.
    """
    parameters = {
        "services": size.services,
        "users": size.users,
        "keys": size.keys,
        "organizations": -(-size.services // 10),
        "keys_each": max(1, size.keys // size.services),
        # This number has no common factor with a round number of services.
        "step": size.users // 10_000 + 1,
    }
    with growing(database_url) as connection:
        with without_indexes(connection, _TABLES), without_triggers(connection):
            for statement in _GROW:
                connection.execute(statement, parameters)
        settled = (*_TABLES, "service_user_marks")
        connection.execute(sql.SQL("vacuum analyze {}").format(sql.SQL(", ").join(map(sql.Identifier, settled))))
        rows = connection.execute(_SOME, parameters).fetchall()
        connection.execute("drop table grown_services, grown_users, grown_keys")
    return [Customer(*row) for row in rows]


_TABLES: Final = ("users", "all_organizations", "all_services", "plans", "service_users", "api_keys")

# User n is one of service n modulo services; user n owns organization n. Ids follow the time, as the product's do.
_GROW: Final[Sequence[LiteralString]] = (
    """
    create unlogged table grown_users as
    select number, age, uuidv7(-age) as id, 'customer-' || number || '@scale.test' as email
      from generate_series(0, %(users)s - 1) as series (number),
   lateral (select interval '180 days' * (1 - number::double precision / %(users)s) as age) as ages
    """,
    """
    create unlogged table grown_services as
    select number, interval '200 days' as age, uuidv7(interval '-200 days') as id, organization
      from generate_series(0, %(services)s - 1) as series (number)
      join (
               select number, uuidv7(interval '-200 days') as organization from generate_series(0, %(organizations)s - 1) as series (number)
           ) as organizations (place, organization) on place = number / 10
    """,
    "analyze grown_users, grown_services",
    """
    insert into users (id, email, email_key, email_verified_at, created_at, updated_at)
    select id, email, email, now() - age, now() - age, now() - age from grown_users
    """,
    """
    insert into all_organizations (id, slug, name, status, tier_id, owner_user_id, approved_at, created_at, updated_at)
    select organization, 'keyed-' || grown_services.number / 10, 'Keyed', 'active', tiers.id, grown_users.id, now() - grown_services.age,
           now() - grown_services.age, now() - grown_services.age
      from grown_services
      join grown_users on grown_users.number = grown_services.number / 10 %% %(users)s
      join tiers on tiers.name = 'professional'
     where grown_services.number %% 10 = 0
    """,
    """
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select id, organization, 'shop-' || number, 'Shop', 'web', gen_random_uuid(), now() - age, now() - age from grown_services
    """,
    """
    insert into plans (id, service_id, name, key, price_cents, currency, created_at, updated_at)
    select uuidv7(-age), id, 'Free', 'free', 0, 'usd', now() - age, now() - age from grown_services
    """,
    # One trigger counts and marks all rows of a statement.
    TRIGGERS,
    """
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
    select grown_services.id, grown_users.id, grown_services.organization, now() - grown_users.age, now() - grown_users.age / 2,
           now() - grown_users.age, now() - grown_users.age
      from grown_users
      join grown_services on grown_services.number = grown_users.number %% %(services)s
    """,
    """
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
    select grown_services.id, grown_users.id, grown_services.organization, now() - grown_users.age, now() - grown_users.age / 2,
           now() - grown_users.age, now() - grown_users.age
      from grown_users
      join grown_services on grown_services.number = 0
     where grown_users.number %% %(services)s > 0
    """,
    NO_TRIGGERS,
    """
    create unlogged table grown_keys as
    select series.number, grown_services.number as service, uuidv7(-grown_services.age / 2) as id, grown_services.id as service_id,
           'sk_' || lpad(to_hex(series.number), 6, '0') as prefix,
           'sk_' || lpad(to_hex(series.number), 6, '0') || '_' || replace(gen_random_uuid()::text || gen_random_uuid(), '-', '') as text
      from generate_series(0, %(keys)s - 1) as series (number)
      join grown_services on grown_services.number = series.number %% %(services)s
    """,
    """
    insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)
    select grown_keys.id, grown_keys.service_id, 'Backend', prefix, sha256(convert_to(text, 'UTF8')),
           '{read:users,write:users,delete:users}', owner_user_id, now() - interval '100 days'
      from grown_keys
      join all_services on all_services.id = grown_keys.service_id
      join all_organizations on all_organizations.id = all_services.org_id
    """,
    "analyze grown_keys",
)

_SOME: Final = """
    select grown_services.id, grown_users.id, grown_keys.text
      from grown_users
      join grown_services on grown_services.number = grown_users.number %% %(services)s
      join grown_keys
        on grown_keys.number = grown_services.number + %(services)s * ((grown_users.number / %(services)s) %% %(keys_each)s)
     where grown_users.number %% %(step)s = 0
     order by grown_users.number
     limit 10000
"""
