"""`/ui/invitations`: the built-in page behind the link of an invitation, for installations without another frontend. The page works
without scripts. A person who comes by the mail of our own server, and whose account nobody has used, chooses a password on the same page.
"""

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from core.domain.branding import POSTERN
from core.domain.errors import (
    BadRequest,
    InvitationExpired,
    OrganizationNotActive,
    Overloaded,
    RateLimited,
    TeamLimitExceeded,
    Unauthorized,
)
from core.domain.identifiers import UserId
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowPurpose, Wanted, form_token
from core.domain.identity.profiles import LONGEST_NAME
from core.domain.identity.realms import ProviderRequired
from core.domain.secrets import Password, Token
from core.domain.tenancy.invitations import InvitationOffer, InvitationStatus
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import session_token
from entrypoints.http.machinery.browsers import IN_FLOW, SIGN_IN, FlowForm, bound_key, bound_to
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS
from entrypoints.http.page_addresses import ORGANIZATIONS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import TO_CONFIRM_ADDRESS, TO_SIGN_IN, WITH_FORM, Advised, in_words, page
from entrypoints.http.pages.kit.flows import (
    NO_ERRORS,
    PASSWORD,
    SECOND_FACTOR,
    AnyCall,
    MakesPasskeys,
    Page,
    browser_secret,
    signed_in,
    to,
    visit,
    with_headers,
)
from entrypoints.http.pages.sign_in.sign_in_pages import at_provider

_PAGE: Final = "/ui/invitations/accept"
_HERE: Final = f"{_PAGE}/password"
_ACCEPTED: Final = "/ui/invitations/accepted"
_DECLINED: Final = "/ui/invitations/declined"


class OpenedInvitation(msgspec.Struct, frozen=True):
    token: Token = Token("")


class InvitationForm(msgspec.Struct, frozen=True):
    token: Token
    answer: Literal["accept", "decline"]


class FirstPasswordForm(FlowForm, frozen=True, kw_only=True):
    token: Token = Token("")
    name: Line = ""
    password: Password = Password("")
    makes_passkeys: MakesPasskeys = ""
    """Filled in by the script of the page, if the browser can make passkeys."""


def _advice(refused: Refused) -> str | Advised:
    match refused:
        case InvitationExpired():
            return Advised("accept_invitation.expired", TO_SIGN_IN)
        case TeamLimitExceeded():
            return Advised("accept_invitation.full", TO_SIGN_IN)
        case BadRequest(words="address_unproved"):
            return Advised(onward=TO_CONFIRM_ADDRESS)
        case BadRequest(words="invitation_accepted" | "invitation_to_member"):
            return Advised(onward=TO_SIGN_IN)
        case BadRequest():
            return Advised("accept_invitation.otherwise", TO_SIGN_IN)
        case _:
            return ""


@page.get(_PAGE, caller=IN_FLOW, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, InvitationExpired))
async def show_invitation(call: Call[None, OpenedInvitation, None, Caller | None], postern: Postern) -> Answer[bytes]:
    """Show an invitation: the inviting person, the organization and the role

    This looks up the link and leaves it usable, however often a program opens it.
    """
    return await _shown(call, postern, call.query.token, await postern.tenancy.invitations.look(call.query.token))


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
    accepts, signed_in_here = form.answer == "accept", await _signed_in_here(call, postern)
    try:
        if accepts:
            await invitations.accept(form.token, call.actor, signed_in=signed_in_here)
        else:
            await invitations.decline(form.token, call.actor)
    except BadRequest:
        answered = InvitationStatus.ACCEPTED if accepts else InvitationStatus.REJECTED
        if not await invitations.was_just_answered(form.token, answered):
            raise
    if accepts and signed_in_here is not None:
        offer = await _answered(call, form.token, postern)
        if offer is not None and offer.account is not None and offer.account.id == signed_in_here:
            return redirect(f"{_place(offer)}?done=joined")
    return redirect(f"{_ACCEPTED if accepts else _DECLINED}?token={quote(form.token.reveal())}")


@page.get(_HERE, caller=ANYONE, limit=PAGE_LOADS)
def show_invitation_again(call: Call[None, OpenedInvitation], _postern: Postern) -> Answer[NoBody]:
    """Go to the page of the invitation, for people who reload this address"""
    return redirect(f"{_PAGE}?token={quote(call.query.token.reveal())}")


@page.post(
    _HERE,
    caller=IN_FLOW,
    limit=AUTH,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(BadRequest, InvitationExpired, TeamLimitExceeded, OrganizationNotActive, Overloaded, RateLimited),
)
async def accept_invitation_with_password(call: Call[FirstPasswordForm, None, None, Caller | None], postern: Postern) -> Page:
    """Accept an invitation, choose the first password of your account, and be signed in

    Only for the link that our own mail server sent, and for an account that nobody has used.
    """
    form, invitations = call.body, postern.tenancy.invitations
    offer = await invitations.answered(form.token)
    call.speak_for(offer.organization)
    errors, text = {}, shipped_pages().text(call.language)
    try:
        postern.identity.profiles.named(form.name)
    except BadRequest as refusal:
        errors["name"] = in_words(refusal, text)
    fitting, rules = None, postern.identity.account_passwords.rules
    try:
        fitting = await rules.fitting(form.password, offer.invitation.email, offer.password_standing)
    except BadRequest as refusal:
        errors["password"] = in_words(refusal, text)
    if errors or fitting is None:
        shown = await _shown(call, postern, form.token, await invitations.look(form.token), errors, name=form.name)
        return Answer(shown.value, 400, shown.headers)
    repeats = False
    try:
        await invitations.accept_with_password(form.token, fitting, call.actor, name=form.name)
    except BadRequest:
        # When the form is sent twice, the second request signs in as the first did, if it has the same password.
        repeats = offer.by_mail and await invitations.was_just_answered(form.token, InvitationStatus.ACCEPTED)
        if not repeats:
            raise
    return await _signed_in(call, postern, offer, form, repeats=repeats)


@page.get(_ACCEPTED, caller=ANYONE, limit=PAGE_LOADS)
async def invitation_accepted(call: Call[None, OpenedInvitation], postern: Postern) -> bytes:
    """Say that the invitation is accepted, and what comes next"""
    offer = await _answered(call, call.query.token, postern)
    if offer is None:
        return shipped_pages().outcome("invitation_accepted", call.language, good=True, onward=SIGN_IN)
    text = shipped_pages().text(call.language, offer.organization)
    email, onward = offer.invitation.email.address, f"{SIGN_IN}?to={quote(_place(offer))}"
    if not offer.by_mail or offer.account is None:
        # The inviter may be the reader, and must not learn whether the address had an account.
        explained = shipped_pages().paragraphs("invitation_accepted.text", call.language, offer.organization)
    elif offer.account.address_is_proved:
        explained = text("invitation_accepted.known", email=email)
    else:
        explained, onward = text("invitation_accepted.mailed", email=email), ""
    title = text("invitation_accepted.title_of", organization=offer.organization.name)
    return shipped_pages().said(
        title, explained, call.language, good=True, onward=onward, label=text("password.sign_in"), brand=offer.organization
    )


@page.get(_DECLINED, caller=ANYONE, limit=PAGE_LOADS)
async def invitation_declined(call: Call[None, OpenedInvitation], postern: Postern) -> bytes:
    """Say that the invitation is declined"""
    offer = await _answered(call, call.query.token, postern)
    return shipped_pages().outcome("invitation_declined", call.language, good=True, brand=POSTERN if offer is None else offer.organization)


def _place(offer: InvitationOffer) -> str:
    """The page of the organization, for its new member."""
    return f"{ORGANIZATIONS}/{offer.organization_slug}"


async def _signed_in_here(call: AnyCall, postern: Postern) -> UserId | None:
    token = session_token(call.request, postern.foundation.public_url)
    caller = None if token is None else await postern.tenancy.callers.resolve_browser(token, await bound_key(call.request, postern))
    return None if caller is None else caller.user


async def _shown(
    call: AnyCall, postern: Postern, token: Token, offer: InvitationOffer, errors: Mapping[str, str] = NO_ERRORS, *, name: str = ""
) -> Answer[bytes]:
    invitation = offer.invitation
    call.speak_for(offer.organization)
    browser, headers = browser_secret(call, postern)
    body = shipped_pages().page(
        "mailed/invitation.html",
        call.language,
        action=_PAGE,
        token=token.reveal(),
        brand=offer.organization,
        email=invitation.email.address,
        inviter=offer.inviter,
        name=name,
        longest_name=LONGEST_NAME,
        offered=invitation.role,
        role_name=offer.role_name,
        application=offer.application,
        until=invitation.expires_at,
        here=await postern.tenancy.invitations.may_choose_password(offer),
        accept_here=_HERE,
        passkeys=postern.identity.passkeys.obstacle is None,
        form_token=form_token(browser, bound_to("")),
        # Whoever reads the mail that our own server sent may learn that the address has an account.
        known=offer.by_mail and offer.account is not None and offer.account.address_is_proved,
        errors=errors,
        shortest=postern.identity.account_passwords.rules.shortest_for(offer.password_standing),
        longest=LONGEST_PASSWORD,
    )
    return Answer(body, 200, headers)


async def _signed_in(call: AnyCall, postern: Postern, offer: InvitationOffer, form: FirstPasswordForm, *, repeats: bool) -> Page:
    """The person has just chosen this password, so it is the proof that they are signed in by: second factor, rules, limits, and the offer
    of a passkey, are those of every sign-in.
    """
    email = offer.invitation.email
    browser, headers = browser_secret(call, postern)
    request = {"to": f"{_place(offer)}?done=joined"}
    wanted = Wanted(organization=offer.organization_slug)
    flow = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, request, wanted, email=email.address)
    try:
        entered = await postern.identity.browser_sessions.sign_in_with_password(
            await visit(call, postern, flow, makes_passkeys=form.makes_passkeys), email, form.password
        )
    except ProviderRequired as refusal:
        return await at_provider(call, postern, flow, refusal)
    except (BadRequest, Unauthorized, RateLimited):
        if repeats:
            raise BadRequest(words="invitation_accepted") from None
        # The invitation is accepted, and the password is chosen: the person signs in with it on the page for that.
        return to(PASSWORD, flow)
    return with_headers(headers, to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered))


async def _answered(call: AnyCall, token: Token, postern: Postern) -> InvitationOffer | None:
    """None for a token that is not valid, or not any more: the page then names no organization."""
    try:
        offer = await postern.tenancy.invitations.answered(token)
    except (BadRequest, InvitationExpired):
        return None
    call.speak_for(offer.organization)
    return offer
