"""Things by their names, in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId
from core.domain.platform.searches import MOST_OF_A_KIND, FoundThing, FoundThings, ThingKind


def _thing(*, kind: str, organization: UUID | None, **columns: Any) -> FoundThing:
    return FoundThing(kind=ThingKind(kind), organization=None if organization is None else OrganizationId(organization), **columns)


def _thing_or_none(*, complete: bool, kind: str | None, **columns: Any) -> tuple[bool, FoundThing | None]:
    """A row of the installation's search. One that finds nothing is one row without a thing."""
    return complete, None if kind is None else _thing(kind=kind, **columns)


class PostgresThings(OnPool):
    """Implements `ports.platform.ThingLookup`."""

    async def of(self, organization: OrganizationId, text: str, kinds: Collection[ThingKind]) -> Sequence[FoundThing]:
        return await ask(self._pool, _thing, _OF_ORGANIZATION, {**_sought(text), "organization": organization, "kinds": list(kinds)})

    async def everywhere(self, text: str, most_read: int) -> FoundThings:
        rows = await ask(self._pool, _thing_or_none, _EVERYWHERE, {**_sought(text), "read": most_read})
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
_OF_ORGANIZATION: Final[LiteralString] = f"""
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
_EVERYWHERE: Final[LiteralString] = f"""
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
