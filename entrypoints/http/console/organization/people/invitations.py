"""Invitations, a page that invites several people at once, and requests of people who want to become members."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound, RateLimited, Refusal
from core.domain.secrets import Token
from core.domain.tenancy.invitations import InvitationStatus
from core.domain.tenancy.join_requests import JoinRequestStatus
from core.domain.tenancy.members import Member
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, in_words, plain, role, role_in_words, sentence, state, when
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Choice, OnlyFill
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Bulk, Filter, Resource
from entrypoints.http.console.kit.visit import NO_ERRORS, ButtonLink, Head, Page, PageVisit
from entrypoints.http.console.organization.organization_tabs import (
    APPLICATIONS,
    INVITATIONS_TAB,
    PEOPLE,
    PEOPLE_ENTRY,
    REQUESTS_TAB,
    position,
)
from entrypoints.http.console.organization.people.roles import roles
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Lines, OrganizationPath
from entrypoints.http.pages.development import NewMails, mail_list
from entrypoints.http.routes.services.services import get_service
from entrypoints.http.routes.tenancy.joining import (
    NewInvitation,
    accept_invitation_on_behalf,
    approve_join_request,
    cancel_invitation,
    create_invitation,
    decline_join_request,
    list_invitations,
    list_join_requests,
)
from ports.texts import Text

MOST_INVITED: Final = 50
"""People that one form invites."""
_AT: Final = f"{PEOPLE}/invitations"
_NEW: Final = f"{_AT}/~new"
_APPLICATION: Final = f"{APPLICATIONS}/{{service_slug}}"
_STATES: Final = {
    InvitationStatus.PENDING: ("console.value.state.pending", Tone.WARN),
    InvitationStatus.ACCEPTED: ("console.value.state.accepted", Tone.GOOD),
    InvitationStatus.REJECTED: ("console.value.state.rejected", Tone.PLAIN),
    InvitationStatus.CANCELLED: ("console.value.state.cancelled", Tone.PLAIN),
    InvitationStatus.EXPIRED: ("console.value.state.expired", Tone.PLAIN),
}


_UNANSWERED: Final = frozenset({InvitationStatus.PENDING, InvitationStatus.EXPIRED})


async def _statuses(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("state", one, visit.text)) for one in InvitationStatus]


def _sending_key(one: Any) -> str | None:
    """Once the key has ended, nobody knows its name."""
    return None if one.management_key is None else one.management_key.name or str(one.management_key.id)


_INVITER: Final = plain("inviter.email", "console.field.invited_by", beside="inviter.name")
_SENT: Final = (plain(_sending_key, "console.field.sending_key"), when("invitation.created_at"), when("invitation.expires_at"))


def _sender(one: Any, text: Text) -> str:
    """Who invited, in a line: the person, or the key."""
    key = _sending_key(one)
    return text("console.invitations.by_key", name=key) if key else one.inviter.name or one.inviter.email


def _ends(one: Any) -> Any:
    """What was answered or withdrawn does not end any more."""
    return one.invitation.expires_at if _may_be_sent_again(one) else None


def _is_pending(one: Any) -> bool:
    return bool(one.invitation.status is InvitationStatus.PENDING)


def _may_be_sent_again(one: Any) -> bool:
    return one.invitation.status in _UNANSWERED


def _again(one: Any) -> NewInvitation:
    """The same invitation once more. The former link stops working, if it works still."""
    return NewInvitation(one.invitation.email, one.invitation.role, UUID(str(one.invitation.id)) if _is_pending(one) else None)


INVITATIONS: Final = Resource(
    name="invitations",
    position=position(PEOPLE_ENTRY, INVITATIONS_TAB),
    beneath=((REQUESTS_TAB.title, REQUESTS_TAB.at, list_join_requests),),
    at=_AT,
    listed=list_invitations,
    columns=(
        replace(plain("invitation.email"), beside_said=lambda one, text: role_in_words(one.invitation.role, text)),
        state("invitation.status", _STATES),
        sentence(_sender, _INVITER.label),
        when(_ends, "console.field.expires_at"),
    ),
    facts=(
        role("invitation.role"),
        _INVITER,
        *_SENT,
    ),
    filters=(Filter("status", "console.field.state", _statuses),),
    parameter="invitation_id",
    key=lambda one: one.invitation.id,
    called=lambda one: str(one.invitation.email),
    state=(lambda one: one.invitation.status, _STATES.__getitem__),
    acts=(
        Act("resend", create_invitation, shows=_may_be_sent_again, given=_again, on_row=True, leaves=True),
        Act(
            "cancel",
            cancel_invitation,
            asks=True,
            kind="danger",
            shows=_is_pending,
            on_row=True,
            leaves=True,
        ),
        Act("accept", accept_invitation_on_behalf, asks=True, shows=_is_pending),
    ),
    bulks=(Bulk("cancel", cancel_invitation, shows=_is_pending),),
    exported=True,
    in_file=(
        plain("invitation.email"),
        role("invitation.role"),
        state("invitation.status", _STATES),
        _INVITER,
        *_SENT,
    ),
    main=lambda visit: ButtonLink(visit.text("console.invitations.new"), visit.here(_NEW)) if visit.may(create_invitation) else None,
)


ComesFrom = Annotated[str, msgspec.Meta(max_length=100)]
"""The application from whose page somebody came: the way leads back there. Empty from anywhere else."""


class InvitingQuery(msgspec.Struct, frozen=True):
    application: ComesFrom = ""


class InvitingForm(BoundForm, frozen=True, kw_only=True):
    emails: Lines = ""
    """An address on each line."""
    role: Annotated[str, msgspec.Meta(max_length=100)] = "member"
    application: ComesFrom = ""
    only_fill: OnlyFill = ""


@console.get(_NEW, of=create_invitation)
async def ask_whom_to_invite(call: Call[None, InvitingQuery, OrganizationPath, Member], postern: Postern) -> Page:
    """Ask for the addresses of people to invite"""
    return Answer(await _form(PageVisit(call, postern), InvitingForm(form_token=Token(""), application=call.query.application)), 200)


@console.post(_NEW, of=create_invitation, also=(get_service,))
async def send_invitations(call: Call[InvitingForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Invite people, each by a mail of their own

    Each address is invited or refused by itself. The page says which, and keeps the refused addresses in the form.
    """
    visit = PageVisit(call, postern)
    if call.body.only_fill:
        return Answer(await _form(visit, call.body), 200)
    emails = list(dict.fromkeys(line.strip().strip(",;") for line in call.body.emails.splitlines() if line.strip(" ,;\t")))
    if not emails or len(emails) > MOST_INVITED:
        error = visit.text("console.invitations.how_many", most=MOST_INVITED)
        return Answer(await _form(visit, call.body, error=error), 400)
    mails = await NewMails(call.request, postern.settings).mark()
    invited, refused = list[str](), list[tuple[str, str]]()
    for email in emails:
        try:
            await visit.ask(create_invitation, body=NewInvitation(email, call.body.role))
        except RateLimited as refusal:
            refused += [(one, visit.said(refusal)) for one in emails[len(invited) + len(refused) :]]
            break
        except Refusal as refusal:
            refused.append((email, visit.said(refusal)))
        else:
            invited.append(email)
    if refused:
        left = replace(call.body, emails="\n".join(email for email, _ in refused))
        return Answer(await _form(visit, left, invited=invited, refused=refused), 400)
    head = Head(title=visit.text("console.invitations.sent_title"), crumbs=INVITATIONS.above(visit))
    return Answer(
        visit.show(
            "organization/people/invited.html",
            INVITATIONS.position,
            head,
            invited=invited,
            links=await mails.links(invited),
            again=visit.here(_NEW),
            onward=await _application(visit, call.body.application),
            mail=mail_list(call.request, postern.settings),
        ),
        200,
    )


async def _application(visit: PageVisit, slug: str) -> ButtonLink | None:
    """The way back to the application from whose page somebody came, if it is still there for them."""
    if not slug or not visit.may(get_service):
        return None
    with suppress(NotFound):
        name = (await visit.ask(get_service, service_slug=slug)).name
        return ButtonLink(visit.text("console.invitations.onward", application=name), visit.here(_APPLICATION, service_slug=slug))
    return None


async def _form(
    visit: PageVisit,
    given: InvitingForm,
    *,
    error: str = "",
    invited: Sequence[str] = (),
    refused: Sequence[tuple[str, str]] = (),
) -> bytes:
    head = Head(
        title=visit.text("console.invitations.new"),
        crumbs=INVITATIONS.above(visit),
        curl=visit.curl(create_invitation, body={"email": "…", "role": given.role}),
        errors={"emails": error} if error else NO_ERRORS,
    )
    return visit.show(
        "organization/people/invite.html",
        INVITATIONS.position,
        head,
        action=visit.here(_NEW),
        back=visit.here(_AT),
        given=given,
        roles=(chosen := await roles(visit)),
        role_name=next((one.label for one in chosen if one.value == given.role), given.role),
        invited=invited,
        refused=refused,
    )


_JOIN_REQUEST_STATES: Final = {
    JoinRequestStatus.PENDING: ("console.value.state.pending", Tone.WARN),
    JoinRequestStatus.APPROVED: ("console.value.state.approved", Tone.GOOD),
    JoinRequestStatus.DECLINED: ("console.value.state.declined", Tone.PLAIN),
}


async def _statuses_join_request(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("state", one, visit.text)) for one in JoinRequestStatus]


JOIN_REQUESTS: Final = Resource(
    name="requests",
    position=position(PEOPLE_ENTRY, REQUESTS_TAB),
    at=f"{PEOPLE}/requests",
    listed=list_join_requests,
    columns=(plain("email"), state("status", _JOIN_REQUEST_STATES), when("created_at"), when("decided_at")),
    filters=(Filter("status", "console.field.state", _statuses_join_request),),
    parameter="request_id",
    called=lambda one: str(one.email),
    state=(lambda one: one.status, _JOIN_REQUEST_STATES.__getitem__),
    acts=(
        Act("approve", approve_join_request, kind="primary", shows=lambda one: one.status is JoinRequestStatus.PENDING),
        Act("decline", decline_join_request, kind="danger", shows=lambda one: one.status is JoinRequestStatus.PENDING),
    ),
)


console.asked_for("console.invitations.new", _NEW, create_invitation.caller, INVITATIONS.position)

PAGES: Final = (*pages(INVITATIONS), ask_whom_to_invite, send_invitations, *pages(JOIN_REQUESTS))
