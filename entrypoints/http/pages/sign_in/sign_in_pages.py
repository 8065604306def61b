"""`/ui/sign-in`: first the address, then the password, then a second factor if the account has one. None of these pages reveals whether an
account exists: until the password is right, all pages are the same for every address.

The first form of a sign-in begins its flow, if there is none yet. So showing the page costs no look-up.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from secrets import token_hex
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import urlencode

import msgspec

from core.domain.branding import POSTERN
from core.domain.errors import BadRequest, Overloaded, RateLimited, Refusal, Unauthorized
from core.domain.identity.account_mails import AccountMail, Onward
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.callers import Caller
from core.domain.identity.devices import trust_period
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Prompt, Wanted, form_token
from core.domain.identity.guards.puzzles import PuzzlePurpose, PuzzleUnsolved
from core.domain.identity.mfa import LONGEST_CODE
from core.domain.identity.realms import ANY_WAY, ProviderRequired, WayIn
from core.domain.identity.registering import ANYBODY_NEW, BUDGET_BITS
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.secrets import Password
from core.domain.texts.own_texts import InstallationWords
from core.usecases.identity.sign_in.admission import SignInEnded
from core.usecases.identity.sign_in.proofs.proof import EmailNotVerified
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import ACCOUNTS, ANOTHER, IN_FLOW, SIGN_IN, FlowForm, bound_to, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, email_field
from entrypoints.http.machinery.limits import FORGOT_PASSWORD, PAGE_SIGN_INS, PAGE_STEPS, UNLIMITED
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP_WITH_BOTH, IN_POPUP_WITH_PASSKEYS, IN_POPUP_WITH_PUZZLE, in_words, page
from entrypoints.http.pages.kit.flows import (
    CHECK_MAIL,
    FORGOTTEN,
    LOST_FACTOR,
    NO_ERRORS,
    PASSKEY,
    PASSWORD,
    REGISTER,
    SECOND_FACTOR,
    AnyCall,
    FlowLink,
    MakesPasskeys,
    Page,
    begin,
    browser_secret,
    first_to_end,
    flow_of,
    go_on,
    named_before_consent,
    own_place,
    signed_in,
    to,
    visit,
)
from entrypoints.http.pages.puzzle import WITH_WIDGET, PagePuzzle, PuzzleForm
from entrypoints.http.pages.sign_in.providers import provider_address, provider_name, to_provider
from entrypoints.http.passkeys import PasskeySignal

# A placeholder for the form's token in the cached page. It is random, so no value from a request can contain it.
_TOKEN_PLACE: Final = f"{{form_token {token_hex()}}}"
_LONGEST_EMAIL: Final = 320
_RESEND: Final = "/ui/check-mail/resend"
_MAIL_LINK: Final = "/ui/sign-in/mail-link"
ProviderButton: TypeAlias = tuple[str, str, str, str]
"""The key and the name of a provider, the address of its button, and the path of its logo."""
_Flag = Annotated[Line, msgspec.Meta(pattern="^(yes)?$")]


class SignInLink(msgspec.Struct, frozen=True):
    flow: Line = ""
    to: Line = ""
    """The page of ours to come back to, if there is no flow yet."""
    again: Line = ""
    """Ask for a sign-in even if the person is signed in: `yes`, or `another` for another account."""


class AddressForm(FlowForm, frozen=True, kw_only=True):
    email: Line = ""
    to: Line = ""


class PasswordForm(PuzzleForm, frozen=True, kw_only=True):
    email: Line = ""
    password: Password = Password("")
    makes_passkeys: MakesPasskeys = ""


class CodeForm(FlowForm, frozen=True, kw_only=True):
    code: Line = ""
    trust_device: _Flag = ""
    makes_passkeys: MakesPasskeys = ""


@page.get(SIGN_IN, caller=IN_FLOW, limit=UNLIMITED, policy=IN_POPUP_WITH_PASSKEYS)
async def show_sign_in(call: Call[None, SignInLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the e-mail address"""
    link, caller = call.query, call.presented
    if link.flow:
        flow = await flow_of(call, postern, link.flow)
        over = await when_over(call, postern, flow)
        await postern.identity.journeys.refresh_offers()
        return over or Answer(address_page(call, postern, flow, flow.email), 200)
    if caller is not None:
        if not link.again:
            return redirect(own_place(link.to))
        # A person with a second factor must use it here, since a weaker proof would not be enough for every page.
        wanted = Wanted(prompt=Prompt.LOGIN, second_factor=True)
        request = {"to": own_place(link.to)}
        return await begin(call, postern, FlowPurpose.ACCOUNT, request, wanted, another=link.again == ANOTHER)
    if call.request.others and not link.again:
        return redirect(f"{ACCOUNTS}?{urlencode({'to': own_place(link.to)})}")
    browser, headers = browser_secret(call, postern)
    await postern.identity.journeys.refresh_offers()
    passkeys, registers = _have_passkeys(postern), postern.identity.registrations.leads_on()
    spoken, offers = (shipped_pages().words, shipped_pages().passkeys_elsewhere), tuple(offered(postern, None, link.to))
    parts = _first_page(call.language, spoken, link.to, offers, passkeys=passkeys, registers=registers)
    return Answer(form_token(browser, bound_to("")).encode().join(parts), 200, headers)


@page.post(SIGN_IN, caller=IN_FLOW, limit=PAGE_STEPS, policy=IN_POPUP_WITH_PASSKEYS)
async def send_address(call: Call[AddressForm, None, None, Caller | None], postern: Postern) -> Page:
    """Go on with an e-mail address"""
    form = call.body
    flow = await flow_of(call, postern, form.flow) if form.flow else None
    over = None if flow is None else await when_over(call, postern, flow)
    if over is not None:
        return over
    text = form.email.strip()
    browser, _ = browser_secret(call, postern)
    if not _is_address(text):
        said = shipped_pages().text(call.language)("sign_in.no_address")
        return Answer(address_page(call, postern, flow, text, {"email": said}, place=form.to), 400)
    if flow is not None:
        await postern.identity.flows.name(flow, Email(text))
    else:
        request = {"to": own_place(form.to)}
        flow = await postern.identity.flows.begin(browser, FlowPurpose.ACCOUNT, request, Wanted(), email=text)
    elsewhere = to_provider(call, postern, flow, text, await _way_in(postern, text))
    return elsewhere or to(PASSWORD, flow)


@page.get(PASSWORD, caller=IN_FLOW, limit=UNLIMITED, policy=IN_POPUP_WITH_PUZZLE)
async def show_password(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the password, or lead to the provider that people of the domain sign in at"""
    flow = await flow_of(call, postern, call.query.flow)
    over = await when_over(call, postern, flow)
    if over is not None:
        return over
    if not flow.email:
        return to(SIGN_IN, flow)
    await postern.identity.journeys.refresh_offers()
    way = await _way_in(postern, flow.email)
    # A form may lead here, too, from pages of ours that already know the address. So the answer is a page that leaves, not a redirect.
    elsewhere = to_provider(call, postern, flow, flow.email, way)
    if elsewhere is not None:
        return elsewhere
    asked = await _asked_at_sign_in(call, postern, flow, flow.email)
    return Answer(password_page(call, postern, flow, flow.email, way=way, asked=asked), 200)


@page.post(
    PASSWORD,
    caller=IN_FLOW,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=IN_POPUP_WITH_PUZZLE,
    refuses=(RateLimited, Overloaded),
    accepts=WITH_WIDGET,
)
async def send_password(call: Call[PasswordForm, None, None, Caller | None], postern: Postern) -> Page:
    """Sign in with a password"""
    flow = await flow_of(call, postern, call.body.flow)
    form = PagePuzzle.of(call, postern, PuzzlePurpose.SIGN_IN, flow).restored(call.body, PASSWORD)
    asked = await _asked_at_sign_in(call, postern, flow, form.email)
    try:
        if flow.signed_in_at is None:
            await asked.check(form)
        entered = await postern.identity.browser_sessions.sign_in_with_password(
            await visit(call, postern, flow, makes_passkeys=form.makes_passkeys), Email(form.email), form.password
        )
    except FlowOver:
        return await once_over(call, postern, flow)
    except RateLimited:
        asked.count()
        raise
    except (Unauthorized, BadRequest, ProviderRequired) as refusal:
        if isinstance(refusal, PuzzleUnsolved) and (shown := asked.elsewhere(form, PASSWORD, refusal)) is not None:
            return shown
        unproved = isinstance(refusal, EmailNotVerified)
        told = _errors("" if unproved or isinstance(refusal, ProviderRequired | PuzzleUnsolved) else "password", refusal, call)
        if isinstance(refusal, Unauthorized):
            asked.count()
        asked = await _asked_at_sign_in(call, postern, flow, form.email)
        way = await _way_in(postern, form.email)
        return Answer(password_page(call, postern, flow, form.email, told, way=way, unproved=unproved, asked=asked), 400)
    return to(SECOND_FACTOR, flow) if entered is None else await signed_in(call, postern, flow, entered)


@page.post(_MAIL_LINK, caller=IN_FLOW, limit=FORGOT_PASSWORD, policy=IN_POPUP_WITH_BOTH, accepts=WITH_WIDGET)
async def mail_sign_in_link(call: Call[PuzzleForm, None, None, Caller | None], postern: Postern) -> Page:
    """Mail a sign-in link, whether or not there is such an account"""
    flow = await flow_of(call, postern, call.body.flow)
    over = await when_over(call, postern, flow)
    if over is not None:
        return over
    if not flow.email:
        return to(SIGN_IN, flow)
    try:
        email = email_field(flow.email, postern.foundation.email_syntax)
    except BadRequest:
        said = shipped_pages().text(call.language)("sign_in.no_address")
        return Answer(address_page(call, postern, flow, flow.email, {"email": said}), 400)
    elsewhere = to_provider(call, postern, flow, flow.email, await _way_in(postern, flow.email))
    if elsewhere is not None:
        return elsewhere
    asked = PagePuzzle.of(call, postern, PuzzlePurpose.LINK, flow)
    form = asked.restored(call.body)
    try:
        return await mailed(asked, form, flow, email, AccountMail.SIGN_IN_LINK)
    except PuzzleFirst as first:
        return first.asked.on_its_own(form, _MAIL_LINK, first.unsolved)


class PuzzleFirst(Exception):
    """The request needs a solution: for what is asked of it, or because a budget of mails is over. Nothing was written."""

    def __init__(self, asked: PagePuzzle, refusal: RateLimited | PuzzleUnsolved) -> None:
        self.asked = asked
        self.refusal = refusal
        super().__init__()

    @property
    def unsolved(self) -> PuzzleUnsolved | None:
        """None when a budget of mails is over."""
        return self.refusal if isinstance(self.refusal, PuzzleUnsolved) else None


async def mailed(asked: PagePuzzle, form: PuzzleForm, flow: Flow, email: Email, kind: AccountMail) -> Answer[NoBody]:
    """Asks for a mail, whether or not the address has an account, and leads to the page that says so. The code beside the link counts in
    this flow. Raises `PuzzleFirst`, and `RateLimited` where a solution helps no more.
    """
    postern = asked.postern
    asked.count()
    try:
        solved = await asked.passed(form, BUDGET_BITS)
    except PuzzleUnsolved as refusal:
        raise PuzzleFirst(asked, refusal) from None
    try:
        waits = await postern.identity.accounts.ask_as_stranger(
            kind,
            email,
            flow.wanted.organization,
            asked.call.sender,
            Onward(flow=str(flow.id)),
            may_wait=solved or not asked.is_on,
            solved=solved,
        )
    except RateLimited as refusal:
        if solved or not asked.is_on:
            raise
        raise PuzzleFirst(asked.at_least(BUDGET_BITS), refusal) from None
    later = {"later": "yes"} if waits else {}
    return redirect(f"{CHECK_MAIL}?{urlencode({'flow': str(flow.id), 'mail': kind.value, **later})}")


@page.get(SECOND_FACTOR, caller=IN_FLOW, limit=UNLIMITED, policy=IN_POPUP_WITH_PASSKEYS)
async def show_second_factor(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for a code"""
    flow = await flow_of(call, postern, call.query.flow)
    over = await when_over(call, postern, flow)
    if over is not None:
        return over
    return Answer(code_page(call, postern, flow), 200) if flow.awaits_second_factor else to(PASSWORD, flow)


@page.post(SECOND_FACTOR, caller=IN_FLOW, limit=UNLIMITED, attempt=PAGE_SIGN_INS, policy=IN_POPUP_WITH_PASSKEYS, refuses=(RateLimited,))
async def send_code(call: Call[CodeForm, None, None, Caller | None], postern: Postern) -> Page:
    """Sign in with a code"""
    form = call.body
    flow = await flow_of(call, postern, form.flow)
    try:
        entered = await postern.identity.browser_sessions.sign_in_with_second_factor(
            await visit(call, postern, flow, makes_passkeys=form.makes_passkeys), form.code, trust_device=bool(form.trust_device)
        )
    except SignInEnded as refusal:
        # The flow still has the address, but the first proof no longer counts.
        return Answer(password_page(call, postern, flow, flow.email, {"": in_words(refusal, _text(call))}), 400)
    except FlowOver:
        return await once_over(call, postern, flow)
    except (Unauthorized, BadRequest) as refusal:
        return Answer(code_page(call, postern, flow, _errors("code", refusal, call)), 400)
    return await signed_in(call, postern, flow, entered)


async def when_over(call: AnyCall, postern: Postern, flow: Flow) -> Page | None:
    """The answer for a flow that has had its sign-in. None when nobody has signed in by this flow yet."""
    return None if flow.signed_in_at is None else await once_over(call, postern, flow)


async def once_over(call: AnyCall, postern: Postern, flow: Flow) -> Page:
    """Continues a flow for a person who goes back to its pages after the sign-in, as long as the person is signed in."""
    caller = call.request.caller
    if caller is not None and caller.session == flow.session:
        return await go_on(call, postern, flow, caller)
    raise FlowOver


async def at_provider(call: AnyCall, postern: Postern, flow: Flow, refusal: ProviderRequired) -> Answer[bytes]:
    """The page for a person who has proved who they are, and must sign in at the organization's provider: it has the provider's button."""
    email = flow.email if refusal.person is None else refusal.person.address
    return Answer(password_page(call, postern, flow, email, _errors("", refusal, call), way=await _way_in(postern, email)), 400)


def address_page(
    call: AnyCall,
    postern: Postern,
    flow: Flow | None,
    email: str,
    errors: Mapping[str, str] = NO_ERRORS,
    *,
    place: str = "",
    signals: Sequence[PasskeySignal] = (),
) -> bytes:
    browser, _ = browser_secret(call, postern)
    token = form_token(browser, bound_to("" if flow is None else str(flow.id)))
    offers, ends = offered(postern, flow, place), first_to_end(call, postern)
    passkeys = _have_passkeys(postern)
    registers = postern.identity.registrations.leads_on(ANYBODY_NEW if flow is None else flow.newcomers)
    return _rendered(
        call.language,
        flow,
        token,
        email,
        errors,
        place=place,
        offers=offers,
        passkeys=passkeys,
        registers=registers,
        signals=signals,
        ends=ends,
    )


def offered(postern: Postern, flow: Flow | None, place: str = "", *, but: str = "") -> Sequence[ProviderButton]:
    """The buttons of the available providers."""
    offers = postern.identity.journeys.offered_in(flow)
    return [(one.key, one.name, _onward(f"/auth/{one.key}", flow, place), one.logo) for one in offers if one.key != but]


def _rendered(
    language: Language,
    flow: Flow | None,
    token: str,
    email: str,
    errors: Mapping[str, str] = NO_ERRORS,
    *,
    place: str = "",
    offers: Sequence[ProviderButton],
    passkeys: bool,
    registers: bool,
    signals: Sequence[PasskeySignal] = (),
    ends: str = "",
) -> bytes:
    """`registers`: an account that somebody registers leads on. `ends` is the account that has to make room for another."""
    return shipped_pages().page(
        "sign_in/sign_in.html",
        language,
        brand=POSTERN if flow is None else flow.branding,
        service="" if flow is None else named_before_consent(flow),
        action=SIGN_IN,
        flow="" if flow is None else str(flow.id),
        form_token=token,
        place=place,
        passkeys=passkeys,
        passkey=PASSKEY,
        signals=signals,
        email=email,
        register=_onward(REGISTER, flow, place) if registers else "",
        offers=offers,
        ends=ends,
        errors=errors,
    )


def sign_in_again(call: AnyCall, postern: Postern, flow: Flow, refusal: Refusal, status: int = 400) -> Answer[bytes]:
    """The page with all ways to sign in, and the reason why another way failed."""
    return Answer(address_page(call, postern, flow, flow.email, {"": in_words(refusal, _text(call))}), status)


@lru_cache(maxsize=64)
def _first_page(
    language: Language,
    _spoken: tuple[InstallationWords, str],
    place: str,
    offers: tuple[ProviderButton, ...],
    *,
    passkeys: bool,
    registers: bool,
) -> list[bytes]:
    """The page that most people see first, and robots again and again. Apart from its token it is the same for all, so we cache it for
    these texts of the installation, and for the host that passkeys belong to.
    """
    shown = _rendered(language, None, _TOKEN_PLACE, "", place=place, offers=offers, passkeys=passkeys, registers=registers)
    return shown.split(_TOKEN_PLACE.encode())


def _have_passkeys(postern: Postern) -> bool:
    return postern.identity.passkeys.obstacle is None


def _onward(page_: str, flow: Flow | None, place: str) -> str:
    given = {"flow": str(flow.id)} if flow is not None else {"to": place} if place else {}
    return f"{page_}?{urlencode(given)}" if given else page_


def password_page(
    call: AnyCall,
    postern: Postern,
    flow: Flow,
    email: str,
    errors: Mapping[str, str] = NO_ERRORS,
    *,
    way: WayIn = ANY_WAY,
    unproved: bool = False,
    asked: PagePuzzle | None = None,
) -> bytes:
    """`unproved`: the password is right, but the address still has to be confirmed. `asked` is None on a page that another form than the
    password's has led to; its password is answered with the puzzle, if there is one.
    """
    token = token_for(IN_FLOW, call.request, postern, str(flow.id))
    realm = way.realm if way.leads_to_provider else None
    return shipped_pages().page(
        "sign_in/password.html",
        call.language,
        brand=flow.branding,
        action=PASSWORD,
        flow=str(flow.id),
        form_token=token,
        puzzle=None if asked is None else asked.shown(token),
        email=email,
        other=f"{SIGN_IN}?flow={flow.id}",
        forgotten=f"{FORGOTTEN}?flow={flow.id}",
        link=_MAIL_LINK,
        provider=None if realm is None else provider_address(realm, flow, email),
        provider_name=provider_name(postern, way),
        unproved=unproved,
        resend=_RESEND,
        # The button of the realm's provider is above the others.
        offers=offered(postern, flow, but="" if realm is None else realm.provider),
        passkeys=_have_passkeys(postern),
        errors=errors,
        longest=LONGEST_PASSWORD,
    )


def code_page(call: AnyCall, postern: Postern, flow: Flow, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    return shipped_pages().page(
        "sign_in/second_factor.html",
        call.language,
        brand=flow.branding,
        action=SECOND_FACTOR,
        flow=str(flow.id),
        form_token=token_for(IN_FLOW, call.request, postern, str(flow.id)),
        other=f"{SIGN_IN}?flow={flow.id}",
        lost=f"{LOST_FACTOR}?flow={flow.id}",
        by_app=flow.has_authenticator,
        by_passkey=flow.has_passkey and _have_passkeys(postern),
        passkeys=_have_passkeys(postern),
        passkey=f"{SECOND_FACTOR}/passkey",
        trust_days=trust_period(flow.trust_days).days,
        errors=errors,
        longest=LONGEST_CODE,
    )


async def _way_in(postern: Postern, email: str) -> WayIn:
    return await postern.identity.realms.way_in(Email(email))


async def _asked_at_sign_in(call: AnyCall, postern: Postern, flow: Flow, email: str) -> PagePuzzle:
    asked = PagePuzzle.of(call, postern, PuzzlePurpose.SIGN_IN, flow).at_least(postern.identity.guesses.bits(call.client))
    return await asked.unless_known(email)


def _is_address(text: str) -> bool:
    name, at, host = text.rpartition("@")
    return bool(name and at and host) and len(text) <= _LONGEST_EMAIL and not any(character.isspace() for character in text)


def _text(call: AnyCall) -> Any:
    return shipped_pages().text(call.language)


def _errors(field: str, refusal: Refusal, call: AnyCall) -> Mapping[str, str]:
    return {field: in_words(refusal, _text(call))}
