"""`/ui/profile`: the account's address and language. A new address needs a fresh proof and a mailed link, as with `PATCH /api/user`."""

from typing import Annotated, Final

import msgspec

from core.domain.email import Email
from core.domain.errors import BadRequest, NotFound, RateLimited, Refusal, Unauthorized
from core.domain.identity.profile.profiles import OwnProfileChange
from core.domain.identity.proofs import StepUp
from core.domain.languages import Language
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import PROFILE, AnyCall, Done, Page, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

_LANGUAGE: Final = f"{PROFILE}/language"
_EMAIL: Final = f"{PROFILE}/email"
_LONGEST_EMAIL: Final = 320
_DONE: Final = {
    "mailed": "profile.done_mailed",
    "moved": "profile.done_moved",
    "kept": "profile.done_kept",
    "language": "profile.done_language",
}
# Each name is in its own language, so that a person who cannot read this page finds theirs.
_NAMES: Final = {Language.ENGLISH: "English", Language.GERMAN: "Deutsch", Language.SPANISH: "Español", Language.FRENCH: "Français"}


class LanguageForm(BoundForm, frozen=True, kw_only=True):
    language: Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(Language)})?$")]
    """A language, or empty for the browser's language."""


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
        change=_EMAIL,
        choose=_LANGUAGE,
        languages=_NAMES,
        chosen=call.caller.language,
        done=_DONE.get(call.query.done, ""),
    )


@page.post(_LANGUAGE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def choose_own_language(call: Call[LanguageForm], postern: Postern) -> Page:
    """Choose the language of pages and mails"""
    change = OwnProfileChange(language=Language.of(call.body.language))
    await postern.identity.profiles.change(call.caller.user, change, call.actor, username=call.caller.profile.username)
    return back_to(PROFILE, "language")


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
