"""`/ui/register` and `/ui/check-mail`: registering an account, and waiting for the mail."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from core.domain.branding import POSTERN, Branding
from core.domain.errors import BadRequest, Conflict, NotFound, OrganizationNotActive, Overloaded, RateLimited
from core.domain.identifiers import TermsId
from core.domain.identity.account_mails import LONGEST_TYPED_CODE, AccountMail, Onward
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowPurpose, Wanted, form_token
from core.domain.identity.guards.puzzles import Puzzle, PuzzlePurpose, PuzzleUnsolved
from core.domain.identity.passwords import PasswordStanding
from core.domain.identity.registering import BUDGET_BITS, REFUSED_DOMAIN, RegistrationClosed, RegistrationPolicy
from core.domain.identity.sign_in import service_named
from core.domain.mail import Email
from core.domain.secrets import Password, Token
from core.usecases.identity.account_passwords import FittingPassword
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import IN_FLOW, SIGN_IN, bound_to, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import headers_of
from entrypoints.http.machinery.fields import Line, email_field
from entrypoints.http.machinery.limits import FORGOT_PASSWORD, PAGE_LOADS, REGISTER, RESEND_VERIFICATION, UNLIMITED
from entrypoints.http.pages.account.terms import shown_in, shown_terms
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP, IN_POPUP_WITH_BOTH, IN_POPUP_WITH_PUZZLE, in_words, page
from entrypoints.http.pages.kit.flows import (
    CHECK_MAIL,
    FORGOTTEN,
    NO_ERRORS,
    PASSKEY,
    PASSWORD,
    AnyCall,
    Page,
    browser_secret,
    flow_of,
    own_place,
    to,
)
from entrypoints.http.pages.kit.flows import REGISTER as REGISTER_PAGE
from entrypoints.http.pages.puzzle import WITH_WIDGET, PagePuzzle, PuzzleForm
from entrypoints.http.pages.sign_in.providers import to_provider
from entrypoints.http.pages.sign_in.sign_in_pages import PuzzleFirst, mailed, offered
from ports.texts import Text

_RESEND: Final = "/ui/check-mail/resend"
MAILED_CODE: Final = f"{CHECK_MAIL}/code"
AskedKind = Literal["verification", "reset", "sign_in_link"]


# What is wrong with a field, in the words of the page's language: the page may belong to an organization that speaks few.
_Wrong = Callable[[Text], str]
_NOTHING_WRONG: Final[Mapping[str, _Wrong]] = MappingProxyType({})


class EntryLink(msgspec.Struct, frozen=True):
    flow: Line = ""
    to: Line = ""
    """The page of ours to go to in the end, if there is no flow yet."""
    org_slug: Line = ""
    """The organization whose branding the page and the mail get, if there is no flow yet."""


class SentLink(msgspec.Struct, frozen=True):
    flow: Line = ""
    mail: AskedKind = "verification"
    later: Line = ""
    """Not empty when a budget of mails holds the mail back."""


class RegistrationForm(PuzzleForm, frozen=True, kw_only=True):
    email: Line = ""
    password: Password = Password("")
    to: Line = ""
    org_slug: Line = ""
    terms: Line = ""
    """The terms that the page has named."""


class ForgottenForm(PuzzleForm, frozen=True, kw_only=True):
    email: Line = ""
    to: Line = ""


@page.get(REGISTER_PAGE, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP_WITH_PUZZLE)
async def show_registration(call: Call[None, EntryLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the address and a password of a new account"""
    link = call.query
    flow = await flow_of(call, postern, link.flow) if link.flow else None
    browser, headers = browser_secret(call, postern)
    shown = _Entry(browser, flow, flow.email if flow is not None else "", link.to, link.org_slug)
    await postern.identity.journeys.refresh_offers()
    return Answer(await _registration_page(call, postern, shown), 200, headers)


@page.post(
    REGISTER_PAGE,
    caller=IN_FLOW,
    limit=REGISTER,
    policy=IN_POPUP_WITH_PUZZLE,
    accepts=WITH_WIDGET,
    refuses=(OrganizationNotActive, NotFound, Conflict, RateLimited, Overloaded),
)
async def send_registration(call: Call[RegistrationForm, None, None, Caller | None], postern: Postern) -> Page:
    """Register an account"""
    flow = await flow_of(call, postern, call.body.flow) if call.body.flow else None
    asked = PagePuzzle.of(call, postern, PuzzlePurpose.REGISTRATION, flow)
    form = asked.restored(call.body, REGISTER_PAGE)
    browser, _ = browser_secret(call, postern)
    wanted = Wanted(organization=form.org_slug) if flow is None else flow.wanted

    async def refused(errors: Mapping[str, _Wrong]) -> Page:
        shown = _Entry(browser, flow, form.email, form.to, form.org_slug)
        return Answer(await _registration_page(call, postern, shown, errors), 400)

    email, errors = await _typed_address(form.email.strip(), wanted.organization, postern)
    asked.count()
    if errors and (asked.demand.bits or "" in errors):
        # A mistyped address uses no solution up, nor the one form of somebody who has waited for an hour. Where nobody registers, there is
        # nothing more to say.
        return await refused(errors)
    try:
        solved = await asked.passed(form, BUDGET_BITS)
    except PuzzleUnsolved as refusal:
        shown_first = asked.elsewhere(form, REGISTER_PAGE, refusal, brand=await _brand(call, postern, flow, form.org_slug))
        return shown_first or await refused({**errors, "": partial(in_words, refusal)})
    fitting = None
    try:
        fitting = await _fitting(postern, email, form.password, wanted)
    except BadRequest as refusal:
        errors["password"] = partial(in_words, refusal)
    if errors or fitting is None:
        return await refused(errors)
    # The link in the mail leads back to this flow.
    onward = flow or postern.identity.flows.made(FlowPurpose.ACCOUNT, {"to": own_place(form.to)}, wanted, email=email.address)
    accepting = await postern.identity.terms.shown(wanted.organization, shown_terms(form.terms)) if form.terms else ()
    try:
        errors = await _register(call, postern, fitting, onward, browser, solved=solved, accepting=accepting)
    except RateLimited as refusal:
        over = None if solved else asked.at_least(BUDGET_BITS).elsewhere(form, REGISTER_PAGE, status=429, headers=headers_of(refusal))
        # What the person has typed stays. A limit by address answers before this handler.
        shown = _Entry(browser, flow, form.email, form.to, form.org_slug, 0 if solved else BUDGET_BITS)
        return over or Answer(await _registration_page(call, postern, shown, {"": partial(in_words, refusal)}), 429, headers_of(refusal))
    if errors:
        return await refused(errors)
    if flow is None:
        await postern.identity.flows.keep(onward, browser)
    else:
        await postern.identity.flows.name(flow, email)
    return to(CHECK_MAIL, onward)


async def _typed_address(typed: str, organization: str, postern: Postern) -> tuple[Email, dict[str, _Wrong]]:
    """The address, and what is wrong with it, by field. It comes before the lists of passwords: a form that was open when somebody closed
    the registration costs nothing more.
    """
    try:
        email = email_field(typed, postern.foundation.email_syntax)
    except BadRequest:
        return Email(typed), {"email": lambda text: text("sign_in.no_address")}
    try:
        await postern.identity.registrations.require(email, organization)
    except BadRequest as refusal:
        return email, {"email": partial(in_words, refusal)}
    except RegistrationClosed as refusal:
        return email, {"": partial(in_words, refusal)}
    return email, {}


async def _fitting(postern: Postern, email: Email, password: Password, wanted: Wanted) -> FittingPassword:
    """Raises `BadRequest` for a password that the rules do not let pass."""
    named = () if not wanted.service_slug else (wanted.organization, wanted.service_slug)
    return await postern.identity.account_passwords.rules.fitting(password, email, PasswordStanding(names=named))


async def _register(
    call: Call[RegistrationForm, None, None, Caller | None],
    postern: Postern,
    new: FittingPassword,
    flow: Flow,
    browser: Token,
    *,
    solved: bool,
    accepting: Sequence[TermsId],
) -> dict[str, _Wrong]:
    """What stands in the way, by field."""
    wanted, email = flow.wanted, new.email
    onward = Onward(flow=str(flow.id))
    try:
        service = service_named(wanted.organization, wanted.service_slug)
        await postern.identity.accounts.register(
            email, new, wanted.organization, call.actor, service, browser=browser, onward=onward, solved=solved, accepting=accepting
        )
    except BadRequest as refusal:
        return {"email" if refusal.words == REFUSED_DOMAIN else "password": partial(in_words, refusal)}
    except RegistrationClosed as refusal:
        return {"": partial(in_words, refusal)}
    except Conflict:
        # When a form is sent twice, the second request finds the account of the first.
        if not await postern.identity.accounts.was_just_registered(email, new.password):
            return {"email": lambda text: text("register.taken")}
    return {}


@page.get(CHECK_MAIL, caller=IN_FLOW, limit=UNLIMITED, policy=IN_POPUP)
async def check_mail(call: Call[None, SentLink, None, Caller | None], postern: Postern) -> bytes:
    """Say that a mail is on its way, and ask for its code

    The page is the same for every address, also for one without an account.
    """
    return check_mail_page(call, postern, await flow_of(call, postern, call.query.flow), call.query.mail, later=bool(call.query.later))


def check_mail_page(
    call: AnyCall, postern: Postern, flow: Flow, mail: AskedKind, errors: Mapping[str, str] = NO_ERRORS, *, later: bool = False
) -> bytes:
    return shipped_pages().page(
        "sign_in/check_mail.html",
        call.language,
        brand=flow.branding,
        mail=mail,
        later=later,
        email=flow.email,
        action=_RESEND,
        code_action=MAILED_CODE,
        longest=LONGEST_TYPED_CODE,
        errors=errors,
        flow=str(flow.id),
        form_token=token_for(IN_FLOW, call.request, postern, str(flow.id)),
        sign_in=f"{PASSWORD}?flow={flow.id}",
        forgotten=f"{FORGOTTEN}?flow={flow.id}",
    )


@page.post(_RESEND, caller=IN_FLOW, limit=RESEND_VERIFICATION, policy=IN_POPUP_WITH_PUZZLE, accepts=WITH_WIDGET)
async def resend_mail(call: Call[PuzzleForm, None, None, Caller | None], postern: Postern) -> Page:
    """Send the verification mail again, whether or not there is such an account"""
    flow = await flow_of(call, postern, call.body.flow)
    if flow.email:
        asked = PagePuzzle.of(call, postern, PuzzlePurpose.VERIFICATION, flow)
        form = asked.restored(call.body)
        email = email_field(flow.email, postern.foundation.email_syntax)
        try:
            return await mailed(asked, form, flow, email, AccountMail.VERIFICATION)
        except PuzzleFirst as first:
            return first.asked.on_its_own(form, _RESEND, first.unsolved)
    return to(CHECK_MAIL, flow)


@page.get(FORGOTTEN, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP_WITH_BOTH)
async def show_forgotten(call: Call[None, EntryLink, None, Caller | None], postern: Postern) -> Page:
    """Ask for the address of an account whose password is forgotten"""
    link = call.query
    flow = await flow_of(call, postern, link.flow) if link.flow else None
    browser, headers = browser_secret(call, postern)
    return Answer(_forgotten_page(call, postern, _Entry(browser, flow, flow.email if flow is not None else "", link.to)), 200, headers)


@page.post(FORGOTTEN, caller=IN_FLOW, limit=FORGOT_PASSWORD, policy=IN_POPUP_WITH_BOTH, accepts=WITH_WIDGET)
async def send_forgotten(call: Call[ForgottenForm, None, None, Caller | None], postern: Postern) -> Page:
    """Mail a link to choose a new password, whether or not there is such an account"""
    flow = await flow_of(call, postern, call.body.flow) if call.body.flow else None
    asked = PagePuzzle.of(call, postern, PuzzlePurpose.RESET, flow)
    form = asked.restored(call.body, FORGOTTEN)
    browser, _ = browser_secret(call, postern)
    text = form.email.strip()
    try:
        email = email_field(text, postern.foundation.email_syntax)
    except BadRequest:
        said = shipped_pages().text(call.language)("sign_in.no_address")
        return Answer(_forgotten_page(call, postern, _Entry(browser, flow, text, form.to), {"email": said}), 400)
    flows = postern.identity.flows
    # A flow that nothing comes of is not stored.
    onward = flow or flows.made(FlowPurpose.ACCOUNT, {"to": own_place(form.to)}, Wanted(), email=email.address)
    answer: Page | None = to_provider(call, postern, onward, email.address, await postern.identity.realms.way_in(email))
    try:
        if answer is None:
            answer = await mailed(asked, form, onward, email, AccountMail.RESET)
    except PuzzleFirst as first:
        if (shown_first := first.asked.elsewhere(form, FORGOTTEN, first.unsolved)) is not None:
            return shown_first
        told = {"": in_words(first.refusal, shipped_pages().text(call.language))}
        shown = _Entry(browser, flow, text, form.to, bits=first.asked.demand.bits)
        return Answer(_forgotten_page(call, postern, shown, told), 400)
    if flow is None:
        await flows.keep(onward, browser)
    else:
        await flows.name(flow, email)
    return answer


class _Entry(msgspec.Struct, frozen=True):
    """The parts of a form that may begin a flow: its flow, if there is one, and the values that the person has entered."""

    browser: Token
    flow: Flow | None
    email: str
    place: str = ""
    org_slug: str = ""
    bits: int = 0
    """What the form has to solve at least, because a budget of mails is over."""

    @property
    def fields(self) -> Mapping[str, object]:
        flow = "" if self.flow is None else str(self.flow.id)
        hidden = {name: value for name, value in (("to", self.place), ("org_slug", self.org_slug)) if value}
        return {"flow": flow, "form_token": self.form_token, "hidden": hidden, "email": self.email}

    @property
    def form_token(self) -> str:
        return form_token(self.browser, bound_to("" if self.flow is None else str(self.flow.id)))

    def puzzle(self, call: AnyCall, postern: Postern, purpose: PuzzlePurpose) -> Puzzle | None:
        return PagePuzzle.of(call, postern, purpose, self.flow).at_least(self.bits).shown(self.form_token)


async def _brand(call: AnyCall, postern: Postern, flow: Flow | None, org_slug: str) -> Branding:
    if flow is not None:
        return flow.branding
    found = (await postern.foundation.brandings.find(org_slug) if org_slug else None) or POSTERN
    call.speak_for(found)
    return found


async def _registration_page(call: AnyCall, postern: Postern, shown: _Entry, errors: Mapping[str, _Wrong] = _NOTHING_WRONG) -> bytes:
    organization = shown.org_slug if shown.flow is None else shown.flow.wanted.organization
    brand = await _brand(call, postern, shown.flow, shown.org_slug)
    text = shipped_pages().text(call.language)
    closed = await postern.identity.registrations.without_form(organization)
    if closed is not None:
        return shipped_pages().page(
            "sign_in/no_registration.html",
            call.language,
            brand=brand,
            invites=closed is RegistrationPolicy.INVITATION,
            sign_in=_with_flow(SIGN_IN, shown),
        )
    named = await postern.identity.terms.in_force(organization)
    return shipped_pages().page(
        "sign_in/register.html",
        call.language,
        brand=brand,
        action=REGISTER_PAGE,
        sign_in=_with_flow(SIGN_IN, shown),
        offers=offered(postern, shown.flow, shown.place),
        errors={field: wrong(text) for field, wrong in errors.items()},
        puzzle=shown.puzzle(call, postern, PuzzlePurpose.REGISTRATION),
        shortest=postern.identity.account_passwords.rules.shortest,
        longest=LONGEST_PASSWORD,
        terms=named,
        shown=shown_in(named),
        **shown.fields,
    )


def _forgotten_page(call: AnyCall, postern: Postern, shown: _Entry, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    brand = POSTERN if shown.flow is None else shown.flow.branding
    return shipped_pages().page(
        "sign_in/forgotten.html",
        call.language,
        brand=brand,
        action=FORGOTTEN,
        sign_in=_with_flow(SIGN_IN, shown),
        passkeys=postern.identity.passkeys.obstacle is None,
        passkey=PASSKEY,
        place=shown.place,
        errors=errors,
        puzzle=shown.puzzle(call, postern, PuzzlePurpose.RESET),
        **shown.fields,
    )


def _with_flow(place: str, shown: _Entry) -> str:
    return place if shown.flow is None else f"{place}?flow={shown.flow.id}"
