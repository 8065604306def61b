"""`/ui/organizations`: the person's organizations, invitations and requests to join."""

from math import ceil
from typing import Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import (
    BadRequest,
    Forbidden,
    InvitationExpired,
    NotFound,
    OrganizationNotActive,
    Refusal,
    TeamLimitExceeded,
)
from core.domain.identifiers import InvitationId, OrganizationId
from core.domain.secrets import Token
from core.domain.tenancy.invitations import InvitationStatus, OwnInvitation
from core.domain.tenancy.organizations import OrganizationOverview
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BROWSER_OR_ACTING, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.machinery.limits import INVITATION_ANSWERS, PAGE_LOADS
from entrypoints.http.pages.account import NO_ERRORS, ON_A_PAGE, ORGANIZATIONS, AnyCall, Done, Listing, Page, back_to, set_up_first, show
from entrypoints.http.pages.declaring import TO_CONFIRM_ADDRESS, WITH_FORM, Advised, page

_OPENED: Final = {
    "confirmed": "confirm_membership.done_confirmed",
    "owned": "ownership.done_confirmed",
    "declined": "ownership.done_declined",
    "risk_mailed": "risk_rules.done_mailed",
    "risk_lifted": "risk_rules.done_lifted",
    "joined": "organization.done_joined",
}
_LEFT: Final = {"left": "confirm_membership.done_left"}
_ONE: Final = f"{ORGANIZATIONS}/{{org_slug}}"
_INVITATIONS: Final = f"{ORGANIZATIONS}/invitations"
_INVITATION: Final = f"{_INVITATIONS}/{{invitation_id}}"
_MEMBERSHIP: Final = f"{_ONE}/membership"
# The address is not below the list of organizations, because an organization may have `join-requests` as its slug.
_REQUESTS: Final = "/ui/join-requests"
_DONE: Final = {
    "joined": "own_invitations.done_joined",
    "declined": "own_invitations.done_declined",
    "answered": "own_invitations.done_answered",
}


class InvitationPath(msgspec.Struct, frozen=True):
    invitation_id: UUID


class MembershipForm(BoundForm, frozen=True, kw_only=True):
    organization: UUID
    """The organization's id. By now the slug may belong to another organization."""
    answer: Literal["accept", "leave", "disown"]


class AnswerForm(BoundForm, frozen=True, kw_only=True):
    invitation: Token
    """The token that the list showed in this session."""
    answer: Literal["accept", "decline"]


@page.get(ORGANIZATIONS, caller=BROWSER_OR_ACTING, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_organizations(call: Call[None, Listing], postern: Postern) -> bytes:
    """List your organizations"""
    link = call.query
    organizations = await postern.tenancy.organizations.list(call.caller.user, call.caller.session)
    return show(
        call,
        postern,
        "organizations/organizations.html",
        ORGANIZATIONS,
        organizations=organizations[link.part.offset : link.part.offset + ON_A_PAGE],
        status=_status,
        done=_LEFT.get(link.done, ""),
        opened=call.caller.chosen_organization,
        invitations=_INVITATIONS,
        requests=_REQUESTS,
        number=link.page,
        pages=ceil(len(organizations) / ON_A_PAGE),
    )


@page.get(_ONE, caller=BROWSER_OR_ACTING, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_organization(call: Call[None, Done, OrganizationPath], postern: Postern) -> bytes:
    """See one of your organizations"""
    for one in await postern.tenancy.organizations.list(call.caller.user, call.caller.session):
        if one.organization.slug == call.path.org_slug:
            return show(
                call,
                postern,
                "organizations/organization.html",
                ORGANIZATIONS,
                one=one,
                not_active=f"organization.not_active.{one.organization.status.value}",
                applications=await postern.identity.account_summaries.applications(call.caller.user, call.path.org_slug),
                back=ORGANIZATIONS,
                set_up=set_up_first(f"{ORGANIZATIONS}/{one.organization.slug}"),
                done=_OPENED.get(call.query.done, ""),
            )
    raise NotFound("There is no such organization", words="organization_unknown")


@page.get(_MEMBERSHIP, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_listed_membership(call: Call[None, None, OrganizationPath], postern: Postern) -> Page:
    """Ask whether you belong to an organization that lists you as its member"""
    for one in await postern.tenancy.members.listed(call.caller, call.path.org_slug, most=1):
        content = show(
            call,
            postern,
            "organizations/membership.html",
            ORGANIZATIONS,
            one=one,
            action=f"{ORGANIZATIONS}/{one.organization_slug}/membership",
            back=ORGANIZATIONS,
        )
        return Answer(content, 200)
    # The person has answered in another tab, or is no longer a member.
    return redirect(ORGANIZATIONS)


def _advice(refused: Refused) -> str | Advised:
    return Advised(onward=TO_CONFIRM_ADDRESS) if isinstance(refused, Refusal) and refused.words == "address_unproved" else ""


@page.post(_MEMBERSHIP, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, Forbidden, NotFound))
async def answer_listed_membership(call: Call[MembershipForm, None, OrganizationPath], postern: Postern) -> Page:
    """Confirm that you belong to an organization, decline its ownership, or leave it

    The same answer, sent twice, is no error.
    """
    organization = OrganizationId(call.body.organization)
    if call.body.answer == "accept":
        await postern.tenancy.members.confirm(call.caller, [organization])
        return back_to(f"{ORGANIZATIONS}/{call.path.org_slug}", "confirmed")
    if call.body.answer == "disown":
        await postern.tenancy.ownerships.decline(call.caller, organization)
        return back_to(f"{ORGANIZATIONS}/{call.path.org_slug}", "declined")
    await postern.tenancy.members.leave(call.caller, organization)
    return back_to(ORGANIZATIONS, "left")


@page.get(_INVITATIONS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_own_invitations(call: Call[None, Listing], postern: Postern) -> bytes:
    """List the invitations that you can answer"""
    invitations = [one for one, _ in await postern.tenancy.invitations.list_own(call.caller)]
    part = call.query.part
    return show(
        call,
        postern,
        "organizations/invitations.html",
        ORGANIZATIONS,
        invitations=invitations[part.offset : part.offset + ON_A_PAGE],
        place=_INVITATIONS,
        back=ORGANIZATIONS,
        number=call.query.page,
        pages=ceil(len(invitations) / ON_A_PAGE),
        done=_DONE.get(call.query.done, ""),
    )


@page.get(_REQUESTS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_own_join_requests(call: Call, postern: Postern) -> bytes:
    """List the organizations that you have asked to join, and that have not answered yet"""
    requests = await postern.tenancy.join_requests.list_own(call.caller.user)
    return show(call, postern, "organizations/join_requests.html", ORGANIZATIONS, requests=requests, back=ORGANIZATIONS)


@page.get(_INVITATION, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_own_invitation(call: Call[None, None, InvitationPath], postern: Postern) -> bytes:
    """Ask whether you accept an invitation"""
    invitation, token = await _own(call, postern)
    return _asked(call, postern, invitation, token)


@page.post(_INVITATION, caller=BROWSER, limit=INVITATION_ANSWERS, policy=WITH_FORM, refuses=(NotFound,))
async def answer_own_invitation(call: Call[AnswerForm, None, InvitationPath], postern: Postern) -> Page:
    """Accept or decline an invitation

    The same answer, sent twice, is no error.
    """
    form, invitations = call.body, postern.tenancy.invitations
    accepts = form.answer == "accept"
    try:
        await invitations.require_listed(call.caller, InvitationId(call.path.invitation_id), form.invitation)
        await (invitations.accept if accepts else invitations.decline)(form.invitation, call.actor)
    except (TeamLimitExceeded, OrganizationNotActive, InvitationExpired) as refusal:
        invitation, token = await _own(call, postern)
        return Answer(_asked(call, postern, invitation, token, refusal), 400)
    except BadRequest:
        answered = InvitationStatus.ACCEPTED if accepts else InvitationStatus.REJECTED
        if not await invitations.was_just_answered(form.invitation, answered):
            # The person has answered in another tab, or the invitation was withdrawn. The list shows the invitations that are left.
            return back_to(_INVITATIONS, "answered")
    return back_to(_INVITATIONS, "joined" if accepts else "declined")


def _status(one: OrganizationOverview) -> str:
    return f"organizations.status.{one.organization.status.value}"


async def _own(call: AnyCall, postern: Postern) -> tuple[OwnInvitation, Token]:
    for one, token in await postern.tenancy.invitations.list_own(call.caller):
        if one.id == call.path.invitation_id:
            return one, token
    raise NotFound("There is no such invitation", words="invitation_unknown")


def _asked(call: AnyCall, postern: Postern, invitation: OwnInvitation, token: Token, refusal: Refusal | None = None) -> bytes:
    return show(
        call,
        postern,
        "organizations/invitation.html",
        ORGANIZATIONS,
        invitation=invitation,
        token=token.reveal(),
        action=f"{_INVITATIONS}/{invitation.id}",
        back=_INVITATIONS,
        errors=NO_ERRORS if refusal is None else {"": refusal},
    )
