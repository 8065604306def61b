"""Setup links that platform owners create for customers."""

from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import OrganizationId, SetupLinkId
from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationUuid
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.platform.governance import GovernedPath
from entrypoints.http.routes.tenancy.setup_links import (
    CreatedSetupLink,
    NewCustomerLink,
    SetupLinkList,
    SetupLinkRecord,
    created_setup_link,
    setup_link_record,
    wanted_link,
)

_TAGS = ("setup-links",)
_LINKS = "/api/platform/organizations/{org_id}/setup-links"
_LINK = f"{_LINKS}/{{link_id}}"


class CustomerLinkPath(msgspec.Struct, frozen=True):
    org_id: OrganizationUuid
    link_id: UUID
    """The setup link's ID."""


@endpoint.post(
    _LINKS, caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, status=201, refuses=(BadRequest, NotFound), tags=_TAGS
)
async def create_customer_link(call: Call[NewCustomerLink, None, GovernedPath], postern: Postern) -> CreatedSetupLink:
    """Create a setup link for a customer

    The link works like one that the organization's own administrators create. An owner of the organization decides which settings become
    active. The link works while you are a platform owner. Requires a recent sign-in or reauthentication.
    """
    body = call.body
    wanted = wanted_link(body.name, body.purposes, body.email, body.language, postern)
    made = await postern.tenancy.setup_links.create_for_platform(call.caller, OrganizationId(call.path.org_id), call.actor, wanted)
    return created_setup_link(made, postern)


@endpoint.get(_LINKS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_customer_links(call: Call[None, None, GovernedPath], postern: Postern) -> SetupLinkList:
    """List the setup links of a customer

    Return the links that platform owners created for the organization, the newest first, including links that no longer work. Links that
    members of the organization created are not included.
    """
    listed = await postern.tenancy.setup_links.list_for_platform(OrganizationId(call.path.org_id))
    now = postern.foundation.clock.now()
    return SetupLinkList([setup_link_record(one, now, postern) for one in listed], len(listed))


@endpoint.get(_LINK, caller=PLATFORM_OWNER, refuses=(NotFound,), tags=_TAGS)
async def get_customer_link(call: Call[None, None, CustomerLinkPath], postern: Postern) -> SetupLinkRecord:
    """Get a setup link of a customer

    Return the details and the drafts of a link that a platform owner created. The link itself is only in the response that created it.
    """
    found = await postern.tenancy.setup_links.get_for_platform(OrganizationId(call.path.org_id), SetupLinkId(call.path.link_id))
    return setup_link_record(found, postern.foundation.clock.now(), postern)


@endpoint.delete(_LINK, caller=PLATFORM_OWNER, status=204, refuses=(NotFound,), tags=_TAGS)
async def revoke_customer_link(call: Call[None, None, CustomerLinkPath], postern: Postern) -> NoBody:
    """Revoke a setup link of a customer

    The link stops working with the next request, and its drafts are deleted, unless they are active. Only links that platform owners
    created can be revoked here. This cannot be undone.
    """
    path = call.path
    await postern.tenancy.setup_links.revoke_for_platform(call.caller, OrganizationId(path.org_id), SetupLinkId(path.link_id), call.actor)
    return NO_BODY


@endpoint.post(f"{_LINK}/release", caller=PLATFORM_OWNER, limit=CREDENTIALS, status=204, refuses=(NotFound,), tags=_TAGS)
async def release_customer_link(call: Call[None, None, CustomerLinkPath], postern: Postern) -> NoBody:
    """Release a setup link of a customer from its browser

    The next browser that presses the link's button can use it, and continues where the previous browser stopped. Only links that platform
    owners created can be released here.
    """
    path = call.path
    await postern.tenancy.setup_links.release_for_platform(call.caller, OrganizationId(path.org_id), SetupLinkId(path.link_id), call.actor)
    return NO_BODY
