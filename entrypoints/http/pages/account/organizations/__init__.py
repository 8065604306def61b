"""`/ui/organizations`: the person's organizations, founding one, and what a new owner, or one whom rules keep out, does there."""

from collections.abc import Mapping
from math import ceil
from typing import Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InvitationExpired,
    NotFound,
    OrganizationNotActive,
    RateLimited,
    Refusal,
    TeamLimitExceeded,
)
from core.domain.identifiers import InvitationId, OrganizationId
from core.domain.identity.account_mails import LinkRefused
from core.domain.identity.proofs import StepUp
from core.domain.secrets import Token
from core.domain.tenancy.invitations import InvitationStatus, OwnInvitation
from core.domain.tenancy.organizations import LONGEST_NAME, LONGEST_SLUG, OrganizationOverview
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BROWSER_OR_ACTING, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused, status_of
from entrypoints.http.machinery.fields import Line, OrganizationPath
from entrypoints.http.machinery.limits import INVITATION_ANSWERS, PAGE_LOADS
from entrypoints.http.page_addresses import ORGANIZATIONS
from entrypoints.http.pages.account import NO_ERRORS, ON_A_PAGE, AnyCall, Done, Listing, Page, back_to, set_up_first, show
from entrypoints.http.pages.kit.declaring import TO_CONFIRM_ADDRESS, WITH_FORM, Advised, page

NEW: Final = f"{ORGANIZATIONS}/~new"


class FoundingForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""
    slug: Line = ""


@page.get(NEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
def ask_for_organization(call: Call, postern: Postern) -> bytes:
    """See the form that founds an organization"""
    return _form(call, postern, "", "")


@page.post(NEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(BadRequest, Conflict))
async def found_organization(call: Call[FoundingForm], postern: Postern) -> Page:
    """Found an organization

    You become its owner.
    """
    form = call.body
    slug = form.slug.strip() or suggested(form.name)
    try:
        founded = await postern.tenancy.organizations.found_in_browser(call.caller, slug, form.name, call.actor)
    except (BadRequest, Conflict) as refusal:
        field = refusal.message.partition(":")[0]
        errors = {field if field in {"name", "slug"} else "": refusal}
        return Answer(_form(call, postern, form.name, slug, errors), status_of(refusal))
    return redirect(f"/ui/o/{founded.slug}" if founded.is_active else f"{ORGANIZATIONS}/{founded.slug}")


def suggested(name: str) -> str:
    """A slug for this name. Empty for a name without letters that a slug can have."""
    kept = "".join(one if one.isascii() and one.isalnum() else "-" for one in name.strip().lower())
    return "-".join(filter(None, kept.split("-")))[:LONGEST_SLUG].strip("-")


def _form(call: AnyCall, postern: Postern, name: str, slug: str, errors: Mapping[str, Refusal] = NO_ERRORS) -> bytes:
    return show(
        call,
        postern,
        "organizations/new.html",
        ORGANIZATIONS,
        name=name,
        slug=slug,
        longest_name=LONGEST_NAME,
        longest_slug=LONGEST_SLUG,
        approves=postern.tenancy.organizations.auto_approve or call.caller.is_platform_owner,
        errors=errors,
        action=NEW,
    )


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
                issuer=postern.foundation.public_url,
                back=ORGANIZATIONS,
                set_up=set_up_first(f"{ORGANIZATIONS}/{one.organization.slug}"),
                done=_OPENED.get(call.query.done, ""),
            )
    raise NotFound("Organization not found", words="organization_unknown")


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
    raise NotFound("Invitation not found", words="invitation_unknown")


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


_RISK_RULES: Final = f"{ORGANIZATIONS}/{{org_slug}}/risk-rules"


class RiskRulesLink(msgspec.Struct, frozen=True):
    token: Token = Token("")


class RiskRulesForm(BoundForm, frozen=True, kw_only=True):
    token: Token = Token("")
    """The token of the mailed link. Empty for the form that asks for the mail."""


@page.get(
    _RISK_RULES, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Forbidden, NotFound)
)
async def show_risk_rules(call: Call[None, RiskRulesLink, OrganizationPath], postern: Postern) -> Page:
    """See the rules for risk that refuse sign-ins, by a mailed link, or ask for the link"""
    one = await postern.tenancy.ownerships.of(call.caller, call.path.org_slug)
    place, token = f"{ORGANIZATIONS}/{one.organization.slug}", call.query.token
    has_link = bool(token.reveal())
    lifts = await postern.tenancy.risk_ways_back.look(call.caller, one.organization.id, token) if has_link else ()
    content = show(
        call,
        postern,
        "organizations/risk_rules.html",
        ORGANIZATIONS,
        one=one,
        has_link=has_link,
        is_owner=one.membership.role == BuiltInRole.OWNER,
        lifts=[rule.name for rule in lifts],
        token=token.reveal(),
        action=f"{place}/risk-rules",
        back=place,
    )
    return Answer(content, 200)


@page.post(
    _RISK_RULES,
    caller=BROWSER,
    limit=PAGE_LOADS,
    policy=WITH_FORM,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Forbidden, NotFound, LinkRefused, RateLimited),
)
async def send_risk_rules(call: Call[RiskRulesForm, None, OrganizationPath], postern: Postern) -> Page:
    """Put the rules for risk that refuse back in shadow, or get the link for it by mail"""
    one = await postern.tenancy.ownerships.of(call.caller, call.path.org_slug)
    organization, place = one.organization, f"{ORGANIZATIONS}/{one.organization.slug}"
    ways_back = postern.tenancy.risk_ways_back
    if not call.body.token.reveal():
        await ways_back.ask(call.caller, organization.id, organization.slug)
        return back_to(place, "risk_mailed")
    await ways_back.lift(call.caller, organization.id, call.body.token, call.actor)
    return back_to(place, "risk_lifted")
