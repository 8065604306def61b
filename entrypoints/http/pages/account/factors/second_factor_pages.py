"""`/ui/second-factor`: two-step sign-in: turning it on with a QR code and a first code, its backup codes, and turning it off."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from markupsafe import Markup

from core.domain.errors import BadRequest, RateLimited, ReauthenticationRequired, Refusal, Unauthorized
from core.domain.identity.mfa import LONGEST_CODE, CodesShown, SetUp
from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, SECOND_FACTOR, BoundForm, proof_page
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import MFA_CHANGES, MFA_SETUP, MFA_VERIFY, PAGE_LOADS
from entrypoints.http.pages.account import AnyCall, Done, Page, ask, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.flows import own_place

_SET_UP: Final = f"{SECOND_FACTOR}/set-up"
_CODES: Final = f"{SECOND_FACTOR}/backup-codes"
_RENEW: Final = f"{_CODES}/renew"
_BY_PASSKEYS: Final = f"{SECOND_FACTOR}/passkeys"
_OFF: Final = f"{SECOND_FACTOR}/turn-off"
_DONE: Final = {"off": "two_step.done_off", "expired": "two_step.done_expired"}
# When a form is sent twice, the second request gets one of these refusals.
_ON: Final = "second_factor_enabled"


class SetUpLink(Done, frozen=True):
    to: str = ""
    """The page of ours that the person came from. The person goes back there once a second factor is set up."""


class CodesLink(msgspec.Struct, frozen=True):
    form: UUID | None = None
    to: str = ""


class SetUpForm(BoundForm, frozen=True, kw_only=True):
    to: str = ""


class FirstCodeForm(BoundForm, frozen=True, kw_only=True):
    form: UUID
    code: str = ""
    to: str = ""


class PasskeysForm(BoundForm, frozen=True, kw_only=True):
    form: UUID
    to: str = ""


class RenewForm(BoundForm, frozen=True, kw_only=True):
    form: UUID


@page.get(SECOND_FACTOR, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def show_second_factor_state(call: Call[None, SetUpLink], postern: Postern) -> bytes:
    """See whether two-step sign-in is on"""
    summary = await postern.identity.account_summaries.of(call.caller.user, call.caller.session)
    done = _DONE.get(call.query.done, "")
    return show(
        call,
        postern,
        "factors/two_step.html",
        SECOND_FACTOR,
        summary=summary,
        action=SECOND_FACTOR,
        renew=_RENEW,
        turn_off=_OFF,
        by_passkeys=_with(_BY_PASSKEYS, to=call.query.to),
        hidden=_hidden(call.query.to),
        done=done,
    )


@page.post(SECOND_FACTOR, caller=BROWSER, limit=(MFA_SETUP, MFA_CHANGES), policy=WITH_FORM, refuses=(Unauthorized,))
async def begin_set_up(call: Call[SetUpForm], postern: Postern) -> Page:
    """Begin to set up two-step sign-in

    This makes a new secret, and leads to the page that shows it. If two-step sign-in is already on, it stays as it is.
    """
    identity = postern.identity
    try:
        # The proof is asked for here, and not in the declaration: the page of the proof must lead back to the place that the form names.
        await identity.reauthentication.require(call.caller, StepUp.ACCOUNT)
        await identity.reauthentication.with_app(call.caller, lambda proved: identity.mfa.set_up(call.caller, call.actor, proved=proved))
    except ReauthenticationRequired:
        return redirect(proof_page(_with(SECOND_FACTOR, to=call.body.to), StepUp.ACCOUNT))
    except BadRequest:
        return redirect(_onward(call.body.to))
    return redirect(_with(_SET_UP, to=call.body.to))


@page.get(_SET_UP, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT)
async def show_set_up(call: Call[None, SetUpLink], postern: Postern) -> Page:
    """Show the secret, and ask for a first code"""
    pending = await postern.identity.mfa.pending(call.caller)
    if pending is None:
        return _expired(call.query.to)
    return Answer(_set_up(call, postern, pending, call.query.to), 200)


@page.post(_SET_UP, caller=BROWSER, limit=(MFA_VERIFY, MFA_CHANGES), policy=WITH_FORM, refuses=(Unauthorized, RateLimited))
async def turn_on(call: Call[FirstCodeForm], postern: Postern) -> Page:
    """Turn on two-step sign-in with a first code

    The form leads to the page that shows the backup codes. The same form, sent twice, leads to the same codes.
    """
    form, identity = call.body, postern.identity
    try:
        await identity.reauthentication.require(call.caller, StepUp.ACCOUNT)
        await identity.reauthentication.with_app(
            call.caller, lambda proved: identity.mfa.enable(call.caller, call.actor, form.code, form.form, proved=proved)
        )
    except ReauthenticationRequired:
        return redirect(proof_page(_with(_SET_UP, to=form.to), StepUp.ACCOUNT))
    except BadRequest as refusal:
        if refusal.words != _ON:
            pending = await identity.mfa.pending(call.caller)
            return _expired(form.to) if pending is None else Answer(_set_up(call, postern, pending, form.to, refusal), 400)
    return redirect(_with(_CODES, form=str(form.form), to=form.to))


@page.get(_BY_PASSKEYS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT)
def ask_to_turn_on_by_passkeys(call: Call[None, SetUpLink], postern: Postern) -> bytes:
    """Ask before passkeys become the second factor"""
    return _ask_for_passkeys(call, postern, call.query.to)


@page.post(_BY_PASSKEYS, caller=BROWSER, limit=(MFA_SETUP, MFA_CHANGES), policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(Unauthorized,))
async def turn_on_by_passkeys(call: Call[PasskeysForm], postern: Postern) -> Page:
    """Turn on two-step sign-in with passkeys

    The form leads to the page that shows the backup codes. The same form, sent twice, leads to the same codes.
    """
    form = call.body
    try:
        await postern.identity.mfa.enable_by_passkeys(call.caller, call.actor, form.form)
    except BadRequest as refusal:
        if not await postern.identity.mfa.has_made_codes(call.caller, form.form):
            return Answer(_ask_for_passkeys(call, postern, form.to, refusal), 400)
    return redirect(_with(_CODES, form=str(form.form), to=form.to))


@page.get(_CODES, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def show_backup_codes(call: Call[None, CodesLink], postern: Postern) -> Page:
    """Show the backup codes that were just made

    The codes are shown once, in the session that made them, within ten minutes, and while no code has been used. A second visit says so,
    and offers new ones.
    """
    onward = _onward(call.query.to)
    try:
        codes = None if call.query.form is None else await postern.identity.mfa.show_codes(call.caller, call.actor, call.query.form)
    except CodesShown:
        return Answer(show(call, postern, "factors/backup_codes_shown.html", SECOND_FACTOR, renew=_RENEW, onward=onward), 200)
    if codes is None:
        return redirect(onward)
    shown = [code.reveal() for code in codes]
    return Answer(show(call, postern, "factors/backup_codes.html", SECOND_FACTOR, codes=shown, onward=onward), 200)


@page.get(_RENEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR)
def ask_for_renewal(call: Call, postern: Postern) -> bytes:
    """Ask before the backup codes are replaced"""
    hidden = {"form": _new_form(postern)}
    return ask(
        call, postern, SECOND_FACTOR, _RENEW, name="two_step_renew", button="two_step_renew.button", back=SECOND_FACTOR, hidden=hidden
    )


@page.post(_RENEW, caller=BROWSER, limit=(MFA_SETUP, MFA_CHANGES), policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR, refuses=(Unauthorized,))
async def renew_own_backup_codes(call: Call[RenewForm], postern: Postern) -> Page:
    """Replace the backup codes"""
    try:
        await postern.identity.mfa.renew_backup_codes(call.caller, call.actor, call.body.form)
    except BadRequest:
        return redirect(SECOND_FACTOR)
    return redirect(f"{_CODES}?form={call.body.form}")


@page.get(_OFF, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR, refuses=(Unauthorized,))
async def ask_to_turn_off(call: Call, postern: Postern) -> bytes:
    """Ask before two-step sign-in is turned off"""
    summary = await postern.identity.account_summaries.of(call.caller.user)
    requiring = [one.name for one in summary.requiring]
    name = "two_step_off_closing" if requiring else "two_step_off" if summary.has_authenticator else "two_step_off_passkeys"
    return ask(call, postern, SECOND_FACTOR, _OFF, name=name, button="two_step_off.button", back=SECOND_FACTOR, ends=requiring)


@page.post(_OFF, caller=BROWSER, limit=(MFA_SETUP, MFA_CHANGES), policy=WITH_FORM, step_up=StepUp.SECOND_FACTOR, refuses=(Unauthorized,))
async def turn_off(call: Call[BoundForm], postern: Postern) -> Page:
    """Turn off two-step sign-in"""
    await postern.identity.mfa.disable(call.caller, call.actor)
    return back_to(SECOND_FACTOR, "off")


def _expired(to: str) -> Page:
    return redirect(_with(SECOND_FACTOR, done="expired", to=to))


def _onward(to: str) -> str:
    return own_place(to) if to else SECOND_FACTOR


def _hidden(to: str) -> Mapping[str, str]:
    return {"to": own_place(to)} if to else {}


def _with(place: str, **query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{place}?{urlencode(given, safe='/')}" if given else place


def _ask_for_passkeys(call: AnyCall, postern: Postern, to: str, refusal: Refusal | None = None) -> bytes:
    return ask(
        call,
        postern,
        SECOND_FACTOR,
        _BY_PASSKEYS,
        name="two_step_passkeys",
        button="two_step_passkeys.button",
        back=_onward(to),
        hidden={"form": _new_form(postern), **_hidden(to)},
        refusal=refusal,
        kind="primary",
    )


def _set_up(call: AnyCall, postern: Postern, pending: SetUp, to: str, refusal: Refusal | None = None) -> bytes:
    return show(
        call,
        postern,
        "factors/set_up.html",
        SECOND_FACTOR,
        action=_SET_UP,
        back=_onward(to),
        hidden={"form": _new_form(postern), **_hidden(to)},
        # We draw this SVG ourselves. It has the secret only in its lines, and contains no text that would need escaping.
        qr_code=Markup(pending.qr_code.reveal()),  # noqa: S704
        secret=pending.secret.reveal(),
        uri=pending.uri.reveal(),
        longest=LONGEST_CODE,
        errors={} if refusal is None else {"code": refusal},
    )


def _new_form(postern: Postern) -> str:
    """A random id for the form. The backup codes are derived from it: see `Mfa.shown_codes`."""
    return str(postern.foundation.ids.new())
