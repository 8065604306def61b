"""One search over everything that has a name, in an organization and in the whole installation."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.identity.callers import Caller
from core.domain.platform.searches import LONGEST_TEXT, FoundThing, NamedKind, NamedOne, ThingKind
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import admits
from entrypoints.http.machinery.callers import MEMBER, PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import Endpoint, endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, example
from entrypoints.http.routes.federation import scim_settings
from entrypoints.http.routes.services import api_keys, end_users, plans, resource_servers, service_claims, service_roles, services
from entrypoints.http.routes.tenancy import (
    domain_routes,
    domains,
    joining,
    management_keys,
    members,
    profile_fields,
    roles,
    setup_links,
    siem,
    teams,
    upstream_providers,
    webhooks,
)

# A thing is found by those who may list its kind.
LISTED_BY: Final[Mapping[ThingKind, Endpoint]] = {
    ThingKind.APPLICATION: services.list_services,
    ThingKind.APPLICATION_ROLE: service_roles.list_service_roles,
    ThingKind.PERMISSION: service_roles.list_service_permissions,
    ThingKind.CLAIM: service_claims.list_service_claims,
    ThingKind.PLAN: plans.list_plans,
    ThingKind.API_KEY: api_keys.list_api_keys,
    ThingKind.API: resource_servers.list_resource_servers,
    ThingKind.TEAM: teams.list_teams,
    ThingKind.ROLE: roles.list_roles,
    ThingKind.FIELD: profile_fields.list_fields,
    ThingKind.INVITATION: joining.list_invitations,
    ThingKind.DIRECTORY: upstream_providers.list_upstream_providers,
    ThingKind.DOMAIN: domain_routes.list_domain_routes,
    ThingKind.OWN_DOMAIN: domains.get_domain,
    ThingKind.SCIM_TOKEN: scim_settings.list_scim_tokens,
    ThingKind.SETUP_LINK: setup_links.list_setup_links,
    ThingKind.WEBHOOK: webhooks.list_webhooks,
    ThingKind.SIEM: siem.get_siem_configuration,
    ThingKind.MANAGEMENT_KEY: management_keys.list_management_keys,
}


# People are named to those who may list them.
_NAMED_TO: Final[Mapping[NamedKind, Endpoint]] = {
    **{one: LISTED_BY[ThingKind(one)] for one in NamedKind if one not in {NamedKind.MEMBER, NamedKind.END_USER}},
    NamedKind.MEMBER: members.list_members,
    NamedKind.END_USER: end_users.list_end_users,
}


class SoughtName(msgspec.Struct, frozen=True):
    q: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT), example("crm")]
    """Part of the name or slug, case-insensitive, or an ID."""


class FoundThingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A search result."""

    kind: Annotated[ThingKind, example("webhook")]
    """The type of the result. `domain` is an email domain, `own_domain` the custom domain, and `api` a resource server. An `invitation` is
    pending; its name is the email address.
    """
    id: Id
    name: Annotated[str, example("CRM")]
    """The name of the result."""
    slug: Annotated[str, example("crm")] | None
    """The slug, or the key of a field or permission; null if the type has no slug."""
    service_slug: Annotated[str, example("billing")] | None
    """The slug of the service that the result belongs to; null if it belongs to no service."""
    organization_id: UUID | None
    """The organization's ID; null for an object of the installation, and for an organization itself."""
    organization_slug: Annotated[str, example("acme")] | None
    """The organization's slug; null for an object of the installation, and for an organization itself."""
    organization_name: Annotated[str, example("Acme")] | None
    """The organization's name; null for an object of the installation, and for an organization itself."""


class FoundThingList(msgspec.Struct, frozen=True):
    """The search results."""

    things: Sequence[FoundThingRecord]
    """Up to 10 results of each type, sorted by type and name."""
    complete: Annotated[bool, example(True)] = True
    """False if the installation has more than 100 000 organizations or services. The search then covers only the newest of them."""


@endpoint.get("/api/organizations/{org_slug}/search", caller=MEMBER, tags=("organizations",), verb="search run")
async def search_things(call: Call[None, SoughtName, OrganizationPath, Member], postern: Postern) -> FoundThingList:
    """Search an organization

    Search by part of a name: services with their roles, permissions, claims, plans and API keys; resource servers; teams, roles, fields,
    pending invitations, directories, domains, SCIM tokens, setup links, webhooks, the SIEM and management API keys. You find only the types
    that you can list. To find people, use `GET /api/organizations/{org_slug}/members` and `GET /api/organizations/{org_slug}/users`.
    """
    kinds = [kind for kind, listed in LISTED_BY.items() if admits(listed.caller, call.caller)]
    return FoundThingList([_record(one) for one in await postern.platform.searches.of(call.caller, call.query.q, kinds)])


async def named_in_organization(member: Member, postern: Postern, words: Sequence[str], addresses: Sequence[str]) -> Sequence[NamedOne]:
    """Whom and what these words name, of the kinds that the member may list. Raises `Overloaded`."""
    kinds = [kind for kind, listed in _NAMED_TO.items() if admits(listed.caller, member)]
    return await postern.platform.searches.named(member, words, addresses, kinds)


@endpoint.get("/api/platform/search", caller=PLATFORM_OWNER, tags=("platform",))
async def search_things_of_platform(call: Call[None, SoughtName, None, Caller], postern: Postern) -> FoundThingList:
    """Search the organizations and services of the installation

    Search by part of a name. The search also covers the installation's tiers, fields and management API keys. To find users, use `GET
    /api/platform/users/search`.
    """
    found = await postern.platform.searches.everywhere(call.query.q)
    return FoundThingList([_record(one) for one in found.things], found.complete)


_record = shown(FoundThing, FoundThingRecord, named={"organization_id": "organization"})
