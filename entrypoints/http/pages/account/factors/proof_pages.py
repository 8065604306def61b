"""`/ui/prove`: asks for a fresh proof, and leads back to the page that needs it."""

from typing import Final

import msgspec

from core.domain.errors import BadRequest, Overloaded, RateLimited, Refusal, Unauthorized
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.mfa import LONGEST_CODE
from core.domain.identity.passkeys import Ceremony, PasskeyChallengeOver, PasskeyRefused, bound_to_session
from core.domain.identity.proofs import ProofMethod, StepUp
from core.domain.identity.realms import ProviderRequired
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, PROVE, BoundForm, proof_page, sign_in_again
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, PAGE_STEPS, UNLIMITED
from entrypoints.http.pages.account import AnyCall, Page, show
from entrypoints.http.pages.declaring import WITH_PASSKEYS, page
from entrypoints.http.pages.flows import own_place
from entrypoints.http.pages.sign_in.passkey_pages import as_json, read
from entrypoints.http.passkeys import AssertionCredential, request_options

_ASKED: Final = {asked.name.lower(): asked for asked in StepUp}


class ProofLink(msgspec.Struct, frozen=True):
    to: str = ""
    """The page that needs the proof."""
    need: str = ""


class ProofForm(BoundForm, frozen=True, kw_only=True):
    to: str = ""
    need: str = ""
    password: Password | None = None
    code: str | None = None


_PASSKEY: Final = f"{PROVE}/passkey"


class PasskeyProofForm(BoundForm, frozen=True, kw_only=True):
    to: str = ""
    need: str = ""
    credential: str = ""
    """The browser's credential, as JSON."""


@page.get(PROVE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_PASSKEYS, refuses=(Unauthorized,))
async def show_proof(call: Call[None, ProofLink], postern: Postern) -> Page:
    """Ask for a password or a code

    The page asks for the proof that is missing. If both are missing, it asks for the code first; a passkey stands for both. A person who
    has none of them signs in again.
    """
    return await _next(call, postern, call.query.to, call.query.need)


@page.post(
    PROVE, caller=BROWSER, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=WITH_PASSKEYS, refuses=(Unauthorized, RateLimited, Overloaded)
)
async def send_proof(call: Call[ProofForm], postern: Postern) -> Page:
    """Prove who you are"""
    form, prove = call.body, postern.identity.reauthentication
    try:
        if form.code is not None:
            await prove.with_code(call.caller, form.code, call.client, call.actor)
        else:
            await prove.with_password(call.caller, form.password or Password(""), call.client, call.actor)
    except ProviderRequired:
        # The person signs in again, and the sign-in page leads to the provider.
        return redirect(sign_in_again(own_place(form.to)))
    except (Unauthorized, BadRequest, RateLimited) as refusal:
        return await _next(call, postern, form.to, form.need, refusal)
    # The redirect shows a further proof on a page of its own, so that reloading this page sends nothing.
    return redirect(proof_page(own_place(form.to), _asked(form.need)))


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
        return await _next(call, postern, form.to, form.need, refusal)
    return redirect(proof_page(own_place(form.to), _asked(form.need)))


async def _next(call: AnyCall, postern: Postern, to: str, need: str, refusal: Refusal | None = None) -> Page:
    place, asked = own_place(to), _asked(need)
    missing = await postern.identity.reauthentication.missing(call.caller, asked)
    if missing is None:
        return redirect(place)
    by_passkey = missing.by_passkey and postern.identity.passkeys.obstacle is None
    if not missing.possible and not by_passkey:
        return redirect(sign_in_again(place))
    by_code, waits = missing.method is ProofMethod.CODE, isinstance(refusal, RateLimited)
    field = "" if isinstance(refusal, PasskeyRefused | PasskeyChallengeOver) or not missing.possible else "code" if by_code else "password"
    explained = "password" if not by_code else "code" if missing.by_app else "backup_code"
    shown = show(
        call,
        postern,
        "factors/prove.html",
        "",
        action=PROVE,
        hidden={"to": place, "need": asked.name.lower()},
        by_code=by_code,
        by_app=missing.by_app,
        by_passkey=by_passkey,
        possible=missing.possible,
        explained="prove.by_passkey" if not missing.possible else f"prove.by_{explained}",
        passkey=_PASSKEY,
        # Even if the tries here are used up, the person can sign in again: sign-in counts its own tries, and is a proof, too.
        again="" if missing.possible and not waits else sign_in_again(place),
        longest=LONGEST_CODE if by_code else LONGEST_PASSWORD,
        errors={} if refusal is None else {field: refusal},
    )
    status = 200 if refusal is None else 429 if waits else 400
    return Answer(shown, status)


def _asked(need: str) -> StepUp:
    """The proof that the link asks for. Without a valid word in the link, the strictest proof: it covers the demand of every page."""
    return _ASKED.get(need, StepUp.ACCOUNT)
