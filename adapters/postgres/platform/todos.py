"""What pages of the console show beside their content, in PostgreSQL: todos, upcoming expiries, frames, and objects by name."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
from adapters.postgres.identity.accounts import ADMINISTERED_AS_JSON
from adapters.postgres.identity.factors.mfa import second_factor_due
from adapters.postgres.platform.named import NAMED, named_one, parameters_of
from adapters.postgres.statements import OnPool, ask, only
from adapters.postgres.tenancy.upstream_providers import ENDS_SOON, WAITS
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import MOST_STARTED, AdministeredOrganization
from core.domain.platform.searches import MOST_OF_A_KIND, FoundThing, FoundThings, NamedKind, NamedOne, NameTerm, ThingKind
from core.domain.platform.todos import (
    EXPIRIES_AHEAD,
    EXPIRIES_BEHIND,
    MOST_COUNTED,
    MOST_EXPIRIES_LISTED,
    SOON,
    AnyTodo,
    Expiry,
    ExpiryKind,
    FrameFacts,
    PlatformTodo,
    Todo,
    Todos,
)
from core.frozen import Frozen

# Members whom the statement looks at for a second factor. A look costs two look-ups in indexes.
_MOST_MEMBERS: Final = 1000


class _Counted(Frozen):
    todo: str
    found: int


class PostgresTodos(OnPool):
    """Implements `ports.platform.TodoLookup`."""

    async def of(self, organization: OrganizationId, now: datetime) -> Todos:
        counts = await ask(self._pool, _Counted, COUNTED, counting(organization, now))
        return {Todo(row.todo): row.found for row in counts if row.found}


def counting(organization: OrganizationId, now: datetime) -> Mapping[str, Any]:
    """The parameters of `COUNTED`."""
    return {"organization": organization, "now": now, "soon": now + SOON, "most": MOST_COUNTED, "most_members": _MOST_MEMBERS}


def counted(todo: LiteralString, rows: LiteralString) -> LiteralString:
    return f"select '{todo}' as todo, (select count(*) from ({rows} limit %(most)s) as counted)::int as found"


COUNTED: Final[LiteralString] = "\nunion all\n".join(
    (
        counted("join_requests", "select from join_requests where org_id = %(organization)s and status = 'pending'"),
        counted(
            "certificates",
            """
            select
              from services
              join saml_certificates on saml_certificates.service_id = services.id and saml_certificates.state = 'active'
             where services.org_id = %(organization)s
               and saml_certificates.valid_until < %(soon)s
               and not exists (
                       select from saml_certificates as following
                        where following.service_id = services.id and following.state = 'next'
                   )
            """,
        ),
        counted(
            "connections",
            f"""
            select from upstream_providers where org_id = %(organization)s and (({ENDS_SOON}) or {WAITS})
            """,
        ),
        counted(
            "webhooks",
            """
            select from webhooks
             where org_id = %(organization)s and (paused_at is not null or is_active and failing_since is not null)
            """,
        ),
        counted(
            "domains",
            """
            select from domain_routes where org_id = %(organization)s and (misses > 0 or verified_at is null and checked_at is not null)
             union all
            select from domains where org_id = %(organization)s and (misses > 0 or verified_at is null and checked_at is not null)
            """,
        ),
        counted(
            "resource_servers",
            """
            select from resource_servers
             where org_id = %(organization)s and identifier not like 'http:%%'
               and (misses > 0 or verified_at is null and approved_at is null)
            """,
        ),
        counted(
            "second_factors",
            f"""
            select
              from (
                       select {second_factor_due("memberships.user_id")} as due
                         from organizations
                         join memberships on memberships.org_id = organizations.id
                        where organizations.id = %(organization)s
                          and (organizations.mfa_required_since is not null or organizations.admin_factor is not null
                               or organizations.all_factor is not null)
                        limit %(most_members)s
                   ) as asked
             where asked.due is not null
            """,
        ),
        counted("mail_server", "select from mail_servers where org_id = %(organization)s and failing_since is not null"),
        counted("siem", "select from siem_configurations where org_id = %(organization)s and last_error is not null and is_active"),
        counted(
            "offboarding",
            """
            select
              from offboarding_deadlines
              join offboarding_watches on offboarding_watches.deadline_id = offboarding_deadlines.id and offboarding_watches.missing > 0
             where offboarding_deadlines.org_id = %(organization)s
            """,
        ),
        counted(
            "setup_links",
            """
            select
              from setup_drafts
              left join upstream_providers on upstream_providers.id = setup_drafts.upstream_provider_id
             where setup_drafts.org_id = %(organization)s and setup_drafts.state = 'waiting'
               and (upstream_providers.id is null or upstream_providers.state = 'tested' and upstream_providers.activated_at is null)
            """,
        ),
        counted("texts", "select from organization_texts where org_id = %(organization)s and outdated"),
        counted(
            "keys",
            """
            select from management_keys where org_id = %(organization)s and expires_at between %(now)s and %(soon)s
             union all
            select from scim_tokens where org_id = %(organization)s and expires_at between %(now)s and %(soon)s
             union all
            select
              from services
              join api_keys on api_keys.service_id = services.id
             where services.org_id = %(organization)s and api_keys.expires_at between %(now)s and %(soon)s
            """,
        ),
    )
)


def _expiry(*, kind: str, organization: UUID | None, **columns: Any) -> Expiry:
    return Expiry(kind=ExpiryKind(kind), organization=None if organization is None else OrganizationId(organization), **columns)


class PostgresExpiries(OnPool):
    """Implements `ports.platform.ExpiryLookup`."""

    async def of(self, organization: OrganizationId, now: datetime) -> Sequence[Expiry]:
        return await self._list(_ENDING_IN_ORGANIZATION, organization, now)

    async def everywhere(self, now: datetime) -> Sequence[Expiry]:
        return await self._list(_ENDING_EVERYWHERE, None, now)

    async def _list(self, statement: LiteralString, organization: OrganizationId | None, now: datetime) -> Sequence[Expiry]:
        parameters = {
            "organization": organization,
            "soon": now + EXPIRIES_AHEAD,
            "since": now - EXPIRIES_BEHIND,
            "most": MOST_EXPIRIES_LISTED,
        }
        return await ask(self._pool, _expiry, statement, parameters)


def _statement(which: LiteralString, *, of_platform: bool) -> LiteralString:
    """`which` chooses organizations."""
    own = "found.kind = 'management_key' and found.org_id is null or" if of_platform else ""
    return f"""
    with chosen as (
             select organizations.id, organizations.slug, organizations.name from organizations where {which}
         ),
         found as (
             select 'application_certificate' as kind, services.id, services.name, services.slug as service_slug, services.org_id,
                    saml_certificates.valid_until as ends_at, saml_certificates.last_signed_at as last_used_at,
                    exists (
                        select from saml_certificates as following
                         where following.service_id = services.id and following.state = 'next'
                    ) as has_successor
               from saml_certificates
               join services on services.id = saml_certificates.service_id
              where saml_certificates.state = 'active' and saml_certificates.valid_until < %(soon)s
          union all
             select 'directory_certificate', upstream_providers.id, upstream_providers.name, null, upstream_providers.org_id, last.until,
                    null, false
               from upstream_providers
              cross join lateral (
                        select max((one ->> 'valid_until')::timestamptz) as until
                          from jsonb_array_elements(upstream_providers.saml -> 'certificates') as one
                    ) as last
              where upstream_providers.kind = 'saml' and upstream_providers.enabled and last.until < %(soon)s
          union all
             select 'own_certificate', id, name, null, org_id, certificate_until, null, next_certificate is not null
               from upstream_providers
              where kind = 'saml' and enabled and certificate_until < %(soon)s
          union all
             select 'management_key', id, name, null, org_id, expires_at, last_used_at, false
               from management_keys
              where expires_at between %(since)s and %(soon)s
          union all
             select 'scim_token', id, name, null, org_id, expires_at, last_used_at, false
               from scim_tokens
              where expires_at between %(since)s and %(soon)s
          union all
             select 'api_key', api_keys.id, api_keys.name, services.slug, services.org_id, api_keys.expires_at, api_keys.last_used_at, false
               from api_keys
               join services on services.id = api_keys.service_id
              where api_keys.expires_at between %(since)s and %(soon)s
          union all
             select 'domain', id, domain, null, org_id, null, null, false
               from domain_routes
              where misses > 0 or verified_at is null and checked_at is not null
          union all
             select 'own_domain', id, domain, null, org_id, null, null, false
               from domains
              where misses > 0 or verified_at is null and checked_at is not null
          union all
             select 'api_host', id, name, null, org_id, null, null, false
               from resource_servers
              where misses > 0 or verified_at is null and approved_at is null and checked_at is not null
         )
  select found.kind, found.id, found.name, found.service_slug, found.org_id as organization, chosen.slug as organization_slug,
         chosen.name as organization_name, found.ends_at, found.last_used_at, found.has_successor
    from found
    left join chosen on chosen.id = found.org_id
   where {own} chosen.id is not null
   order by found.ends_at nulls first, found.id
   limit %(most)s
"""


_ENDING_IN_ORGANIZATION: Final = _statement("organizations.id = %(organization)s", of_platform=False)
_ENDING_EVERYWHERE: Final = _statement("organizations.status = 'active'", of_platform=True)


def _places(found: Sequence[Mapping[str, Any]]) -> Sequence[AdministeredOrganization]:
    return [AdministeredOrganization(one["slug"], one["name"], one["waits"]) for one in found]


def _todos(kinds: type[Todo] | type[PlatformTodo], found: Mapping[str, int]) -> Mapping[AnyTodo, int]:
    """In the order of their declaration."""
    return {kind: found[kind] for kind in kinds if found.get(kind)}


def _in_organization(*, places: Sequence[Mapping[str, Any]], todos: Mapping[str, int]) -> FrameFacts:
    return FrameFacts(_places(places), _todos(Todo, todos))


def _in_installation(*, places: Sequence[Mapping[str, Any]], todos: Mapping[str, int]) -> FrameFacts:
    return FrameFacts(_places(places), _todos(PlatformTodo, todos))


def _without_todos(*, places: Sequence[Mapping[str, Any]]) -> FrameFacts:
    return FrameFacts(_places(places))


class PostgresFrames(OnPool):
    """Implements `ports.platform.FrameLookup`."""

    async def get_in_organization(self, person: UserId | None, organization: OrganizationId, now: datetime) -> FrameFacts:
        parameters = {**_of(person), **counting(organization, now)}
        return only(await ask(self._pool, _in_organization, _IN_ORGANIZATION, parameters))

    async def get_in_installation(self, person: UserId | None) -> FrameFacts:
        return only(await ask(self._pool, _in_installation, _IN_INSTALLATION, {**_of(person), "most": MOST_COUNTED}))

    async def get_places(self, person: UserId | None) -> FrameFacts:
        return only(await ask(self._pool, _without_todos, _PLACES, _of(person)))


def _of(person: UserId | None) -> Mapping[str, Any]:
    return {"user": person, "most_places": MOST_STARTED}


_PLACES: Final[LiteralString] = f"select {ADMINISTERED_AS_JSON} as places"
_TODOS: Final = "coalesce((select jsonb_object_agg(todo, found) from ({counted}) as counted), '{{}}') as todos"
_IN_ORGANIZATION: Final[LiteralString] = f"{_PLACES}, {_TODOS.format(counted=COUNTED)}"
# An index has each of these by itself: the organizations by their status, the APIs that ask, those whose texts wait, and the dead jobs.
_IN_INSTALLATION: Final[LiteralString] = f"""{_PLACES}, {
    _TODOS.format(
        counted=" union all ".join(
            (
                counted("organizations", "select from all_organizations where status = 'pending' and deleted_at is null"),
                counted(
                    "approvals",
                    '''
                    select
                      from resource_servers
                      join organizations on organizations.id = resource_servers.org_id and organizations.status = 'active'
                     where resource_servers.approval_asked_at is not null and resource_servers.verified_at is null
                       and resource_servers.approved_at is null
                    ''',
                ),
                counted(
                    "texts",
                    '''
                    select
                      from organizations
                     where coalesce(texts_digest <> approved_texts, texts_digest is not null) and status = 'active'
                       and (select coalesce((select mails or pages from text_approval_rules), true))
                    ''',
                ),
                counted("jobs", "select from jobs where state = 'dead'"),
            )
        )
    )
}"""


def _thing(*, kind: str, organization: UUID | None, **columns: Any) -> FoundThing:
    return FoundThing(kind=ThingKind(kind), organization=None if organization is None else OrganizationId(organization), **columns)


def _thing_or_none(*, complete: bool, kind: str | None, **columns: Any) -> tuple[bool, FoundThing | None]:
    """A row of the installation's search. One that finds nothing is one row without a thing."""
    return complete, None if kind is None else _thing(kind=kind, **columns)


class PostgresThings(OnPool):
    """Implements `ports.platform.ThingLookup`."""

    async def of(self, organization: OrganizationId, text: str, kinds: Collection[ThingKind]) -> Sequence[FoundThing]:
        return await ask(self._pool, _thing, _FOUND_IN_ORGANIZATION, {**_sought(text), "organization": organization, "kinds": list(kinds)})

    async def named(
        self,
        organization: OrganizationId,
        terms: Sequence[NameTerm],
        addresses: Sequence[str],
        kinds: Collection[NamedKind],
        most: int,
    ) -> Sequence[NamedOne]:
        return await ask(self._pool, named_one, NAMED, parameters_of(organization, terms, addresses, kinds, most))

    async def everywhere(self, text: str, most_read: int) -> FoundThings:
        rows = await ask(self._pool, _thing_or_none, _FOUND_EVERYWHERE, {**_sought(text), "read": most_read})
        return FoundThings([thing for _, thing in rows if thing is not None], complete=rows[0][0])


def _sought(text: str) -> Mapping[str, Any]:
    text = storable_text(text)
    try:
        wanted = UUID(text)
    except ValueError:
        wanted = None
    return {"text": text, "lower": text.lower(), "id": wanted, "most": MOST_OF_A_KIND}


def _has(name: LiteralString, slug: LiteralString, thing: LiteralString) -> LiteralString:
    """A condition: the name or the short name has the text, in any case, or the id is the text. The name is also compared as it is, because
    `lower` leaves letters outside ASCII alone in a database that compares by bytes.
    """
    in_slug: LiteralString = "" if slug == "null" else f"or strpos({slug}, %(lower)s) > 0"
    return f"(strpos(lower({name}), %(lower)s) > 0 or strpos({name}, %(text)s) > 0 {in_slug} or {thing}.id = %(id)s::uuid)"


def _own(kind: LiteralString, table: LiteralString, name: LiteralString = "name", slug: LiteralString = "null") -> LiteralString:
    """Things that belong to the organization."""
    return f"""
           (select '{kind}' as kind, {table}.id, {name} as name, {slug} as slug, null as service_slug
              from {table}
             where org_id = %(organization)s and '{kind}' = any(%(kinds)s) and {_has(name, slug, table)}
             order by {name}
             limit %(most)s)"""


def _of_service(kind: LiteralString, table: LiteralString, name: LiteralString = "name", slug: LiteralString = "null") -> LiteralString:
    """Things that belong to an application of the organization."""
    name, slug = f"{table}.{name}", slug if slug == "null" else f"{table}.{slug}"
    return f"""
           (select '{kind}', {table}.id, {name}, {slug}, services.slug
              from services
              join {table} on {table}.service_id = services.id
             where services.org_id = %(organization)s and '{kind}' = any(%(kinds)s) and {_has(name, slug, table)}
             order by {name}
             limit %(most)s)"""


_PENDING: Final = "(select * from invitations where org_id = %(organization)s and status = 'pending') as invitations"
_OFFERED: Final = "(select * from plans where deleted_at is null) as plans"

# Each part reads the things of one organization by an index of theirs. Their numbers are bounded: see the limits of each kind.
_FOUND_IN_ORGANIZATION: Final[LiteralString] = f"""
    with found as (
           {_own("application", "services", slug="slug")}
     union all
           {_of_service("application_role", "service_roles", slug="slug")}
     union all
           {_of_service("permission", "permissions", "key", "key")}
     union all
           {_of_service("claim", "service_claims")}
     union all
           {_of_service("plan", "plans").replace("join plans on", f"join {_OFFERED} on")}
     union all
           {_of_service("api_key", "api_keys")}
     union all
           {_own("api", "resource_servers")}
     union all
           {_own("team", "teams", slug="slug")}
     union all
           {_own("role", "roles", slug="slug")}
     union all
           {_own("field", "profile_fields", "label", "key")}
     union all
           {_own("invitation", "invitations", "email").replace("from invitations", f"from {_PENDING}")}
     union all
           {_own("directory", "upstream_providers")}
     union all
           {_own("domain", "domain_routes", "domain")}
     union all
           {_own("own_domain", "domains", "domain")}
     union all
           {_own("scim_token", "scim_tokens")}
     union all
           {_own("setup_link", "setup_links")}
     union all
           {_own("webhook", "webhooks")}
     union all
           {_own("siem", "siem_configurations")}
     union all
           {_own("management_key", "management_keys")}
         )
    select found.*, organizations.id as organization, organizations.slug as organization_slug, organizations.name as organization_name
      from found
     cross join organizations
     where organizations.id = %(organization)s
     order by found.kind, found.name, found.id
"""


def _installations(kind: LiteralString, table: LiteralString, name: LiteralString, slug: LiteralString, of: LiteralString) -> LiteralString:
    """Things of the installation itself, which has few."""
    return f"""
           (select '{kind}', id, {name}, {slug}, null, null::uuid, null, null
              from {table}
             where {of} and {_has(name, slug, table)}
             order by {name}
             limit %(most)s)"""


# Ids are in the order of time, so that the newest rows are read by the primary key.
_FOUND_EVERYWHERE: Final[LiteralString] = f"""
    with found as (
           (select 'organization' as kind, newest.id, newest.name, newest.slug, null as service_slug, null::uuid as organization,
                   null as organization_slug, null as organization_name
              from (select id, name, slug from organizations order by id desc limit %(read)s) as newest
             where {_has("newest.name", "newest.slug", "newest")}
             limit %(most)s)
     union all
           (select 'application', newest.id, newest.name, newest.slug, null, organizations.id, organizations.slug, organizations.name
              from (select id, name, slug, org_id from services order by id desc limit %(read)s) as newest
              join organizations on organizations.id = newest.org_id
             where {_has("newest.name", "newest.slug", "newest")}
             limit %(most)s)
     union all
           {_installations("tier", "tiers", "display_name", "name", "true")}
     union all
           {_installations("field", "profile_fields", "label", "key", "org_id is null")}
     union all
           {_installations("management_key", "management_keys", "name", "null", "org_id is null")}
         )
    select not exists (select from organizations order by id desc offset %(read)s limit 1)
       and not exists (select from services order by id desc offset %(read)s limit 1) as complete,
           found.*
      from (values (1)) as once
      left join found on true
     order by found.kind, found.name, found.id
"""
