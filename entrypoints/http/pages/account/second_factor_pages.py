"""`/ui/second-factor`: two-step sign-in, turned on with a QR code and a first code, and turned off again."""

from typing import Final
from uuid import UUID

import msgspec
from markupsafe import Markup

from core.domain.errors import BadRequest, RateLimited, Refusal, Unauthorized
from core.domain.identity.mfa import LONGEST_CODE, SetUp
from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import MFA_CHANGES, MFA_SETUP, MFA_VERIFY, PAGE_LOADS
from entrypoints.http.pages.account import SECOND_FACTOR, AnyCall, Done, Page, ask, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

_SET_UP: Final = f"{SECOND_FACTOR}/set-up"
_CODES: Final = f"{SECOND_FACTOR}/backup-codes"
_RENEW: Final = f"{_CODES}/renew"
_OFF: Final = f"{SECOND_FACTOR}/turn-off"
_DONE: Final = {"off": "two_step.done_off", "expired": "two_step.done_expired"}


class CodesLink(msgspec.Struct, frozen=True):
    form: UUID | None = None


class FirstCodeForm(BoundForm, frozen=True, kw_only=True):
    form: UUID
    code: str = ""


class RenewForm(BoundForm, frozen=True, kw_only=True):
    form: UUID


@page.get(SECOND_FACTOR, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def show_second_factor_state(call: Call[None, Done], postern: Postern) -> bytes:
    """See whether two-step sign-in is on"""
    summary = await postern.identity.account_summaries.of(call.caller.user)
    done = _DONE.get(call.query.done, "")
    return show(
        call, postern, "two_step.html", SECOND_FACTOR, summary=summary, action=SECOND_FACTOR, renew=_RENEW, turn_off=_OFF, done=done
    )


@page.post(SECOND_FACTOR, caller=BROWSER, limit=(MFA_SETUP, MFA_CHANGES), policy=WITH_FORM)
async def begin_set_up(call: Call[BoundForm], postern: Postern) -> Page:
    """Begin to set up two-step sign-in

    Makes a new secret, and leads to the page that shows it. Two-step sign-in that is on already stays as it is.
    """
    try:
        await postern.identity.mfa.set_up(call.caller, call.actor)
    except BadRequest:
        return redirect(SECOND_FACTOR)
    return redirect(_SET_UP)


@page.get(_SET_UP, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_set_up(call: Call, postern: Postern) -> Page:
    """Show the secret, and ask for a first code"""
    pending = await postern.identity.mfa.pending(call.caller)
    if pending is None:
        return back_to(SECOND_FACTOR, "expired")
    return Answer(_set_up(call, postern, pending), 200)


@page.post(_SET_UP, caller=BROWSER, limit=(MFA_VERIFY, MFA_CHANGES), policy=WITH_FORM, refuses=(RateLimited,))
async def turn_on(call: Call[FirstCodeForm], postern: Postern) -> Page:
    """Turn on two-step sign-in with a first code

    The backup codes are shown on the page that this leads to. The same form, sent twice, leads to the same codes.
    """
    form = call.body
    try:
        await postern.identity.mfa.enable(call.caller, call.actor, form.code, form.form)
    except BadRequest as refusal:
        pending = await postern.identity.mfa.pending(call.caller)
        if pending is not None:
            return Answer(_set_up(call, postern, pending, refusal), 400)
    return redirect(f"{_CODES}?form={form.form}")


@page.get(_CODES, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_backup_codes(call: Call[None, CodesLink], postern: Postern) -> Page:
    """Show the backup codes that were just made

    For ten minutes, in the session that made them, and only while none has been used.
    """
    codes = None if call.query.form is None else await postern.identity.mfa.shown_codes(call.caller, call.query.form)
    if codes is None:
        return redirect(SECOND_FACTOR)
    shown = [code.reveal() for code in codes]
    return Answer(show(call, postern, "backup_codes.html", SECOND_FACTOR, codes=shown, onward=SECOND_FACTOR), 200)


@page.get(_RENEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR)
def ask_for_renewal(call: Call, postern: Postern) -> bytes:
    """Ask before the backup codes are replaced"""
    hidden = {"form": _new_form(postern)}
    return ask(
        call, postern, SECOND_FACTOR, _RENEW, name="two_step_renew", button="two_step_renew.button", back=SECOND_FACTOR, hidden=hidden
    )


@page.post(_RENEW, caller=BROWSER, limit=(MFA_SETUP, MFA_CHANGES), policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR)
async def renew_own_backup_codes(call: Call[RenewForm], postern: Postern) -> Page:
    """Replace the backup codes"""
    try:
        await postern.identity.mfa.renew_backup_codes(call.caller, call.actor, call.body.form)
    except BadRequest:
        return redirect(SECOND_FACTOR)
    return redirect(f"{_CODES}?form={call.body.form}")


@page.get(_OFF, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR)
def ask_to_turn_off(call: Call, postern: Postern) -> bytes:
    """Ask before two-step sign-in is turned off"""
    return ask(call, postern, SECOND_FACTOR, _OFF, name="two_step_off", button="two_step_off.button", back=SECOND_FACTOR)


@page.post(_OFF, caller=BROWSER, limit=(MFA_SETUP, MFA_CHANGES), policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR)
async def turn_off(call: Call[BoundForm], postern: Postern) -> Page:
    """Turn off two-step sign-in"""
    await postern.identity.mfa.disable(call.caller, call.actor)
    return back_to(SECOND_FACTOR, "off")


def _set_up(call: AnyCall, postern: Postern, pending: SetUp, refusal: Refusal | None = None) -> bytes:
    return show(
        call,
        postern,
        "set_up.html",
        SECOND_FACTOR,
        action=_SET_UP,
        back=SECOND_FACTOR,
        form=_new_form(postern),
        # Drawn by us: what it encodes is in its lines, and nowhere as text.
        qr_code=Markup(pending.qr_code.reveal()),  # noqa: S704
        secret=pending.secret.reveal(),
        uri=pending.uri.reveal(),
        longest=LONGEST_CODE,
        errors={} if refusal is None else {"code": refusal},
    )


def _new_form(postern: Postern) -> str:
    """Its codes follow from it: see `Mfa.shown_codes`."""
    return str(postern.foundation.ids.new())
