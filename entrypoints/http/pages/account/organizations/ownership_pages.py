"""`/ui/organizations/{org_slug}/ownership`: a new owner says whether the organization is theirs."""

from typing import Final, Literal
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, NotFound
from core.domain.identifiers import OrganizationId
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import ORGANIZATIONS, Page, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

_OWNERSHIP: Final = f"{ORGANIZATIONS}/{{org_slug}}/ownership"


class OwnershipForm(BoundForm, frozen=True, kw_only=True):
    organization: UUID
    """The organization's id. By now the slug may belong to another organization."""
    answer: Literal["confirm", "decline"]


@page.get(_OWNERSHIP, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_ownership(call: Call[None, None, OrganizationPath], postern: Postern) -> Page:
    """Ask whether an organization is yours that others have made you the owner of"""
    one = await postern.tenancy.ownerships.of(call.caller, call.path.org_slug)
    place = f"{ORGANIZATIONS}/{one.organization.slug}"
    if not one.is_unconfirmed_owner:
        # The person has answered in another tab, or by an act of the owner.
        return redirect(place)
    content = show(call, postern, "organizations/ownership.html", ORGANIZATIONS, one=one, action=f"{place}/ownership", back=place)
    return Answer(content, 200)


@page.post(_OWNERSHIP, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(BadRequest, Forbidden, NotFound))
async def send_ownership(call: Call[OwnershipForm, None, OrganizationPath], postern: Postern) -> Page:
    """Confirm the ownership of an organization, or decline it

    The same answer, sent twice, is no error.
    """
    organization, confirms = OrganizationId(call.body.organization), call.body.answer == "confirm"
    ownerships = postern.tenancy.ownerships
    await (ownerships.confirm if confirms else ownerships.decline)(call.caller, organization)
    return back_to(f"{ORGANIZATIONS}/{call.path.org_slug}", "owned" if confirms else "declined")
