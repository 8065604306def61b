"""`/ui/verify-email`: the page behind the link of a mail that confirms an address. Opening the link shows its subject and changes nothing,
since programs open links, too. In the browser that registered, a button is enough. Elsewhere the page asks for the password of the
registration, or for a new one.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from core.domain.branding import POSTERN
from core.domain.errors import BadRequest, Overloaded, RateLimited, Refusal, Unauthorized
from core.domain.identity.account_mails import AskedOnPage, LinkRefused, LinkUnknown, MailedTokenPurpose, Settled
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.realms import ProviderRequired
from core.domain.secrets import Password, Token
from core.domain.services.user_keys import MOST_KEPT
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import flow_secret
from entrypoints.http.machinery.browsers import BROWSER, BROWSER_OR_NOBODY, BoundForm, token_for
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, PAGE_STEPS, UNLIMITED
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import TO_SIGN_IN, WITH_FORM, Advised, in_words, page
from entrypoints.http.pages.kit.flows import NO_ERRORS, PASSWORD, AnyCall, flow_of

VERIFY: Final = "/ui/verify-email"
_NEW_PASSWORD: Final = "/ui/verify-email/new-password"  # noqa: S105 - an address
_HERE: Final = "/ui/verify-email/here"
# The keys that stay, and more: an account has few other ways in.
_MOST_STAYS: Final = MOST_KEPT + 100
_NOT_ME: Final = "/ui/verify-email/not-me"
ADDRESS_SETTLED: Final = "/ui/verify-email/done"

_Outcome = Literal["address_confirmed", "first_proof", "address_changed", "registration_refused", "change_refused"]
_OUTCOMES: Final[Mapping[tuple[MailedTokenPurpose, Settled], _Outcome]] = {
    (MailedTokenPurpose.VERIFY_EMAIL, Settled.PROVED): "address_confirmed",
    (MailedTokenPurpose.CHANGE_EMAIL, Settled.PROVED): "address_changed",
    (MailedTokenPurpose.VERIFY_EMAIL, Settled.REFUSED): "registration_refused",
    (MailedTokenPurpose.CHANGE_EMAIL, Settled.REFUSED): "change_refused",
}


class AddressLink(msgspec.Struct, frozen=True):
    token: Token = Token("")
    flow: Line = ""
    """The flow that the person registered in."""


class RegisteredAddressForm(msgspec.Struct, frozen=True):
    token: Token = Token("")
    flow: Line = ""
    password: Password = Password("")


class NewPasswordForm(msgspec.Struct, frozen=True):
    token: Token = Token("")
    flow: Line = ""
    new_password: Password = Password("")
    repeated: Password = Password("")


class SignedInAddressForm(BoundForm, frozen=True, kw_only=True):
    token: Token = Token("")
    flow: Line = ""
    stays: Annotated[Sequence[Line], msgspec.Meta(max_length=_MOST_STAYS)] = ()
    """What was made elsewhere, and is the person's."""


class ProofOutcome(msgspec.Struct, frozen=True):
    what: _Outcome = "address_confirmed"
    flow: UUID | None = None


# Where the form goes, by what it asks for.
_ACTIONS: Final = {AskedOnPage.NEW_PASSWORD: _NEW_PASSWORD, AskedOnPage.WHAT_STAYS: _HERE}


def _advice(refused: Refused) -> str | Advised:
    if isinstance(refused, ProviderRequired):
        return Advised("refusals.provider_required_advice", TO_SIGN_IN)
    return Advised("verify_email.link_refused", TO_SIGN_IN) if isinstance(refused, LinkRefused) else ""


@page.get(VERIFY, caller=BROWSER_OR_NOBODY, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, ProviderRequired))
async def show_address_proof(call: Call[None, AddressLink, None, Caller | None], postern: Postern) -> bytes:
    """Ask a person to confirm that an address is theirs

    This looks up the link and leaves it usable, however often a program opens it.
    """
    return await _ask(call, postern, call.query, caller=call.presented)


@page.get(_HERE, caller=ANYONE, limit=PAGE_LOADS)
def show_address_proof_again(call: Call[None, AddressLink], _postern: Postern) -> Answer[NoBody]:
    """Go to the page that asks, for people who reload this address"""
    return redirect(_place(VERIFY, call.query))


@page.post(
    _HERE,
    caller=BROWSER,
    limit=PAGE_STEPS,
    policy=WITH_FORM,
    accepts=Form(most_fields=2 * _MOST_STAYS),
    advice=_advice,
    refuses=(BadRequest, Unauthorized),
)
async def send_address_proof_signed_in(call: Call[SignedInAddressForm], postern: Postern) -> Answer[NoBody]:
    """Confirm that the address of your account is your own, and say what stays of what was set up elsewhere"""
    form = call.body
    link = AddressLink(form.token, form.flow)
    try:
        await postern.identity.address_proofs.prove_signed_in(form.token, call.caller, form.stays, call.actor)
    except LinkRefused:
        repeated = await _once_more(call, postern, link, Settled.PROVED)
        if repeated is None:
            raise
        return repeated
    return await _done(call, postern, link, "address_confirmed")


@page.post(
    VERIFY,
    caller=ANYONE,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(BadRequest, ProviderRequired, RateLimited, Overloaded),
)
async def send_address_proof(call: Call[RegisteredAddressForm], postern: Postern) -> Answer[bytes] | Answer[NoBody]:
    """Confirm that an address is your own"""
    form = call.body
    link = AddressLink(form.token, form.flow)
    try:
        purpose = await postern.identity.address_proofs.prove(form.token, _browser(call, postern), form.password, call.client)
    except LinkRefused:
        repeated = await _once_more(call, postern, link, Settled.PROVED)
        if repeated is None:
            raise
        return repeated
    except (Unauthorized, BadRequest) as refusal:
        if refusal.words not in {"password_missing", "wrong_password"}:
            raise
        text = shipped_pages().text(call.language)
        said = in_words(refusal, text) if refusal.words == "password_missing" else text("verify_email.wrong_password")
        return Answer(await _ask(call, postern, link, {"password": said}), 400)
    return await _done(call, postern, link, _OUTCOMES[purpose, Settled.PROVED])


@page.get(_NEW_PASSWORD, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, ProviderRequired))
async def show_new_password(call: Call[None, AddressLink], postern: Postern) -> bytes:
    """Ask for a new password in place of the password of the registration"""
    return await _ask(call, postern, call.query, anew=True)


@page.post(
    _NEW_PASSWORD,
    caller=ANYONE,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(BadRequest, ProviderRequired, RateLimited, Overloaded),
)
async def send_new_password(call: Call[NewPasswordForm], postern: Postern) -> Answer[bytes] | Answer[NoBody]:
    """Confirm that an address is your own, and replace the password of the registration"""
    form = call.body
    link = AddressLink(form.token, form.flow)
    was_vouched = False
    refused: dict[str, Refusal] = {}
    try:
        if form.new_password.reveal() != form.repeated.reveal():
            refused["repeated"] = BadRequest(words="passwords_differ")
            # The person hears of all errors at once.
            doubt = await postern.identity.address_proofs.look(form.token, _browser(call, postern))
            await postern.identity.account_passwords.rules.require(form.new_password, doubt.email)
        else:
            was_vouched = await postern.identity.address_proofs.prove_with_new_password(form.token, form.new_password, call.actor)
    except LinkRefused:
        repeated = await _once_more(call, postern, link, Settled.PROVED, form.new_password)
        if repeated is None:
            raise
        return repeated
    except BadRequest as refusal:
        refused = {"new_password": refusal, **refused}
    if refused:
        text = shipped_pages().text(call.language)
        said = {field: in_words(refusal, text) for field, refusal in refused.items()}
        return Answer(await _ask(call, postern, link, said, anew=True), 400)
    return await _done(call, postern, link, "first_proof" if was_vouched else "address_confirmed")


@page.get(_NOT_ME, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest,))
async def show_refusal_of_address(call: Call[None, AddressLink], postern: Postern) -> bytes:
    """Ask whether somebody else has registered your address"""
    link = call.query
    doubt = await postern.identity.address_proofs.look(link.token, _browser(call, postern), refusing=True)
    return shipped_pages().page(
        "mailed/not_me.html",
        call.language,
        action=_NOT_ME,
        fields=_fields(link),
        email=doubt.email.address,
        changes=doubt.purpose is MailedTokenPurpose.CHANGE_EMAIL,
        back=_place(VERIFY, link),
    )


@page.post(
    _NOT_ME, caller=ANYONE, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, RateLimited)
)
async def send_refusal_of_address(call: Call[RegisteredAddressForm], postern: Postern) -> Answer[NoBody]:
    """Report that somebody else has registered your address"""
    link = AddressLink(call.body.token)
    try:
        purpose = await postern.identity.address_proofs.refuse(link.token, call.actor)
    except LinkUnknown:
        # An earlier click on the same button has already deleted the account.
        return await _done(call, postern, link, "registration_refused")
    except LinkRefused:
        repeated = await _once_more(call, postern, link, Settled.REFUSED)
        if repeated is None:
            raise
        return repeated
    return await _done(call, postern, link, _OUTCOMES[purpose, Settled.REFUSED])


@page.get(ADDRESS_SETTLED, caller=ANYONE, limit=UNLIMITED, refuses=(BadRequest,))
def address_settled(call: Call[None, ProofOutcome], postern: Postern) -> bytes:
    """Show the outcome for an address"""
    done = call.query
    onward = postern.foundation.links.sign_in if done.flow is None else f"{PASSWORD}?flow={done.flow}"
    refused = done.what in {"registration_refused", "change_refused"}
    return shipped_pages().outcome(done.what, call.language, good=True, onward="" if refused else onward)


async def _ask(
    call: AnyCall,
    postern: Postern,
    link: AddressLink,
    errors: Mapping[str, str] = NO_ERRORS,
    *,
    anew: bool = False,
    caller: Caller | None = None,
) -> bytes:
    doubt = await postern.identity.address_proofs.look(link.token, _browser(call, postern), caller)
    flow = await _registered_in(call, postern, link)
    asked = AskedOnPage.NEW_PASSWORD if anew and doubt.purpose is MailedTokenPurpose.VERIFY_EMAIL else doubt.asked
    return shipped_pages().page(
        "mailed/verify_email.html",
        call.language,
        brand=POSTERN if flow is None else flow.branding,
        action=_ACTIONS.get(asked, VERIFY),
        form_token=token_for(BROWSER, call.request, postern) if asked is AskedOnPage.WHAT_STAYS else "",
        is_vouched=doubt.is_vouched,
        added=doubt.added,
        now=postern.foundation.clock.now(),
        fields=_fields(link),
        email=doubt.email.address,
        changes=doubt.purpose is MailedTokenPurpose.CHANGE_EMAIL,
        asks=asked.name.lower(),
        new_password=_place(_NEW_PASSWORD, link),
        not_me=_place(_NOT_ME, link),
        errors=errors,
        shortest=postern.identity.account_passwords.rules.shortest,
        longest=LONGEST_PASSWORD,
    )


async def _once_more(
    call: AnyCall, postern: Postern, link: AddressLink, settled: Settled, password: Password | None = None
) -> Answer[NoBody] | None:
    """The answer to a second click, which finds the link used: the same as to the first. None when the link did something else."""
    found = await postern.identity.address_proofs.just_settled(link.token)
    if found is None or found[1] is not settled:
        return None
    used = found[0]
    if password is not None and not await postern.identity.account_passwords.was_just_chosen(used.user, password):
        return None
    return await _done(call, postern, link, _OUTCOMES[used.purpose, settled])


async def _done(call: AnyCall, postern: Postern, link: AddressLink, what: _Outcome) -> Answer[NoBody]:
    flow = await _registered_in(call, postern, link)
    onward = {} if flow is None else {"flow": str(flow.id)}
    return redirect(f"{ADDRESS_SETTLED}?{urlencode({'what': what, **onward})}")


async def _registered_in(call: AnyCall, postern: Postern, link: AddressLink) -> Flow | None:
    """The flow of the registration, if it belongs to this browser and has not ended."""
    try:
        return await flow_of(call, postern, link.flow) if link.flow else None
    except FlowOver:
        return None


def _browser(call: AnyCall, postern: Postern) -> Token | None:
    return flow_secret(call.request, postern.foundation.public_url)


def _fields(link: AddressLink) -> Mapping[str, str]:
    return {"token": link.token.reveal(), **({"flow": link.flow} if link.flow else {})}


def _place(path: str, link: AddressLink) -> str:
    return f"{path}?{urlencode(_fields(link))}"
