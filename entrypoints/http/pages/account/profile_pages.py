"""`/ui/confirm-address`: people whose address nobody has proved ask for the mail that proves it. Mostly they came through the directory of
an organization, which only vouches for the address.

`/ui/profile`: what the person says of themselves, the account's address and its language. A new address needs a fresh proof and a mailed
link, as with `PATCH /api/user`.

`/ui/password`: choosing a first password, or a new one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound, Overloaded, PayloadTooLarge, RateLimited, Refusal, Unauthorized
from core.domain.identifiers import UserId
from core.domain.identity.account_mails import AccountMail
from core.domain.identity.accounts import LONGEST_PASSWORD, AccountSummary
from core.domain.identity.callers import Caller
from core.domain.identity.profiles import LARGEST_PICTURE, LONGEST_NAME, MOST_PIXELS, PICTURE_TYPES, OwnProfileChange, WrongField
from core.domain.identity.proofs import StepUp
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.secrets import Password
from core.usecases.identity.account_passwords import FittingPassword
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import BROWSER, HOME, BoundForm, proof_page
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS
from entrypoints.http.page_addresses import PASSWORD
from entrypoints.http.pages.account import NO_ERRORS, PROFILE, AnyCall, Done, Page, back_to, details_signals, show
from entrypoints.http.pages.kit.declaring import WITH_FORM, Advised, WayOn, page

CONFIRM_ADDRESS: Final = "/ui/confirm-address"


@page.get(CONFIRM_ADDRESS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
def show_address_confirmation(call: Call[None, Done], postern: Postern) -> Page:
    """See whether your address is confirmed, and ask for the mail that confirms it"""
    if call.caller.email_is_verified:
        return redirect(HOME)
    sent = "confirm_address.sent" if call.query.done == "sent" else ""
    return Answer(show(call, postern, "confirm_address.html", HOME, action=CONFIRM_ADDRESS, done=sent), 200)


@page.post(CONFIRM_ADDRESS, caller=BROWSER, limit=AUTH, policy=WITH_FORM, refuses=(Unauthorized,))
async def send_address_confirmation(call: Call[BoundForm], postern: Postern) -> Answer[NoBody]:
    """Ask for the mail that confirms your address"""
    await postern.identity.accounts.ask_for_mail(AccountMail.VERIFICATION, call.caller.email, "", call.language)
    return redirect(f"{CONFIRM_ADDRESS}?done=sent")


_LANGUAGE: Final = f"{PROFILE}/language"
_DETAILS: Final = f"{PROFILE}/details"
_PICTURE: Final = f"{PROFILE}/picture"
_NO_PICTURE: Final = f"{PROFILE}/picture/remove"
_EMAIL: Final = f"{PROFILE}/email"
# Larger than a picture may be, so that a person who sends a photo gets the form back, with what is wrong.
_LARGEST_FORM: Final = 4 * LARGEST_PICTURE
_LONGEST_EMAIL: Final = 320
_DONE: Final = {
    "mailed": "profile.done_mailed",
    "moved": "profile.done_moved",
    "kept": "profile.done_kept",
    "language": "profile.done_language",
    "details": "profile.done_details",
    "picture": "profile.done_picture",
    "no-picture": "profile.done_no_picture",
}


class LanguageForm(BoundForm, frozen=True, kw_only=True):
    language: Annotated[Line, msgspec.Meta(pattern=f"^({'|'.join(Language)})?$")]
    """A language, or empty for the browser's language."""


class DetailsForm(BoundForm, frozen=True, kw_only=True):
    """An empty field empties the field of the profile."""

    name: Line = ""
    given_name: Line = ""
    family_name: Line = ""
    username: Line = ""
    zoneinfo: Line = ""

    def change(self) -> OwnProfileChange:
        return OwnProfileChange(
            name=self.name.strip() or None,
            given_name=self.given_name.strip() or None,
            family_name=self.family_name.strip() or None,
            username=self.username.strip() or None,
            zoneinfo=self.zoneinfo.strip() or None,
        )


class PictureForm(BoundForm, frozen=True, kw_only=True):
    picture: bytes = b""


class EmailForm(BoundForm, frozen=True, kw_only=True):
    email: Line = ""
    current: Line = ""
    """The address that the page showed."""


@page.get(PROFILE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def show_profile(call: Call[None, Done], postern: Postern) -> bytes:
    """See your profile"""
    summary = await postern.identity.account_summaries.of(call.caller.user)
    return show(
        call,
        postern,
        "profile.html",
        PROFILE,
        summary=summary,
        profile=call.caller.profile,
        signals=details_signals(call, postern),
        details=_DETAILS,
        picture=_PICTURE,
        change=_EMAIL,
        choose=_LANGUAGE,
        languages=tuple(Language),
        chosen=call.caller.language,
        done=_DONE.get(call.query.done, ""),
    )


@page.post(_LANGUAGE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def choose_own_language(call: Call[LanguageForm], postern: Postern) -> Page:
    """Choose the language of pages and mails"""
    change = OwnProfileChange(language=Language.of(call.body.language))
    await postern.identity.profiles.change(call.caller.user, change, call.actor, username=call.caller.profile.username)
    return back_to(PROFILE, "language")


@page.get(_DETAILS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
def show_details_form(call: Call, postern: Postern) -> bytes:
    """Ask for names, user name and time zone"""
    told = call.caller.profile
    given = DetailsForm(
        name=told.name or "",
        given_name=told.given_name or "",
        family_name=told.family_name or "",
        username=told.username or "",
        zoneinfo=told.zoneinfo or "",
    )
    return _details(call, postern, given)


@page.post(_DETAILS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound, Conflict))
async def send_details_form(call: Call[DetailsForm], postern: Postern) -> Page:
    """Change names, user name and time zone"""
    caller = call.caller
    try:
        await postern.identity.profiles.change(caller.user, call.body.change(), call.actor, username=caller.profile.username)
    except WrongField as refusal:
        return Answer(_details(call, postern, call.body, {refusal.field: refusal}), 400)
    except (Conflict, RateLimited) as refusal:
        return Answer(_details(call, postern, call.body, {"username": refusal}), status_of(refusal))
    return back_to(PROFILE, "details")


@page.get(_PICTURE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
def show_picture_form(call: Call, postern: Postern) -> bytes:
    """Ask for a picture"""
    return _picture(call, postern)


@page.post(
    _PICTURE,
    caller=BROWSER,
    limit=PAGE_LOADS,
    policy=WITH_FORM,
    accepts=FormWithFile(_LARGEST_FORM),
    refuses=(NotFound,),
    advice=lambda refused: Advised("picture.too_large", WayOn(_PICTURE, "picture.title")) if isinstance(refused, PayloadTooLarge) else "",
)
async def send_picture_form(call: Call[PictureForm], postern: Postern) -> Page:
    """Set the picture"""
    try:
        await postern.identity.pictures.put(call.caller.user, call.body.picture, call.actor)
    except (BadRequest, PayloadTooLarge) as refusal:
        return Answer(_picture(call, postern, {"picture": refusal}), status_of(refusal))
    return back_to(PROFILE, "picture")


@page.post(_NO_PICTURE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def send_picture_removal(call: Call[BoundForm], postern: Postern) -> Page:
    """Remove the picture"""
    await postern.identity.pictures.remove(call.caller.user, call.actor)
    return back_to(PROFILE, "no-picture")


@page.get(_EMAIL, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT)
def show_email_form(call: Call, postern: Postern) -> bytes:
    """Ask for another e-mail address"""
    return _form(call, postern)


@page.post(_EMAIL, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(Unauthorized, NotFound))
async def send_email_form(call: Call[EmailForm], postern: Postern) -> Page:
    """Change the e-mail address

    To withdraw a change that waits for its link, enter the current address.
    """
    given = call.body.email.strip()
    try:
        email = _address(given, postern)
        change = await postern.identity.accounts.ask_for_email(call.caller.user, call.caller.session, email, call.actor)
    except (BadRequest, RateLimited) as refusal:
        return Answer(_form(call, postern, given, refusal), 429 if isinstance(refusal, RateLimited) else 400)
    if change.pending is not None:
        return back_to(PROFILE, "mailed")
    # When a form is sent twice, the second request finds that the first has already changed the address.
    is_kept = change.email.address == call.caller.email.address == (call.body.current or call.caller.email.address)
    return back_to(PROFILE, "kept" if is_kept else "moved")


def _address(given: str, postern: Postern) -> Email:
    try:
        return postern.foundation.email_syntax.parse(given)
    except BadRequest as refusal:
        raise BadRequest(words="email_invalid", detail=refusal.detail) from None


def _form(call: AnyCall, postern: Postern, email: str = "", refusal: Refusal | None = None) -> bytes:
    errors = {} if refusal is None else {"email": refusal}
    return show(call, postern, "email.html", PROFILE, action=_EMAIL, back=PROFILE, email=email, longest=_LONGEST_EMAIL, errors=errors)


def _details(call: AnyCall, postern: Postern, given: DetailsForm, errors: Mapping[str, Refusal] = NO_ERRORS) -> bytes:
    return show(call, postern, "names.html", PROFILE, errors=errors, given=given, action=_DETAILS, back=PROFILE, longest=LONGEST_NAME)


def _picture(call: AnyCall, postern: Postern, errors: Mapping[str, Refusal] = NO_ERRORS) -> bytes:
    return show(
        call,
        postern,
        "picture.html",
        PROFILE,
        errors=errors,
        action=_PICTURE,
        remove=_NO_PICTURE,
        back=PROFILE,
        types=",".join(PICTURE_TYPES),
        largest=LARGEST_PICTURE >> 10,
        most=MOST_PIXELS,
    )


# The field of a refusal, for refusals that are not about the new password.
_FIELDS: Final = {"wrong_current_password": "current", "rate_limit_exceeded": ""}
# When a form is sent twice, the second request gets one of these refusals.
_TWICE: Final = frozenset({"wrong_current_password", "has_password"})
_PROVE_FIRST: Final = redirect(proof_page(PASSWORD, StepUp.ACCOUNT))
_OWN_PASSWORD_PAGE_DONE: Final = {"changed": "own_password.done_changed", "set": "own_password.done_set"}


class OwnPasswordForm(BoundForm, frozen=True, kw_only=True):
    current: Password | None = None
    """None when the account gets its first password."""
    new_password: Password = Password("")
    repeated: Password = Password("")


@page.get(PASSWORD, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def show_own_password(call: Call[None, Done], postern: Postern) -> Page:
    """See when you chose your password, and choose a new one

    A first password needs a fresh proof, because it becomes a way to sign in.
    """
    summary = await postern.identity.account_summaries.of(call.caller.user)
    prove = postern.identity.reauthentication
    if not summary.has_password and not prove.has_proved(call.caller, summary.second_factor_since, StepUp.ACCOUNT):
        return _PROVE_FIRST
    return Answer(
        await _form_own_password_page(call, postern, summary, call.caller.user, done=_OWN_PASSWORD_PAGE_DONE.get(call.query.done, "")), 200
    )


@page.post(PASSWORD, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized, NotFound, Overloaded))
async def send_own_password(call: Call[OwnPasswordForm], postern: Postern) -> Page:
    """Choose a password

    All other sessions end. The same form, sent twice, gets the same answer. A first password needs a fresh proof.
    """
    form, user = call.body, call.caller.user
    done = back_to(PASSWORD, "set" if form.current is None else "changed")
    if form.current is None and await postern.identity.reauthentication.missing(call.caller, StepUp.ACCOUNT) is not None:
        return _PROVE_FIRST
    passwords = postern.identity.account_passwords
    try:
        errors: dict[str, Refusal] = {}
        new = await _fitting_at_sight(form, postern, call.caller, errors)
        if errors and form.current is not None and not await passwords.is_current(user, form.current, call.actor):
            errors = {"current": Unauthorized(words="wrong_current_password"), **errors}
        if errors or new is None:
            return Answer(
                await _form_own_password_page(call, postern, await postern.identity.account_summaries.of(user), user, errors=errors), 400
            )
        if form.current is None:
            await passwords.set(user, call.caller.session, new, call.actor)
        else:
            await passwords.change(user, call.caller.session, form.current, new, call.actor)
    except (BadRequest, Unauthorized, RateLimited) as refusal:
        if refusal.words in _TWICE and await passwords.was_just_chosen(user, form.new_password):
            return done
        # Another tab may have set a password in the meantime, so the form follows the present state of the account.
        summary = await postern.identity.account_summaries.of(user)
        shown = await _form_own_password_page(call, postern, summary, user, errors={_FIELDS.get(refusal.words, "new_password"): refusal})
        return Answer(shown, 429 if isinstance(refusal, RateLimited) else 400)
    return done


async def _fitting_at_sight(form: OwnPasswordForm, postern: Postern, caller: Caller, errors: dict[str, Refusal]) -> FittingPassword | None:
    """The new password, if the rules let it pass. Adds what is wrong, by the field."""
    passwords, fitting = postern.identity.account_passwords, None
    try:
        fitting = await passwords.rules.fitting(form.new_password, caller.email, await passwords.standing(caller.user))
    except BadRequest as refusal:
        errors["new_password"] = refusal
    if form.new_password.reveal() != form.repeated.reveal():
        errors["repeated"] = BadRequest(words="passwords_differ")
    return fitting


async def _form_own_password_page(call: AnyCall, postern: Postern, summary: AccountSummary, user: UserId, **more: Any) -> bytes:
    passwords = postern.identity.account_passwords
    return show(
        call,
        postern,
        "password.html",
        PASSWORD,
        action=PASSWORD,
        has_password=summary.has_password,
        changed_at=summary.password_changed_at,
        shortest=passwords.rules.shortest_for(await passwords.standing(user)),
        longest=LONGEST_PASSWORD,
        **more,
    )
