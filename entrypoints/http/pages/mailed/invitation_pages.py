"""`/ui/invitations`: the built-in page behind the link of an invitation, for installations without another frontend. The page works
without scripts.
"""

from typing import Final, Literal

import msgspec

from core.domain.errors import BadRequest, InvitationExpired, OrganizationNotActive, TeamLimitExceeded
from core.domain.secrets import Token
from core.domain.tenancy.invitations import InvitationStatus
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import SIGN_IN
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS, UNLIMITED
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import TO_SIGN_IN, WITH_FORM, Advised, page

_PAGE: Final = "/ui/invitations/accept"
_ACCEPTED: Final = "/ui/invitations/accepted"
_DECLINED: Final = "/ui/invitations/declined"


class OpenedInvitation(msgspec.Struct, frozen=True):
    token: Token = Token("")


class InvitationForm(msgspec.Struct, frozen=True):
    token: Token
    answer: Literal["accept", "decline"]


def _advice(refused: Refused) -> str | Advised:
    match refused:
        case InvitationExpired():
            return Advised("accept_invitation.expired", TO_SIGN_IN)
        case TeamLimitExceeded():
            return Advised("accept_invitation.full", TO_SIGN_IN)
        case BadRequest(words="invitation_accepted" | "invitation_to_member"):
            return Advised(onward=TO_SIGN_IN)
        case BadRequest():
            return Advised("accept_invitation.otherwise", TO_SIGN_IN)
        case _:
            return ""


@page.get(_PAGE, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, InvitationExpired))
async def show_invitation(call: Call[None, OpenedInvitation], postern: Postern) -> bytes:
    """Show an invitation: the inviting person, the organization and the role

    This looks up the link and leaves it usable, however often a program opens it.
    """
    token = call.query.token
    offer = await postern.tenancy.invitations.look(token)
    invitation = offer.invitation
    return shipped_pages().page(
        "mailed/invitation.html",
        call.language,
        action=_PAGE,
        token=token.reveal(),
        brand=offer.organization,
        email=invitation.email.address,
        offered=invitation.role,
        role_name=offer.role_name,
        until=invitation.expires_at,
    )


@page.post(
    _PAGE,
    caller=ANYONE,
    limit=AUTH,
    advice=_advice,
    refuses=(BadRequest, InvitationExpired, TeamLimitExceeded, OrganizationNotActive),
)
async def answer_invitation_by_form(call: Call[InvitationForm], postern: Postern) -> Answer[NoBody]:
    """Accept or decline an invitation"""
    form, invitations = call.body, postern.tenancy.invitations
    accepts = form.answer == "accept"
    try:
        await (invitations.accept if accepts else invitations.decline)(form.token, call.actor)
    except BadRequest:
        answered = InvitationStatus.ACCEPTED if accepts else InvitationStatus.REJECTED
        if not await invitations.was_just_answered(form.token, answered):
            raise
    return redirect(_ACCEPTED if accepts else _DECLINED)


@page.get(_ACCEPTED, caller=ANYONE, limit=UNLIMITED)
def invitation_accepted(call: Call, _postern: Postern) -> bytes:
    """Say that the invitation is accepted"""
    return shipped_pages().outcome("invitation_accepted", call.language, good=True, onward=SIGN_IN)


@page.get(_DECLINED, caller=ANYONE, limit=UNLIMITED)
def invitation_declined(call: Call, _postern: Postern) -> bytes:
    """Say that the invitation is declined"""
    return shipped_pages().outcome("invitation_declined", call.language, good=True)
