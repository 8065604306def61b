"""`/ui/prove`: asks for a fresh proof, and leads back to the page that needs it.

`/ui/second-factor`: two-step sign-in: turning it on with a QR code and a first code, its backup codes, and turning it off.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec
from markupsafe import Markup

from core.domain.errors import BadRequest, Forbidden, Overloaded, RateLimited, ReauthenticationRequired, Refusal, Unauthorized
from core.domain.identity.account_mails import LONGEST_TYPED_CODE, AccountMail, Onward, read_code
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.flows import FlowOver
from core.domain.identity.mfa import LONGEST_CODE, CodesShown, SetUp
from core.domain.identity.passkeys import Ceremony, PasskeyChallengeOver, PasskeyRefused, bound_to_session
from core.domain.identity.proofs import ProofMethod, StepUp
from core.domain.identity.realms import ProviderRequired
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, PROVE, SECOND_FACTOR, BoundForm, proof_page, sign_in_again
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.machinery.limits import (
    FORGOT_PASSWORD,
    MFA_CHANGES,
    MFA_SETUP,
    MFA_VERIFY,
    PAGE_LOADS,
    PAGE_SIGN_INS,
    PAGE_STEPS,
    UNLIMITED,
)
from entrypoints.http.pages.account import AnyCall, Done, Page, ask, back_to, show
from entrypoints.http.pages.kit.declaring import WITH_FORM, WITH_PASSKEYS, page
from entrypoints.http.pages.kit.flows import flow_of, own_place
from entrypoints.http.pages.sign_in.passkey_pages import as_json, read
from entrypoints.http.passkeys import AssertionCredential, request_options

_ASKED: Final = {asked.name.lower(): asked for asked in StepUp}


class ProofLink(msgspec.Struct, frozen=True):
    to: Line = ""
    """The page that needs the proof."""
    need: Line = ""
    flow: Line = ""
    """The flow of an application that wants a proof from after its request."""
    mailed: Line = ""
    """Not empty once a code was mailed."""
    reset: Line = ""
    """Not empty once a link for a new password was mailed."""


class MailProofForm(BoundForm, frozen=True, kw_only=True):
    to: Line = ""
    need: Line = ""
    flow: Line = ""


class ProofForm(MailProofForm, frozen=True, kw_only=True):
    password: Password | None = None
    code: Line | None = None
    mailed_code: Annotated[str, msgspec.Meta(max_length=LONGEST_TYPED_CODE)] | None = None


_PASSKEY: Final = f"{PROVE}/passkey"
_MAIL: Final = f"{PROVE}/mail"
_FORGOTTEN: Final = f"{PROVE}/forgotten"


class PasskeyProofForm(MailProofForm, frozen=True, kw_only=True):
    credential: Lines = ""
    """The browser's credential, as JSON."""


@page.get(PROVE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_PASSKEYS, refuses=(Unauthorized,))
async def show_proof(call: Call[None, ProofLink], postern: Postern) -> Page:
    """Ask for a password or a code

    The page asks for the proof that is missing. If both are missing, it asks for the code first; a passkey stands for both. A person who
    has none of them signs in again, or gets a code by mail if their provider does not say when they signed in there.
    """
    return await _next(call, postern, call.query, mailed=bool(call.query.mailed))


@page.post(
    PROVE, caller=BROWSER, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=WITH_PASSKEYS, refuses=(Unauthorized, RateLimited, Overloaded)
)
async def send_proof(call: Call[ProofForm], postern: Postern) -> Page:
    """Prove who you are"""
    form, prove = call.body, postern.identity.reauthentication
    try:
        if form.mailed_code is not None:
            await postern.identity.mailed_proofs.use(call.caller, read_code(form.mailed_code), call.client, call.actor)
        elif form.code is not None:
            await prove.with_code(call.caller, form.code, call.client, call.actor)
        else:
            await prove.with_password(call.caller, form.password or Password(""), call.client, call.actor)
    except ProviderRequired:
        # The person signs in again, and the sign-in page leads to the provider.
        return redirect(sign_in_again(own_place(form.to)))
    except (Unauthorized, BadRequest, RateLimited) as refusal:
        return await _next(call, postern, form, refusal, mailed=form.mailed_code is not None)
    # The redirect shows a further proof on a page of its own, so that reloading this page sends nothing.
    return redirect(_page_of(form))


@page.post(_MAIL, caller=BROWSER, limit=PAGE_STEPS, policy=WITH_FORM, refuses=(Unauthorized, RateLimited))
async def mail_proof(call: Call[MailProofForm], postern: Postern) -> Page:
    """Get a code by mail, to prove who you are"""
    form = call.body
    try:
        await postern.identity.mailed_proofs.send(call.caller, call.client)
    except (Forbidden, RateLimited) as refusal:
        return await _next(call, postern, form, refusal)
    return redirect(f"{_page_of(form)}&mailed=yes")


@page.post(_FORGOTTEN, caller=BROWSER, limit=FORGOT_PASSWORD, policy=WITH_FORM)
async def mail_reset(call: Call[MailProofForm], postern: Postern) -> Page:
    """Get the ordinary mail that leads to a new password

    It proves nothing here: whoever sits at an open browser gets no further by it.
    """
    await postern.identity.accounts.ask_for_mail(AccountMail.RESET, call.caller.email, "", call.language, Onward())
    return redirect(f"{_page_of(call.body)}&reset=yes")


@page.post(f"{_PASSKEY}/options", caller=BROWSER, limit=PAGE_STEPS, refuses=(BadRequest,))
async def proof_options(call: Call[PasskeyProofForm], postern: Postern) -> Answer[bytes]:
    """Give the script a challenge for a fresh proof"""
    caller = call.caller
    options = await postern.identity.passkey_proofs.options(Ceremony.PROVE, bound_to_session(caller.session), caller.user)
    return as_json(request_options(options))


@page.post(_PASSKEY, caller=BROWSER, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=WITH_PASSKEYS, refuses=(Unauthorized, RateLimited))
async def send_passkey_proof(call: Call[PasskeyProofForm], postern: Postern) -> Page:
    """Prove who you are with a passkey"""
    form = call.body
    try:
        given = read(form.credential, AssertionCredential).assertion()
        await postern.identity.reauthentication.with_passkey(call.caller, given, call.client, call.actor)
    except (Unauthorized, BadRequest) as refusal:
        return await _next(call, postern, form, refusal)
    return redirect(_page_of(form))


async def _next(
    call: AnyCall, postern: Postern, sent: ProofLink | MailProofForm, refusal: Refusal | None = None, *, mailed: bool = False
) -> Page:
    place, asked = own_place(sent.to), _asked(sent.need)
    since = await _since(call, postern, sent.flow)
    missing = await postern.identity.reauthentication.missing(call.caller, asked, since=since)
    if missing is None:
        return redirect(place)
    by_passkey = missing.by_passkey and postern.identity.passkeys.obstacle is None
    if not missing.possible and not by_passkey:
        if missing.by_mail:
            return _by_mail(call, postern, sent, place, refusal, mailed=mailed)
        return _elsewhere(call, postern, place, in_flow=since is not None, in_vain=missing.is_in_vain)
    by_code, waits = missing.method is ProofMethod.CODE, isinstance(refusal, RateLimited)
    field = "" if isinstance(refusal, PasskeyRefused | PasskeyChallengeOver) or not missing.possible else "code" if by_code else "password"
    explained = "password" if not by_code else "code" if missing.by_app else "backup_code"
    shown = show(
        call,
        postern,
        "factors/prove.html",
        "",
        action=PROVE,
        hidden=_hidden(sent),
        by_code=by_code,
        by_app=missing.by_app,
        by_passkey=by_passkey,
        possible=missing.possible,
        explained="prove.by_passkey" if not missing.possible else f"prove.by_{explained}",
        passkey=_PASSKEY,
        # Even if the tries here are used up, the person can sign in again: sign-in counts its own tries, and is a proof, too.
        again="" if missing.possible and not waits else sign_in_again(place),
        forgotten=_FORGOTTEN if field == "password" else "",
        done="prove.reset_mailed" if isinstance(sent, ProofLink) and sent.reset else "",
        longest=LONGEST_CODE if by_code else LONGEST_PASSWORD,
        errors={} if refusal is None else {field: refusal},
    )
    status = 200 if refusal is None else 429 if waits else 400
    return Answer(shown, status)


async def _since(call: AnyCall, postern: Postern, flow: str) -> datetime | None:
    """When the flow began. None without a flow, and when it is over: then the place that the page leads back to says so."""
    try:
        return (await flow_of(call, postern, flow)).created_at if flow else None
    except FlowOver:
        return None


def _by_mail(
    call: AnyCall, postern: Postern, sent: ProofLink | MailProofForm, place: str, refusal: Refusal | None, *, mailed: bool
) -> Page:
    """Asks for a code by mail, and for the code once it is on its way."""
    waits = isinstance(refusal, RateLimited)
    shown = show(
        call,
        postern,
        "factors/prove_by_mail.html",
        "",
        action=PROVE,
        mail=_MAIL,
        hidden=_hidden(sent),
        mailed=mailed,
        email=call.caller.email.address,
        again=sign_in_again(place),
        longest=LONGEST_TYPED_CODE,
        errors={} if refusal is None else {"mailed_code" if mailed else "": refusal},
    )
    return Answer(shown, 200 if refusal is None else 429 if waits else 400)


def _elsewhere(call: AnyCall, postern: Postern, place: str, *, in_flow: bool, in_vain: bool) -> Page:
    """The answer for a person who can prove nothing here. Nobody goes round and round: an application is told."""
    if in_flow:
        return redirect(f"{place}{'&' if '?' in place else '?'}unproved=yes")
    if not in_vain:
        return redirect(sign_in_again(place))
    return Answer(show(call, postern, "factors/prove_in_vain.html", "", again=sign_in_again(place)), 403)


def _hidden(sent: ProofLink | MailProofForm) -> dict[str, str]:
    hidden = {"to": own_place(sent.to), "need": _asked(sent.need).name.lower()}
    return hidden | {"flow": sent.flow} if sent.flow else hidden


def _page_of(form: MailProofForm) -> str:
    page_of = proof_page(own_place(form.to), _asked(form.need))
    return f"{page_of}&flow={quote(form.flow, safe='')}" if form.flow else page_of


def _asked(need: str) -> StepUp:
    """The proof that the link asks for. Without a valid word in the link, the strictest proof: it covers the demand of every page."""
    return _ASKED.get(need, StepUp.ACCOUNT)


_SET_UP: Final = f"{SECOND_FACTOR}/set-up"
_CODES: Final = f"{SECOND_FACTOR}/backup-codes"
_RENEW: Final = f"{_CODES}/renew"
_BY_PASSKEYS: Final = f"{SECOND_FACTOR}/passkeys"
_OFF: Final = f"{SECOND_FACTOR}/turn-off"
_DONE: Final = {"off": "two_step.done_off", "expired": "two_step.done_expired"}
# When a form is sent twice, the second request gets one of these refusals.
_ON: Final = "second_factor_enabled"


class SetUpLink(Done, frozen=True):
    to: Line = ""
    """The page of ours that the person came from. The person goes back there once a second factor is set up."""


class CodesLink(msgspec.Struct, frozen=True):
    form: UUID | None = None
    to: Line = ""


class SetUpForm(BoundForm, frozen=True, kw_only=True):
    to: Line = ""


class FirstCodeForm(BoundForm, frozen=True, kw_only=True):
    form: UUID
    code: Line = ""
    to: Line = ""


class PasskeysForm(BoundForm, frozen=True, kw_only=True):
    form: UUID
    to: Line = ""


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
        hidden=_hidden_second_factor_page(call.query.to),
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


def _hidden_second_factor_page(to: str) -> Mapping[str, str]:
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
        hidden={"form": _new_form(postern), **_hidden_second_factor_page(to)},
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
        hidden={"form": _new_form(postern), **_hidden_second_factor_page(to)},
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
