"""`/ui/setup`: the pages behind a set-up link. They look like the organization, and open nothing but what the link is for."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound, Overloaded, RateLimited, Refusal
from core.domain.tenancy.setup import KnownSetupLink, SetupDraft, SetupLinkRefused, SetupLinkUnknown
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody
from entrypoints.http.machinery.browsers import token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import Advised
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.setup.visitors import SETUP_VISITOR

PLACE: Final = "/ui/setup/of/{link_id}"
AnySetupCall = Call[Any, Any, Any, KnownSetupLink]
Page = Answer[bytes] | Answer[NoBody]
NO_ERRORS: Final[Mapping[str, str]] = {}
REFUSED: Final = (SetupLinkRefused, SetupLinkUnknown, NotFound)
REFUSED_FORM: Final = (*REFUSED, BadRequest, Conflict, RateLimited, Overloaded)
_OF_SET_UP: Final = ("setup_", "metadata_")


class SetupPath(msgspec.Struct, frozen=True):
    link_id: str


class SetupPartPath(msgspec.Struct, frozen=True):
    link_id: str
    draft_id: str


def advice(refused: Refused) -> str | Advised:
    """What to do next. Nothing leads on by itself: the person asks whoever sent the link."""
    if isinstance(refused, SetupLinkRefused | SetupLinkUnknown):
        return Advised(f"setup.advice.{refused.words}")
    return Advised("setup.advice.otherwise")


def place(known: KnownSetupLink, more: str = "") -> str:
    return f"{PLACE.format(link_id=known.link.id)}{more}"


def show(
    call: AnySetupCall, postern: Postern, template: str, *, errors: Mapping[str, str] = NO_ERRORS, status: int = 200, **values: Any
) -> Page:
    """A page in the name of the organization, for the browser that owns the link."""
    known = call.caller
    content = shipped_pages().page(
        f"setup/{template}",
        call.language,
        brand=known.branding,
        link=known.link,
        at=place(known),
        form_token=token_for(SETUP_VISITOR, call.request, postern),
        errors=errors,
        now=postern.foundation.clock.now(),
        **values,
    )
    return Answer(content, status)


def errors_of(call: AnySetupCall, refusal: Refusal, fields: Mapping[str, str]) -> Mapping[str, str]:
    """The refusal beside the field that its message names. `fields` has the text for each field, in words for somebody who does not know
    Postern; only words that were found for these pages say more. Another refusal stands above the form.
    """
    text = shipped_pages().text(call.language)
    named, colon, _ = refusal.message.partition(":")
    at = named if colon and named in fields else ""
    if at and not refusal.words.startswith(_OF_SET_UP):
        return {at: text(fields[at])}
    return {at: in_words(refusal, text) if refusal.words != refusal.code.lower() else text("setup.wrong")}


def draft_of(drafts: Sequence[SetupDraft], draft_id: str) -> SetupDraft:
    """Raises `NotFound`."""
    found = next((one for one in drafts if str(one.id) == draft_id), None)
    if found is None:
        raise NotFound
    return found
