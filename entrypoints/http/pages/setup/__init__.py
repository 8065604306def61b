"""Caller rules of the pages behind a set-up link. The browser that pressed the button owns the link, by a cookie of its own. Whoever holds
the link alone sees the page with the button, or learns why there is none.

`/ui/setup`: the pages behind a set-up link. They look like the organization, and open nothing but what the link is for.

`/ui/setup/{token}`: the page with the button. A mail scanner that opens the link does nothing; the first browser that presses the button
owns the link, and goes on at an address without the token.

`/ui/setup/of/{link_id}`: what the link is for, how far each part is, and the steps that all parts share.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound, Overloaded, RateLimited, Refusal
from core.domain.identifiers import SetupLinkId
from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from core.domain.tenancy.setup import (
    LONGEST_USER,
    KnownSetupLink,
    SetupDraft,
    SetupDraftState,
    SetupLinkRefused,
    SetupLinkUnknown,
    SetupPurpose,
    require_browser,
)
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, Headers, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import keep_setup_secret, setup_secret
from entrypoints.http.machinery.browsers import BoundForm, token_for
from entrypoints.http.machinery.callers import CallerRule, SecurityScheme
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, Advised, in_words, page


class _SetupBrowser:
    """Any browser, before it owns a link."""

    name = "setup_browser"
    scheme: SecurityScheme | None = None
    refuses: tuple[type[Refusal], ...] = (SetupLinkRefused, SetupLinkUnknown)
    reads: tuple[str, ...] = ()

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, postern: Postern) -> KnownSetupLink | None:  # noqa: ARG002 - the other rule looks the link up
        return None

    def secret(self, request: Request, postern: Postern, flow: str) -> tuple[Token, str] | None:  # noqa: ARG002 - only flows need it
        secret = setup_secret(request, postern.foundation.public_url)
        return None if secret is None else (secret, "setup")

    def former_secret(self, request: Request, postern: Postern) -> tuple[Token, str] | None:  # noqa: ARG002
        return None


class _SetupVisitor(_SetupBrowser):
    """The browser that owns the link of the path. In the audit log the link acts, under its own name."""

    name = "setup_visitor"
    reads = ("link_id",)

    async def admit(self, request: Request, postern: Postern) -> KnownSetupLink:
        try:
            link = SetupLinkId(UUID(request.path_values["link_id"]))
        except ValueError:
            raise SetupLinkUnknown from None
        known = await postern.tenancy.setup_links.enter(link, setup_secret(request, postern.foundation.public_url))
        request.acting_key = known.link.acting
        request.spoken = known.branding.languages
        return known


SETUP_BROWSER: Final[CallerRule] = _SetupBrowser()
SETUP_VISITOR: Final[CallerRule] = _SetupVisitor()


PLACE: Final = "/ui/setup/of/{link_id}"
AnySetupCall = Call[Any, Any, Any, KnownSetupLink]
Page = Answer[bytes] | Answer[NoBody]
NO_ERRORS: Final[Mapping[str, str]] = {}
REFUSED: Final = (SetupLinkRefused, SetupLinkUnknown, NotFound)
REFUSED_FORM: Final = (*REFUSED, BadRequest, Conflict, RateLimited, Overloaded)
_OF_SET_UP: Final = ("setup_", "metadata_")


class SetupPath(msgspec.Struct, frozen=True):
    link_id: Line


class SetupPartPath(msgspec.Struct, frozen=True):
    link_id: Line
    draft_id: Line


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


_HERE = "/ui/setup/{token}"


class SetupToken(msgspec.Struct, frozen=True):
    token: Token


class BeginForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""


@page.get(_HERE, caller=SETUP_BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=(SetupLinkRefused, SetupLinkUnknown))
async def show_setup(call: Call[None, None, SetupToken, KnownSetupLink], postern: Postern) -> Page:
    """Show what a set-up link is for, with the button that begins

    This looks up the link and leaves it usable, however often a program opens it.
    """
    known = await postern.tenancy.setup_links.look(call.path.token)
    call.speak_for(known.branding)
    browser = setup_secret(call.request, postern.foundation.public_url)
    if browser is not None and known.browser_digest == browser.digest():
        return redirect(PLACE.format(link_id=known.link.id))
    if known.browser_digest is not None or known.link.finished_at is not None:
        require_browser(known, None)
    return _page(call, postern, known)


@page.post(
    _HERE,
    caller=SETUP_BROWSER,
    limit=PAGE_STEPS,
    policy=WITH_FORM,
    advice=advice,
    refuses=(BadRequest, RateLimited, SetupLinkRefused, SetupLinkUnknown),
)
async def begin_setup(call: Call[BeginForm, None, SetupToken, KnownSetupLink], postern: Postern) -> Page:
    """Bind a set-up link to this browser"""
    browser = setup_secret(call.request, postern.foundation.public_url)
    if browser is None:
        # The form was not bound to a cookie, so it has not come this far.
        raise SetupLinkUnknown
    try:
        link = await postern.tenancy.setup_links.begin(call.path.token, browser, call.body.name, call.actor)
    except BadRequest as refusal:
        known = await postern.tenancy.setup_links.look(call.path.token)
        call.speak_for(known.branding)
        said = in_words(refusal, shipped_pages().text(call.language))
        return _page(call, postern, known, call.body.name, said)
    onward = redirect(PLACE.format(link_id=link.id)).headers
    return Answer(NO_BODY, 303, (*onward, *keep_setup_secret(browser, postern.foundation.public_url)))


def _page(
    call: Call[BeginForm, None, SetupToken, KnownSetupLink] | Call[None, None, SetupToken, KnownSetupLink],
    postern: Postern,
    known: KnownSetupLink,
    name: str = "",
    error: str = "",
) -> Page:
    browser = setup_secret(call.request, postern.foundation.public_url)
    headers: Headers = ()
    if browser is None:
        browser = postern.foundation.secrets.token()
        headers = keep_setup_secret(browser, postern.foundation.public_url)
    content = shipped_pages().page(
        "setup/begin.html",
        call.language,
        brand=known.branding,
        link=known.link,
        action=f"/ui/setup/{quote(call.path.token.reveal())}",
        form_token=form_token(browser, "setup"),
        errors={"name": error} if error else {},
        name=name,
        longest=LONGEST_USER,
    )
    return Answer(content, 400 if error else 200, headers)


_ONE: Final = f"{PLACE}/drafts/{{draft_id}}"
NOT_BEGUN: Final = "none"


class SetupOutcome(msgspec.Struct, frozen=True):
    done: str = ""


@page.get(PLACE, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_overview(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Show what a set-up link is for, and how far it is"""
    known = call.caller
    drafts = await postern.tenancy.setup_drafts.list(known.link.id)
    parts = [(purpose.value, state_of(purpose, drafts), place(known, f"/{purpose.value}")) for purpose in known.link.purposes]
    return show(call, postern, "overview.html", parts=parts)


@page.post(f"{_ONE}/finish", caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def finish_setup_draft(call: Call[BoundForm, None, SetupPartPath, KnownSetupLink], postern: Postern) -> Page:
    """Hand over what was set up, or make it active"""
    known = call.caller
    draft = draft_of(await postern.tenancy.setup_drafts.list(known.link.id), call.path.draft_id)
    try:
        await postern.tenancy.setup_drafts.hand_over(known, draft.id, call.actor)
    except (BadRequest, Conflict) as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        return show(call, postern, "stopped.html", status=409, said=said, words=refusal.words, back=_page_of(known, draft))
    return redirect(_page_of(known, draft))


@page.post(f"{_ONE}/remove", caller=SETUP_VISITOR, limit=PAGE_STEPS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def remove_setup_draft(call: Call[BoundForm, None, SetupPartPath, KnownSetupLink], postern: Postern) -> Page:
    """Drop what was set up, to begin anew"""
    known = call.caller
    draft = draft_of(await postern.tenancy.setup_drafts.list(known.link.id), call.path.draft_id)
    await postern.tenancy.setup_drafts.remove(known, draft.id, call.actor)
    return redirect(place(known, f"/{draft.purpose.value}"))


def state_of(purpose: SetupPurpose, drafts: Sequence[SetupDraft]) -> str:
    """The state of a part, in the words of the texts: that of its draft which is least far."""
    states = [draft.state for draft in drafts if draft.purpose is purpose]
    return next((state.value for state in SetupDraftState if state in states), NOT_BEGUN)


def _page_of(known: KnownSetupLink, draft: SetupDraft) -> str:
    more = f"/{draft.id}" if draft.purpose is SetupPurpose.DOMAIN else ""
    return place(known, f"/{draft.purpose.value}{more}")
