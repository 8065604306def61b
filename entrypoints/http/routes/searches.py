"""One search over everything that has a name, in an organization and in the whole installation."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.identity.callers import Caller
from core.domain.platform.searches import LONGEST_TEXT, FoundThing, ThingKind
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import admits
from entrypoints.http.machinery.callers import MEMBER, PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import Endpoint, endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, example
from entrypoints.http.routes.federation import scim_settings
from entrypoints.http.routes.services import api_keys, plans, resource_servers, service_claims, service_roles, services
from entrypoints.http.routes.tenancy import (
    domain_routes,
    domains,
    joining,
    management_keys,
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


class SoughtName(msgspec.Struct, frozen=True):
    q: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT), example("crm")]
    """A part of the name or of the slug, case-insensitive, or an ID."""


class FoundThingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that has the text in its name."""

    kind: Annotated[ThingKind, example("webhook")]
    """What it is. `domain` is a domain of people's addresses, `own_domain` the one on which people sign in, an `api` is a resource server.
    An `invitation` is one that waits for its answer; its name is the address.
    """
    id: Id
    name: Annotated[str, example("CRM")]
    """The name of the thing."""
    slug: Annotated[str, example("crm")] | None
    """The slug, or the key of a field or permission; null where the kind has none."""
    service_slug: Annotated[str, example("billing")] | None
    """The slug of the service that it belongs to; null if it belongs to none."""
    organization_id: UUID | None
    """The organization; null for a thing of the installation, and for an organization itself."""
    organization_slug: Annotated[str, example("acme")] | None
    """The organization's slug, likewise."""
    organization_name: Annotated[str, example("Acme")] | None
    """The organization's name, likewise."""


class FoundThingList(msgspec.Struct, frozen=True):
    """The things that were found."""

    things: Sequence[FoundThingRecord]
    """Up to ten of each kind, by kind and name."""
    complete: Annotated[bool, example(True)] = True
    """False if the installation has more than 100 000 organizations or services: the search reads the newest of them."""


@endpoint.get("/api/organizations/{org_slug}/search", caller=MEMBER, tags=("organizations",), verb="search run")
async def search_things(call: Call[None, SoughtName, OrganizationPath, Member], postern: Postern) -> FoundThingList:
    """Find things of the organization by a part of their names

    Services with their roles, permissions, claims, plans and API keys; resource servers; teams, roles, fields, open invitations,
    directories, domains, SCIM tokens, setup links, webhooks, the SIEM and management API keys. You find the kinds that you may list. People
    are found by `GET /api/organizations/{org_slug}/members` and `GET /api/organizations/{org_slug}/users`.
    """
    kinds = [kind for kind, listed in LISTED_BY.items() if admits(listed.caller, call.caller)]
    return FoundThingList([_record(one) for one in await postern.platform.searches.of(call.caller, call.query.q, kinds)])


@endpoint.get("/api/platform/search", caller=PLATFORM_OWNER, tags=("platform",))
async def search_things_of_platform(call: Call[None, SoughtName, None, Caller], postern: Postern) -> FoundThingList:
    """Find organizations and services of the installation by a part of their names

    Also the installation's own tiers, fields and management API keys. Users are found by `GET /api/platform/users/search`.
    """
    found = await postern.platform.searches.everywhere(call.query.q)
    return FoundThingList([_record(one) for one in found.things], found.complete)


_record = shown(FoundThing, FoundThingRecord, named={"organization_id": "organization"})
