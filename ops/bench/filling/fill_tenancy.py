"""Makes organizations with their people, roles, services, invitations and audit logs. PostgreSQL makes the rows, in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from adapters.postgres.record.audit import PERSONAL_DIGEST
from ops.bench.filling.chains import link_all
from ops.bench.filling.fill import NO_TRIGGERS, TRIGGERS, Person, growing, without_indexes, without_triggers
from ops.bench.filling.months import cut_past_months


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization, its owner with a live session, and one end user of its service."""

    id: UUID
    slug: str
    owner: Person
    end_user: UUID


@dataclass(frozen=True, slots=True)
class Size:
    organizations: int
    members: int
    """How many members each organization has, with the owner. They use its service, too."""
    audit_entries: int
    """How many entries all organizations have together, in even shares."""
    invitations: int = 10
    """How many invitations each organization has. They are pending, and not due."""
    sign_ins: int = 0
    """How many sign-ins to its own service all people have together, in even shares, over half a year."""
    made: int = 0
    """How many members of each organization another organization has made, besides its owner. They hold their accounts."""


def grow_tenancy(database_url: str, size: Size, name: str = "tenant", chains_key: bytes | None = None) -> Sequence[Tenant]:
    """Adds these numbers of rows. Slugs and addresses begin with the name. Returns up to five hundred of the organizations, from the whole
    range. With the key of the chains, somebody may verify the audit log; otherwise the digests are made up, in a fraction of the time.
    """
    parameters = {
        "name": name,
        "organizations": size.organizations,
        "members": size.members,
        "people": size.organizations * size.members,
        "invitations": size.organizations * size.invitations,
        "entries": size.audit_entries,
        "sign_ins": size.sign_ins,
        "made": size.made,
    }
    with growing(database_url) as connection:
        if size.sign_ins:
            cut_past_months(connection, "login_events", months=7)
        with without_indexes(connection, _TABLES), without_triggers(connection):
            for statement in _GROW:
                connection.execute(statement, parameters)
            if chains_key is None:
                connection.execute(_MAKE_LINKS_UP)
            else:
                link_all(database_url, chains_key)
        connection.execute(sql.SQL("vacuum analyze {}").format(sql.SQL(", ").join(map(sql.Identifier, _TABLES))))
        connection.execute("drop table grown_tenants, grown_members, grown_entries")
    return tenants_of(database_url, size, name)


def tenants_of(database_url: str, size: Size, name: str = "tenant") -> Sequence[Tenant]:
    """Up to five hundred of the organizations, from the whole range."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(_SOME, {"organizations": size.organizations, "name": name}).fetchall()
    return [Tenant(tenant, slug, Person(user, session, email), end_user) for tenant, slug, user, session, email, end_user in rows]


def invite_past(database_url: str, tenants: Sequence[Tenant], invitations: int) -> None:
    """Adds `invitations` pending invitations to these organizations. All became due a moment ago."""
    with growing(database_url) as connection:
        connection.execute(_INVITE_PAST, {"tenants": [one.id for one in tenants], "invitations": invitations})
        connection.execute("analyze invitations")


_TABLES: Final = (
    "users",
    "sessions",
    "all_organizations",
    "roles",
    "memberships",
    "relations",
    "all_services",
    "service_users",
    "invitations",
    "audit_entries",
    "audit_personal",
    "audit_links",
    "login_events",
    "login_counts",
)

# The part of an entry that identifies a person, beside the entry's id.
_PERSONAL: Final = """
    '192.0.2.1'::inet as address, 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' as user_agent,
    '{}'::jsonb as details, uuid_send(grown_entries.id) as salt
"""

# Member m of organization n is person n * members + m: the first owns it, the second administers it, every tenth has the organization's own
# role. Ids follow the time, as the product's do.
_GROW: Final[Sequence[LiteralString]] = (
    """
    create unlogged table grown_tenants as
    select number, age, uuidv7(-age) as id, uuidv7(-age) as role, uuidv7(-age) as service, %(name)s || '-' || number as slug
      from generate_series(0, %(organizations)s - 1) as series (number),
   lateral (select interval '180 days' * (1 - number::double precision / %(organizations)s) as age) as ages
    """,
    "analyze grown_tenants",
    """
    create unlogged table grown_members as
    select series.number, series.number %% %(members)s as place, uuidv7(-grown_tenants.age) as id, uuidv7(-grown_tenants.age) as session,
           grown_tenants.id as tenant, grown_tenants.role, grown_tenants.service, grown_tenants.age,
           %(name)s || '-person-' || series.number || '@scale.test' as email,
           case series.number %% %(members)s when 0 then 'owner' when 1 then 'admin' else 'member' end as built_in
      from generate_series(0, %(people)s - 1) as series (number)
      join grown_tenants on grown_tenants.number = series.number / %(members)s
    """,
    "analyze grown_members",
    """
    insert into users (id, email, email_key, email_verified_at, created_at, updated_at, origin_org_id)
    select grown_members.id, email, email, now() - grown_members.age, now() - grown_members.age, now() - grown_members.age, makers.id
      from grown_members
      left join grown_tenants as makers
        on place between 1 and %(made)s and makers.number = (grown_members.number / %(members)s + 1) %% %(organizations)s
    """,
    """
    insert into all_organizations (id, slug, name, status, tier_id, owner_user_id, max_users, approved_at, created_at, updated_at)
    select grown_tenants.id, slug, initcap(slug), 'active', tiers.id, grown_members.id, 1000000, now() - grown_tenants.age,
           now() - grown_tenants.age, now() - grown_tenants.age
      from grown_tenants
      join grown_members on grown_members.number = grown_tenants.number * %(members)s
      join tiers on tiers.name = 'professional'
    """,
    """
    insert into roles (id, org_id, slug, name, created_at, updated_at)
    select role, id, 'clerk', 'Clerk', now() - age, now() - age from grown_tenants
    """,
    """
    insert into memberships (id, org_id, user_id, role, role_id, created_at, own_since)
    select uuidv7(-age), tenant, id, case place %% 10 when 9 then 'clerk' else built_in end, case place %% 10 when 9 then role end,
           now() - age + interval '1 second' * place, now() - age + interval '1 second' * place
      from grown_members
    """,
    """
    select add_member_words(array(select memberships.id from memberships join grown_tenants on grown_tenants.id = memberships.org_id))
    """,
    """
    insert into held_accounts (user_id, held_since)
    select memberships.user_id, memberships.own_since
      from memberships
      join grown_members on grown_members.id = memberships.user_id
      join users on users.id = memberships.user_id and users.origin_org_id <> memberships.org_id
        on conflict do nothing
    """,
    """
    update all_organizations set member_count = %(members)s from grown_tenants where grown_tenants.id = all_organizations.id
    """,
    """
    insert into relations (organization_id, user_id, role_id, relation, object_type, object_id)
    select tenant, id, null, case place %% 10 when 9 then 'holder' else built_in end,
           case place %% 10 when 9 then 'role' else 'organization' end, case place %% 10 when 9 then role else tenant end
      from grown_members
     union all
    select grown_tenants.id, null, grown_tenants.role, permitted.relation, 'organization', grown_tenants.id
      from grown_tenants, unnest(array['org.members.view', 'end_users.view', 'audit_logs.view']) as permitted (relation)
    """,
    """
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select service, id, 'shop', 'Shop', 'web', gen_random_uuid(), now() - age, now() - age from grown_tenants
    """,
    # One trigger counts and marks all rows of the statement.
    TRIGGERS,
    """
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
    select service, id, tenant, now() - age, now() - age / 2, now() - age, now() - age from grown_members
    """,
    NO_TRIGGERS,
    """
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at, expires_day, ends_at, authenticated_by)
    select session, id, now() - interval '1 day', now() - interval '1 day', now() + interval '29 days',
           ((now() + interval '29 days') at time zone 'UTC')::date, now() + interval '89 days', '{pwd}'
      from grown_members where built_in = 'owner'
    """,
    """
    insert into invitations (id, org_id, email, email_key, role, invited_by, token_digest, expires_at, created_at)
    select uuidv7(), grown_tenants.id, 'guest-' || series.number || '@scale.test', 'guest-' || series.number || '@scale.test', 'member',
           grown_members.id, sha256(uuid_send(gen_random_uuid())), now() + interval '6 days', now() - interval '1 day'
      from generate_series(0, %(invitations)s - 1) as series (number)
      join grown_tenants on grown_tenants.number = series.number %% %(organizations)s
      join grown_members on grown_members.number = grown_tenants.number * %(members)s
    """,
    """
    create unlogged table grown_entries as
    select series.number, uuidv7(-ages.age) as id, grown_tenants.id as tenant, grown_members.id as actor, ages.age,
           series.number / %(organizations)s + 1 as sequence
      from generate_series(0, %(entries)s - 1) as series (number)
      join grown_tenants on grown_tenants.number = series.number %% %(organizations)s
      join grown_members
        on grown_members.number = grown_tenants.number * %(members)s + (series.number / %(organizations)s) %% %(members)s,
   lateral (select interval '180 days' * (1 - series.number::double precision / %(entries)s) as age) as ages (age)
    """,
    """
    insert into audit_entries (id, organization_id, actor_id, action, target_type, target_id, success, details, personal_digest, created_at)
    select id, tenant, actor,
           (array['user.invited', 'user.joined', 'user.role_updated', 'user.removed', 'invitation.accepted'])[number %% 5 + 1], 'user',
           actor::text, true, '{"role": "member"}', {digest}, now() - age
      from grown_entries,
   lateral (select {personal}) as personal
    """.replace("{digest}", PERSONAL_DIGEST.format(details="details")).replace("{personal}", _PERSONAL),
    """
    insert into audit_personal (entry_id, actor_id, address, user_agent, details, salt)
    select id, actor, personal.* from grown_entries, lateral (select {personal}) as personal
    """.replace("{personal}", _PERSONAL),
    # The counts follow from the rows, as the product's own counting would have it. A trigger would queue each row for that.
    """
    insert into login_events (id, user_id, organization_id, service_id, provider, success, reason, address, user_agent, created_at)
    select uuidv7(-ages.age), grown_members.id, grown_members.tenant, grown_members.service, 'password', series.number %% 5 > 0,
           case when series.number %% 5 = 0 then 'wrong_password' end, '192.0.2.1',
           'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', now() - ages.age
      from generate_series(0, %(sign_ins)s - 1) as series (number)
      join grown_members on grown_members.number = series.number::bigint * 7919 %% %(people)s,
   lateral (select interval '180 days' * (1 - series.number::double precision / %(sign_ins)s) as age) as ages (age)
    """,
    """
    insert into login_counts (org_id, hour, service_id, provider, logins)
    select organization_id, date_trunc('hour', created_at, 'UTC'), service_id, provider, count(*)
      from login_events
     where success and organization_id is not null
     group by 1, 2, 3, 4
    """,
    """
    insert into platform_login_counts (hour, provider, logins)
    select hour, provider, sum(logins) from login_counts group by 1, 2
        on conflict (hour, provider) do update set logins = excluded.logins
    """,
)

# The rows follow the order of the entries.
_MAKE_LINKS_UP: Final = """
    insert into audit_links (chain_id, sequence, entry_id, digest) select tenant, sequence, id, sha256(uuid_send(id)) from grown_entries
"""

# Of each organization the oldest live session of its owner, and the youngest user of its service.
_SOME: Final = """
    select organizations.id, organizations.slug, owners.id, sessions.id, owners.email, youngest.user_id
      from generate_series(0, %(organizations)s - 1, greatest(1, %(organizations)s / 500)) as series (number)
      join organizations on organizations.slug = %(name)s || '-' || series.number
      join users as owners on owners.id = organizations.owner_user_id
     cross join lateral (select id from sessions where user_id = owners.id and expires_at > now() order by created_at limit 1) as sessions
     cross join lateral (select user_id from service_users where org_id = organizations.id order by user_id desc limit 1) as youngest
     order by series.number
     limit 500
"""

_INVITE_PAST: Final = """
    insert into invitations (id, org_id, email, email_key, role, token_digest, expires_at, created_at)
    select uuidv7(interval '-8 days'), (%(tenants)s::uuid[])[number %% cardinality(%(tenants)s::uuid[]) + 1],
           'late-' || number || '@scale.test', 'late-' || number || '@scale.test', 'member', sha256(uuid_send(gen_random_uuid())),
           now() - interval '1 second', now() - interval '7 days'
      from generate_series(0, %(invitations)s - 1) as series (number)
"""
