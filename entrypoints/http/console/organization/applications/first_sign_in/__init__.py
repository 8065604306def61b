"""The first sign-in to an application appears: the page behind its making waits for it, and shows the mistakes until then. The script of
the page asks again by itself; without it, a link does.

Only requests of the browser session that waits show. Any site can send this browser to us in the application's name, so what came from
elsewhere is never one press away from being registered.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from core.domain.errors import Forbidden, NotFound, Refusal
from core.domain.federation.authorization_refusals import AWAITED_FOR, AwaitedSignIn, RefusingEndpoint, may_be_added_by_a_press
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.federation.oauth.resources import known
from core.domain.identifiers import AwaitedSignInId
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.claims import ShownPlace, places_of
from entrypoints.http.console.organization.applications.overview import MEND, refusal_words
from entrypoints.http.machinery.answers import Answer, Headers, redirect
from entrypoints.http.machinery.browser_cookies import keep_awaiting
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, ServicePath
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import ASKS_AGAIN
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.services import ServicePatch, change_service, get_service

_AT: Final = applications.FIRST_SIGN_IN
_NOW: Final = f"{_AT}/now"
_ADDRESS: Final = f"{_AT}/address"


class WaitingLink(msgspec.Struct, frozen=True):
    page: UUID | None = None
    done: Line = ""


class ReceivedAddressForm(BoundForm, frozen=True, kw_only=True):
    page: UUID
    refusal: UUID
    """The refused request with the address. The form names no address: the page that was open has shown it, and so it is the recorder's."""


class SeenMistake(NamedTuple):
    id: UUID
    because: str
    mend: str
    place: str
    """Where to mend it. Empty if that is nowhere here."""
    received: str
    registered: Sequence[str]
    at: Any
    offers_address: bool
    is_typed: bool
    """An address that nobody adds by a press: whoever wants it types it."""


class SeenArrival(NamedTuple):
    at: Any
    person: str
    """Empty for a reader who may not list end users."""
    scopes: Sequence[str]
    tokens: Sequence[ShownPlace]


@console.get(_AT, of=list_authorization_refusals, also=(preview_tokens, change_service, get_service), policy=ASKS_AGAIN)
async def show_first_sign_in(call: Call[None, WaitingLink, ServicePath, Any], postern: Postern) -> Page:
    """Wait for the first sign-in to an application."""
    return Answer(await _page(PageVisit(call, postern), call.query.page, done=call.query.done), 200)


@console.part(_NOW, of=list_authorization_refusals, also=(preview_tokens, change_service))
async def show_first_sign_in_now(call: Call[None, WaitingLink, ServicePath, Any], postern: Postern) -> Page:
    """Say what has come by now."""
    visit = PageVisit(call, postern)
    values = await seen(visit, None if call.query.page is None else AwaitedSignInId(call.query.page))
    template = "console/organization/applications/first_sign_in/now.html"
    form_token = token_for(BROWSER, call.request, postern)
    return Answer(shipped_pages().page(template, call.language, form_token=form_token, now=postern.foundation.clock.now(), **values), 200)


# The form calls no endpoint: the page alone waits.
@console.post(_AT, of=list_authorization_refusals.caller)
async def wait_for_first_sign_in(call: Call[BoundForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Wait for ten minutes, from now on."""
    visit = PageVisit(call, postern)
    page, headers = await begun(visit, visit.path["service_slug"])
    onward = redirect(f"{visit.here(_AT)}?page={page}")
    return Answer(onward.value, onward.status, (*onward.headers, *headers))


@console.post(_ADDRESS, of=change_service, also=(list_authorization_refusals, get_service, preview_tokens), policy=ASKS_AGAIN)
async def add_received_address(call: Call[ReceivedAddressForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Register the address of a refused request, if it is http on this machine alone."""
    visit, form = PageVisit(call, postern), call.body
    found = await _look(visit, AwaitedSignInId(form.page))
    mistakes = () if found is None else await _mistakes(visit, found)
    address = next((one.received for one in mistakes if one.id == form.refusal and one.offers_address), "")
    if not address:
        raise NotFound
    service = await visit.ask(get_service)
    try:
        if address not in service.redirect_uris:
            await visit.ask(change_service, body=ServicePatch(redirect_uris=[*service.redirect_uris, address]))
    except Refusal as problem:
        errors, status = explained(visit, problem)
        return Answer(await _page(visit, form.page, errors={"": next(iter(errors.values()))}), status)
    return redirect(f"{visit.here(_AT)}?page={form.page}&done=saved")


async def begun(visit: PageVisit, slug: str) -> tuple[AwaitedSignInId, Headers]:
    """Begins to wait. The mark in the browser says which requests are worth a look."""
    new = await visit.postern.federation.awaited_sign_ins.begin(visit.call.caller, slug)
    return new.id, keep_awaiting(AWAITED_FOR, visit.postern.foundation.public_url)


async def seen(visit: PageVisit, page: AwaitedSignInId | None, slug: str = "") -> Mapping[str, Any]:
    """What the part of the page shows. `slug` is for a page whose address does not name the application."""
    named: Mapping[str, Any] = {"service_slug": slug} if slug else {}
    found = None if page is None else await _look(visit, page, slug)
    now = visit.postern.foundation.clock.now()
    return {
        "awaited": found,
        "is_over": found is None or found.is_over(now),
        "was_here": page is not None,
        "page": page,
        "mistakes": () if found is None or found.arrived is not None else await _mistakes(visit, found, **named),
        "arrival": None if found is None or found.arrived is None else await _arrival(visit, found, **named),
        "waiting_at": visit.here(_AT, **named),
        "asks_at": "" if page is None else f"{visit.here(_NOW, **named)}?page={page}",
        "adds_at": visit.here(_ADDRESS, **named),
        "may_wait": visit.person.impersonator is None,
    }


async def _look(visit: PageVisit, page: AwaitedSignInId, slug: str = "") -> AwaitedSignIn | None:
    return await visit.postern.federation.awaited_sign_ins.look(visit.call.caller, slug or visit.path["service_slug"], page)


async def _mistakes(visit: PageVisit, found: AwaitedSignIn, **named: Any) -> Sequence[SeenMistake]:
    """Only the refused requests of the browser that waits. Without any, nobody reads the record."""
    if not found.mistakes:
        return ()
    mine = set(found.mistakes)
    listed = (await visit.ask(list_authorization_refusals, **named)).refusals
    may_add = visit.may(change_service)
    return [_mistake(visit, one, may_add=may_add, **named) for one in listed if one.id in mine and one.place is RefusingEndpoint.AUTHORIZE]


def _mistake(visit: PageVisit, one: Any, *, may_add: bool, **named: Any) -> SeenMistake:
    because, mend = refusal_words(visit, one)
    is_address = one.reason is RefusalReason.REDIRECT_UNREGISTERED and bool(one.received) and one.received not in one.registered
    offers = is_address and may_add and may_be_added_by_a_press(one.received)
    return SeenMistake(
        one.id,
        because,
        mend,
        visit.here(MEND[one.reason], **named) if one.reason in MEND else "",
        one.received,
        one.registered,
        one.created_at,
        offers,
        is_address and not offers,
    )


async def _arrival(visit: PageVisit, found: AwaitedSignIn, **named: Any) -> SeenArrival | None:
    """The person and what the application has learned, by the rules of the preview: for those who may list end users."""
    assert found.arrived is not None  # noqa: S101 - the caller has looked
    asked = known(found.arrived.scopes)
    query = {"user_id": str(found.arrived.user), **({"scope": " ".join(asked)} if asked else {})}
    try:
        preview = await visit.ask(preview_tokens, query=query, **named) if visit.may(preview_tokens) else None
    except (Forbidden, NotFound):
        preview = None
    if preview is None:
        return SeenArrival(found.arrived.at, "", (), ())
    # Only the person of this very session can have come.
    return SeenArrival(found.arrived.at, visit.person.email.address, asked, places_of(visit, preview) if asked else ())


async def _page(visit: PageVisit, page: UUID | None, *, done: str = "", errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    head = Head(
        title=visit.text("console.first_sign_in.title"),
        crumbs=applications.above(visit),
        curl=visit.curl(list_authorization_refusals),
        done=done,
        errors=errors,
    )
    values = await seen(visit, None if page is None else AwaitedSignInId(page))
    template = "organization/applications/first_sign_in/first_sign_in.html"
    return visit.show(template, applications.OVERVIEW_POSITION, head, onward=visit.here(applications.ONE), **values)


PAGES: Final = (show_first_sign_in, show_first_sign_in_now, wait_for_first_sign_in, add_received_address)
