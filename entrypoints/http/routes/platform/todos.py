"""What waits for a decision in an organization, and what ends soon, there and in the whole installation."""

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
    """Something that needs a decision, or that will fail without one."""

    todo: Todo
    """What it is about."""
    count: Annotated[int, example(2)]
    """How many things there are, up to 100."""


@endpoint.get("/api/organizations/{org_slug}/todos", caller=able(Capability.SETTINGS_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def list_todos(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[TodoRecord]:
    """List what needs attention

    Membership requests, and setups by link that await an owner. Certificates and keys that expire within thirty days, connections with such
    certificates, and certificates that await an owner. Webhooks, an email server and a SIEM that fail, and domains that are no longer
    verified. Members without the MFA that the organization requires. Custom texts whose default text has changed. The list is empty when
    there is nothing to do.
    """
    return [TodoRecord(todo, count) for todo, count in (await postern.platform.todos.of(call.caller)).items()]


class ExpiryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate, key, token or domain that expires soon, or has expired."""

    kind: Annotated[ExpiryKind, example("api_key")]
    """What it is: `application_certificate` signs an application's SAML assertions, `directory_certificate` is the last one of a directory,
    and `own_certificate` is ours at a directory.
    """
    id: Id
    name: Annotated[str, example("Billing server")]
    """The name of the object. For an application's certificate, the application's name."""
    service_slug: Annotated[str, example("billing")] | None
    """The slug of the service that it belongs to; null if it belongs to none."""
    organization_id: UUID | None
    """The organization; null for a key of the platform."""
    organization_slug: Annotated[str, example("acme")] | None
    """The organization's slug; null for a key of the platform."""
    organization_name: Annotated[str, example("Acme")] | None
    """The organization's name; null for a key of the platform."""
    ends_at: datetime | None
    """When it expires or has expired; null for a domain that was not verified at the last check."""
    last_used_at: datetime | None
    """When it was last used; null if never, or if no one keeps that."""
    has_successor: bool
    """Whether the next certificate is there already."""


class ExpiryList(msgspec.Struct, frozen=True):
    """What expires soon."""

    expiries: Sequence[ExpiryRecord]
    """Up to 200: domains, and then what ends first."""


@endpoint.get(
    "/api/organizations/{org_slug}/expiries",
    caller=able(Capability.SETTINGS_MANAGE, impersonated=True),
    keys=True,
    tags=("organizations",),
    verb="expiry list",
)
async def list_expiries(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ExpiryList:
    """List what expires within ninety days

    Certificates of applications and identity providers, also expired ones; management API keys, API keys and SCIM tokens, for thirty days
    after they expire; and domains that were not verified at the last check.
    """
    return ExpiryList([_record(one) for one in await postern.platform.expiries.of(call.caller)])


@endpoint.get("/api/platform/expiries", caller=PLATFORM_OWNER, keys=PlatformCapability.ORGANIZATIONS_VIEW, tags=("platform",))
async def list_expiries_of_platform(_call: Call[None, None, None, Caller], postern: Postern) -> ExpiryList:
    """List what expires within ninety days in the whole installation

    The same as in an organization, for all active organizations, and the platform's own management API keys.
    """
    return ExpiryList([_record(one) for one in await postern.platform.expiries.everywhere()])


_record = shown(Expiry, ExpiryRecord, named={"organization_id": "organization"})
