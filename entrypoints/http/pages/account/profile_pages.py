"""`/ui/profile`: what the person says of themselves, the account's address and its language. A new address needs a fresh proof and a mailed
link, as with `PATCH /api/user`.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound, PayloadTooLarge, RateLimited, Refusal, Unauthorized
from core.domain.identity.profiles import LARGEST_PICTURE, LONGEST_NAME, MOST_PIXELS, PICTURE_TYPES, OwnProfileChange, WrongField
from core.domain.identity.proofs import StepUp
from core.domain.languages import Language
from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import NO_ERRORS, PROFILE, AnyCall, Done, Page, back_to, details_signals, show
from entrypoints.http.pages.declaring import WITH_FORM, Advised, WayOn, page

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
    language: Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(Language)})?$")]
    """A language, or empty for the browser's language."""


class DetailsForm(BoundForm, frozen=True, kw_only=True):
    """An empty field empties the field of the profile."""

    name: str = ""
    given_name: str = ""
    family_name: str = ""
    username: str = ""
    zoneinfo: str = ""

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
    email: str = ""
    current: str = ""
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
