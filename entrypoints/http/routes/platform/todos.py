"""Todos of an organization, and upcoming expiries of an organization and of the installation."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.identity.callers import Caller
from core.domain.platform.todos import Expiry, ExpiryKind, Todo
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, example

_TAGS: Final = ("organizations",)


class TodoRecord(msgspec.Struct, frozen=True):
    """An item that needs a decision, or that fails without one."""

    todo: Todo
    """The type of the item."""
    count: Annotated[int, example(2)]
    """The number of objects, up to 100."""


@endpoint.get("/api/organizations/{org_slug}/todos", caller=able(Capability.SETTINGS_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def list_todos(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[TodoRecord]:
    """List the items that need attention

    Return what needs a decision, or fails without one: membership requests and setup drafts that await an owner; certificates and keys that
    expire within 30 days, and connections with such certificates; certificates that await an owner; webhooks, an email server or a SIEM
    that fail; domains that are no longer verified; members without the MFA that the organization requires; and custom texts whose default
    text has changed. If nothing needs attention, the list is empty.
    """
    return [TodoRecord(todo, count) for todo, count in (await postern.platform.todos.of(call.caller)).items()]


class ExpiryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate, key, token or domain that expires soon or has expired."""

    kind: Annotated[ExpiryKind, example("api_key")]
    """The type of the object. `application_certificate` signs an application's SAML assertions. `directory_certificate` is the last
    certificate of an identity provider. `own_certificate` is Postern's certificate at an identity provider.
    """
    id: Id
    name: Annotated[str, example("Billing server")]
    """The name of the object. For an application's certificate, the application's name."""
    service_slug: Annotated[str, example("billing")] | None
    """The slug of the service that the object belongs to; null if it belongs to no service."""
    organization_id: UUID | None
    """The organization's ID; null for a key of the platform."""
    organization_slug: Annotated[str, example("acme")] | None
    """The organization's slug; null for a key of the platform."""
    organization_name: Annotated[str, example("Acme")] | None
    """The organization's name; null for a key of the platform."""
    ends_at: datetime | None
    """When the object expires or expired; null for a domain that was not verified at the last check."""
    last_used_at: datetime | None
    """When the object was last used; null if never, or if this is not recorded."""
    has_successor: bool
    """Whether the next certificate already exists."""


class ExpiryList(msgspec.Struct, frozen=True):
    """The objects that expire soon."""

    expiries: Sequence[ExpiryRecord]
    """At most 200 objects: first domains, then those that expire first."""


@endpoint.get(
    "/api/organizations/{org_slug}/expiries",
    caller=able(Capability.SETTINGS_MANAGE, impersonated=True),
    keys=True,
    tags=("organizations",),
    verb="expiry list",
)
async def list_expiries(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ExpiryList:
    """List the expiring objects of an organization

    Return what expires within 90 days: certificates of applications and identity providers, including expired ones; management API keys,
    API keys and SCIM tokens, until 30 days after they expire; and domains that were not verified at the last check.
    """
    return ExpiryList([_record(one) for one in await postern.platform.expiries.of(call.caller)])


@endpoint.get("/api/platform/expiries", caller=PLATFORM_OWNER, keys=PlatformCapability.ORGANIZATIONS_VIEW, tags=("platform",))
async def list_expiries_of_platform(_call: Call[None, None, None, Caller], postern: Postern) -> ExpiryList:
    """List the expiring objects of the installation

    Return what expires within 90 days in all active organizations, as for an organization, and the management API keys of the platform.
    """
    return ExpiryList([_record(one) for one in await postern.platform.expiries.everywhere()])


_record = shown(Expiry, ExpiryRecord, named={"organization_id": "organization"})
