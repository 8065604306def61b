"""Flows on the pages: how a flow begins, how a page finds it again, and how it continues after the sign-in.

How to use this from a page of your own:

* **Only for people who are signed in**: `@page.get("/ui/devices", caller=BROWSER, …)` (`machinery/browsers.py`). `call.caller` is the
  person; `call.caller.proved` is the time of the person's last proof, and `authentication_methods` are its methods. A person who is not
  signed in goes to the sign-in page and comes back. `BROWSER_OR_NOBODY` admits both: without a person, `call.presented` is None.
  `step_up=…` leads to a page that asks for a fresh proof, and back.
* **A form** under these rules is a `BoundForm` (or a `FlowForm`, under `IN_FLOW`), and its page has the `form_token` that
  `token_for(rule, call.request, postern, flow)` gives. The machinery checks it before the handler runs.
* **A purpose of your own** (`FlowPurpose`): put `purpose → continuation` into `CONTINUATIONS`, and `begin(…)` a flow on the person's first
  page. `begin` keeps `request`, which only your continuation reads, and `wanted`, the demands on the sign-in. If the browser is already
  signed in as wanted, your continuation runs at once. Otherwise it runs after the sign-in, in the request of its last form, with the
  flow's new state and the new caller. The continuation may show a page of yours, or answer `redirect(…)`. A redirect to a page of ours is
  a 303. A redirect to another site becomes a page that leaves by itself, since browsers apply `form-action` to the redirects behind a
  form.
* **On your own pages within the flow** (consent, a choice) put the flow's id into the link and the form as `flow`, and find the flow by
  `flow_of(call, postern, id)`: the flow must be this browser's. `flow.session` is the browser's session from the sign-in of this flow; it
  is None if the person was already signed in as wanted. For a form of yours that leaves for another site: `left(call, flow, answer)`.
* **Things that may happen once**, like issuing a code, happen after `postern.identity.flows.complete(flow)` has returned True, or in your
  own unit of work after `uow.flows.complete(flow.id, now)` has. Each flow gets True once. The continuation itself may run again, when
  somebody goes back to a page of a flow after its sign-in. With `flow.repeats` it runs again for the same form, because the browser has
  dropped the first answer: there is nothing to complete, but an answer to give.
* **A form of another site** brings none of our cookies (`SameSite=Lax`). Answer it with a redirect to a GET of yours before you `begin`.
  Otherwise the browser gets a second secret, and its other tabs lose their flows.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import FlowId, ServiceId, UserId
from core.domain.identity.browser_sessions import MOST_ACCOUNTS, BrowserAccount, SignedInBrowser, Visit, beside
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, Prompt, Wanted
from core.domain.identity.proofs import StepUp
from core.domain.secrets import Token
from core.domain.services.clients import describes_itself
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, Headers, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import (
    device_headers,
    flow_secret,
    keep_flow_secret,
    keep_others,
    keep_session,
    offer_binding,
    other_tokens,
    session_token,
)
from entrypoints.http.machinery.browsers import HOME, SIGN_IN, OtherAccount, bound_key, place_of, proof_page, shown_binding
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.pages.kit import shipped_pages

AnyCall = Call[Any, Any, Any, Any]
Page = Answer[bytes] | Answer[NoBody]
Continuation = Callable[[AnyCall, Postern, Flow, Caller], Awaitable[Page]]

PASSWORD: Final = f"{SIGN_IN}/password"
SECOND_FACTOR: Final = f"{SIGN_IN}/second-factor"
LOST_FACTOR: Final = f"{SIGN_IN}/lost-factor"
PASSKEY: Final = f"{SIGN_IN}/passkey"
LINK: Final = f"{SIGN_IN}/link"
REGISTER: Final = "/ui/register"
CHOOSE_ACCOUNT: Final = "/ui/choose-account"
CHOOSE_ORGANIZATION: Final = "/ui/choose-organization"
CONFIRM_MEMBERSHIP: Final = "/ui/confirm-membership"
ANSWERS: Final = "/ui/answers"
PASSKEY_OFFER: Final = "/ui/passkey-offer"
PASSKEY_UPGRADE: Final = "/ui/passkey-upgrade"
ACCEPT_TERMS: Final = "/ui/accept-terms"
FORGOTTEN: Final = "/ui/forgot-password"
CHECK_MAIL: Final = "/ui/check-mail"
NEWCOMER: Final = "/ui/provider-address"
TO_APPLICATION: Final = "to_application"
"""A key in the request of a flow to the account pages: an address of our own that leads on to an application instead."""
NO_ERRORS: Final[Mapping[str, str]] = MappingProxyType({})
_LONGEST_PLACE: Final = 2000
_CONDITIONAL: Final = "conditional"
MakesPasskeys = Annotated[Line, msgspec.Meta(pattern=f"^(yes|{_CONDITIONAL})?$")]
"""Filled in by the script of a page whose browser can make passkeys, perhaps also by itself (conditional create)."""
# A segment of the path that browsers resolve as "here" or as "one up" (URL Standard).
_DOT_SEGMENT: Final = re.compile(r"[^?#]*/(?:\.|%2e){1,2}(?:[/?#]|\Z)", re.IGNORECASE)


class FlowLink(msgspec.Struct, frozen=True):
    """The query of a page of a flow."""

    flow: Line = ""


class ProvedLink(FlowLink, frozen=True):
    """The query of a page to which the page for a fresh proof leads back."""

    unproved: Line = ""
    """Not empty when the person has no way to prove anything."""


async def begin(
    call: AnyCall,
    postern: Postern,
    purpose: FlowPurpose,
    request: Mapping[str, Json],
    wanted: Wanted,
    *,
    service: ServiceId | None = None,
    expected: UserId | None = None,
    another: bool = False,
) -> Page:
    """Leads the person to a sign-in as wanted, and then to the purpose's continuation. If the person is already signed in as wanted, the
    continuation runs at once, unless several accounts are signed in in this browser: then the person chooses one first. The page's rule is
    `BROWSER_OR_NOBODY`, or any that looks up the browser's session. If a certain person is `expected`, or `another` than the present one,
    the form is not filled in with the present person's address.
    """
    caller: Caller | None = call.request.caller
    browser, headers = browser_secret(call, postern)
    somebody_else = another or (caller is not None and expected not in {None, caller.user})
    known = "" if caller is None or somebody_else or wanted.prompt is Prompt.SELECT_ACCOUNT else caller.email.address
    now = postern.foundation.clock.now()
    asks = bool(call.request.others) and wanted.prompt is None and not wanted.login_hint
    ready = caller if not asks and caller is not None and wanted.is_met(caller.proved, now, now) else None
    account, email = None if ready is None else ready.user, wanted.login_hint or known
    flow = await postern.identity.flows.begin(browser, purpose, request, wanted, service=service, email=email, account=account)
    if asks:
        return with_headers(headers, to(CHOOSE_ACCOUNT, flow))
    if ready is not None:
        return with_headers(headers, await go_on(call, postern, flow, ready))
    if wanted.prompt is Prompt.CREATE:
        return with_headers(headers, to(REGISTER, flow))
    return with_headers(headers, to(PASSWORD if known and known == flow.email else SIGN_IN, flow))


async def with_another_account(call: AnyCall, postern: Postern, flow: Flow, *, signs_in: bool = False) -> Page:
    """Begins the same request again, in a new flow, because a flow takes one sign-in. The person chooses among the accounts of this browser
    if there are several, and otherwise `signs_in`.
    """
    browser, _ = browser_secret(call, postern)
    chooses = not signs_in and bool(other_tokens(call.request, postern.foundation.public_url))
    wanted = flow.wanted if chooses else replace(flow.wanted, prompt=Prompt.LOGIN)
    hint = flow.wanted.login_hint
    again = await postern.identity.flows.begin(browser, flow.purpose, flow.request, wanted, service=flow.service, email=hint)
    return to(CHOOSE_ACCOUNT if chooses else SIGN_IN, again)


def browser_secret(call: AnyCall, postern: Postern) -> tuple[Token, Headers]:
    """The secret of this browser for its flows. A new browser gets a new secret, with the headers that set it."""
    base_url = postern.foundation.public_url
    browser = flow_secret(call.request, base_url)
    if browser is not None:
        return browser, ()
    made = postern.foundation.secrets.token()
    return made, keep_flow_secret(made, base_url)


async def flow_of(call: AnyCall, postern: Postern, flow: str) -> Flow:
    """The flow of this browser with this id. The page uses the language that the flow asks for. Raises `OtherAccount` for a flow of another
    account than the one in use, and `FlowOver`, also for a flow of a SAML sign-out: another site may have begun this flow by a form, so its
    sender knows the id and could lead the browser to sign in by it.
    """
    found = await flow_of_any_account(call, postern, flow)
    caller = call.request.caller
    if caller is not None and found.belongs_to not in {None, caller.user}:
        raise OtherAccount(place_of(call.request))
    return found


async def flow_of_any_account(call: AnyCall, postern: Postern, flow: str) -> Flow:
    """As `flow_of`, for the pages on which the person chooses the account."""
    found = await in_this_browser(call, postern, flow)
    if found.purpose is FlowPurpose.SAML_LOGOUT:
        raise FlowOver
    speak_as_asked(call, found)
    return found


async def in_this_browser(call: AnyCall, postern: Postern, flow: str) -> Flow:
    """The flow of this browser with this id, for any purpose."""
    browser = flow_secret(call.request, postern.foundation.public_url)
    try:
        if browser is None:
            raise FlowOver
        return await postern.identity.flows.find(FlowId(UUID(flow)), browser)
    except ValueError:
        raise FlowOver from None


def speak_as_asked(call: AnyCall, flow: Flow) -> None:
    call.request.asked_languages = flow.wanted.ui_locales
    call.speak_for(flow.branding)


async def visit(call: AnyCall, postern: Postern, flow: Flow, *, makes_passkeys: str = "") -> Visit:
    """`makes_passkeys`: whether the browser can make passkeys, as the script of the page has found."""
    makes = bool(makes_passkeys) and postern.identity.passkeys.obstacle is None
    upgrades = makes and makes_passkeys == _CONDITIONAL
    others = [one.caller for one in call.request.others or ()]
    browser, bound = browser_secret(call, postern)[0], await bound_key(call.request, postern)
    return Visit(flow, browser, call.client, call.request.caller, makes, upgrades, others, bound)


def accounts_here(call: AnyCall, postern: Postern) -> Sequence[BrowserAccount]:
    """The accounts that are signed in in this browser, the one in use first. For pages whose rule looks around."""
    token, caller = session_token(call.request, postern.foundation.public_url), call.request.caller
    present = () if token is None or caller is None else (BrowserAccount(token, caller),)
    return (*present, *(call.request.others or ()))


def first_to_end(call: AnyCall, postern: Postern) -> str:
    """The address of the account that the next sign-in in this browser ends. Empty while there is room for another."""
    accounts = accounts_here(call, postern)
    return accounts[-1].caller.email.address if len(accounts) == MOST_ACCOUNTS else ""


def use_account(call: AnyCall, postern: Postern, account: BrowserAccount) -> None:
    """Makes this account the one in use, for this request and in the browser. The one that was in use waits first among the others."""
    base_url = postern.foundation.public_url
    others = _kept_beside(call, postern, account.caller)
    call.request.handed_over = (*keep_session(account.token, base_url), *others)
    call.request.caller = account.caller


def _kept_beside(call: AnyCall, postern: Postern, caller: Caller) -> Headers:
    """The headers by which the browser keeps its other accounts, beside this one. None where nothing changes. A rule that has not looked
    around leaves them as they are.
    """
    base_url = postern.foundation.public_url
    kept = other_tokens(call.request, base_url)
    if call.request.others is None:
        return ()
    accounts = accounts_here(call, postern)
    stay = {one.session for one in beside([one.caller for one in accounts], caller.user)[: MOST_ACCOUNTS - 1]}
    tokens = [one.token for one in accounts if one.caller.session in stay]
    same = [token.reveal() for token in tokens] == [token.reveal() for token in kept]
    return () if same else keep_others(tokens, base_url)


async def go_on(call: AnyCall, postern: Postern, flow: Flow, caller: Caller) -> Page:
    """Runs the continuation of the flow's purpose, for a person who is signed in as the flow wants. A person whose sign-in has found fields
    to ask for meets their page before that, after the pages about terms and about memberships. The page that offers a passkey comes
    last, and before it, where the browser can, the one on which the browser makes one by itself.
    """
    if flow.owes_terms:
        return to(ACCEPT_TERMS, flow)
    if flow.owes_answers or flow.offers_passkey:
        slug = None if flow.purpose is FlowPurpose.ACCOUNT else flow.wanted.organization
        offer = PASSKEY_UPGRADE if flow.upgrades else PASSKEY_OFFER
        return await ask_memberships(postern, flow, caller, slug) or to(ANSWERS if flow.owes_answers else offer, flow)
    return left(call, flow, await CONTINUATIONS[flow.purpose](call, postern, flow, caller))


def left(call: AnyCall, flow: Flow, answer: Page, *, behind_form: bool = False) -> Page:
    """The answer to a form. A form must not redirect to another site, so such a redirect becomes a page that leaves. `behind_form`: a
    redirect of ours has led here from a form.
    """
    places = [value.decode() for name, value in answer.headers if name == b"location"]
    if not (behind_form or call.request.method == "POST") or not places or places[0].startswith("/"):
        return answer
    others = tuple(pair for pair in answer.headers if pair[0] != b"location")
    return Answer(leaving(call, flow, places[0]), 200, others)


async def even_twice(
    call: AnyCall,
    postern: Postern,
    flow_id: str,
    answer: Callable[[Flow], Awaitable[Page]],
    *,
    find: Callable[[AnyCall, Postern, str], Awaitable[Flow]] = flow_of,
) -> Page:
    """The answer that ends a flow. After a double click the browser drops the first answer, so the second request gets an answer, too.
    Raises `FlowOver`.
    """
    try:
        return await answer(await find(call, postern, flow_id))
    except FlowOver:
        flow = await find(call, postern, flow_id)
        if not flow.has_just_ended(postern.foundation.clock.now()):
            raise
        return await answer(replace(flow, repeats=True))


async def signed_in(call: AnyCall, postern: Postern, flow: Flow, browser: SignedInBrowser) -> Page:
    """The answer to the last form of a sign-in: the browser gets its cookies, and the flow continues."""
    base_url = postern.foundation.public_url
    shown = await shown_binding(call.request, postern)
    caller = browser.caller or await postern.tenancy.callers.resolve_browser(browser.token, None if shown is None else shown.key)
    if caller is None:
        # The session has ended between the sign-in and this look-up.
        raise Unauthorized
    headers = keep_session(browser.token, base_url) + tuple(_kept_beside(call, postern, caller))
    call.request.caller = caller
    if browser.remembered is not None:
        headers += device_headers(browser.remembered, base_url)
    offer = await postern.identity.bound_sessions.offer(caller.session, shown)
    if offer is not None:
        headers += offer_binding(offer, base_url)
    # The browser keeps its new session, even if the flow fails from here on.
    call.request.handed_over = headers
    now = browser.flow or await flow_of(call, postern, str(flow.id))
    try:
        return await go_on(call, postern, now, caller)
    except FlowOver:
        # The same form was sent twice, and the first request has already finished the flow.
        ended = await flow_of(call, postern, str(flow.id))
        if ended.session != caller.session:
            raise
        return await go_on(call, postern, replace(ended, repeats=True), caller)


def has_chosen_its_name(flow: Flow) -> bool:
    """Whether the flow is for a metadata client, which nobody has registered: only the page that asks for consent says so, beside the
    name. Pages that come earlier do without the name, which could say anything to people at the sign-in of an organization.
    """
    return describes_itself(str(flow.request.get("client_id", "")))


def named_before_consent(flow: Flow) -> str:
    """The application's name, for a page that can do without it."""
    return "" if has_chosen_its_name(flow) else flow.wanted.service_name


def unregistered_name(call: AnyCall) -> str:
    """What such a program is called on a page that cannot do without a name."""
    return shipped_pages().text(call.language)("consent.unregistered_name")


def name_to_leave_for(call: AnyCall, flow: Flow) -> str:
    """The application's name on a page that leaves for it, perhaps with a refusal and before any consent. Empty if nobody has a name."""
    return unregistered_name(call) if has_chosen_its_name(flow) else flow.wanted.service_name


def leaving(call: AnyCall, flow: Flow, address: str) -> bytes:
    """The page that leaves for another site by itself; it has a button for browsers without scripts."""
    call.speak_for(flow.branding)
    text = shipped_pages().text(call.language, flow.branding)
    name = name_to_leave_for(call, flow)
    title = text("leaving.title_to", service=name) if name else text("leaving.title")
    return shipped_pages().page(
        "leave.html", call.language, brand=flow.branding, title=title, label=text("common.continue"), address=address
    )


def to(page: str, flow: Flow) -> Answer[NoBody]:
    """A redirect to another page of the same flow."""
    return redirect(place_in(flow, page))


def place_in(flow: Flow, page: str) -> str:
    return f"{page}?flow={flow.id}"


def to_proof(page: str, flow: Flow) -> Answer[NoBody]:
    """A redirect to the page that asks for a proof from after the flow's beginning. It leads back to the page."""
    return redirect(f"{proof_page(place_in(flow, page), StepUp.SIGN_IN)}&flow={flow.id}")


def own_place(place: str) -> str:
    """The page of ours that somebody wants to see; for anything else, the first of the account pages. It never names another site."""
    plain = len(place) <= _LONGEST_PLACE and place.isascii() and place.isprintable() and "\\" not in place and not _DOT_SEGMENT.match(place)
    return place if plain and (place == HOME or place.startswith((f"{HOME}/", f"{HOME}?"))) else HOME


def with_headers(headers: Headers, answer: Page) -> Page:
    """The same answer with further headers."""
    if isinstance(answer.value, bytes):
        return Answer(answer.value, answer.status, (*answer.headers, *headers))
    return Answer(answer.value, answer.status, (*answer.headers, *headers))


async def ask_memberships(postern: Postern, flow: Flow, caller: Caller, slug: str | None = None) -> Page | None:
    """The page that asks a person after sign-in to confirm the memberships that others have listed, or the membership in this one
    organization. None when there is nothing to ask. For people whom nobody has listed, this costs no query.
    """
    if not caller.is_listed or flow.asked_memberships or flow.signed_in_at is None:
        return None
    return to(CONFIRM_MEMBERSHIP, flow) if await postern.tenancy.members.listed(caller, slug, most=1) else None


async def _to_account(call: AnyCall, postern: Postern, flow: Flow, caller: Caller) -> Page:
    """A person who belongs to several organizations first chooses the one to manage, unless the person wants to see a certain page."""
    application = flow.request.get(TO_APPLICATION)
    if application is not None:
        # A page that leaves by itself, since no redirect behind a form may end at another site.
        return Answer(leaving(call, flow, str(application)), 200)
    asking = await ask_memberships(postern, flow, caller)
    if asking is not None:
        return asking
    place = own_place(str(flow.request.get("to", "")))
    if place == HOME and not caller.chosen_organization and await _belongs_to_several(postern, caller):
        return redirect(CHOOSE_ORGANIZATION)
    return redirect(place)


async def _belongs_to_several(postern: Postern, caller: Caller) -> bool:
    known = caller.belongs_to_several
    return len(await postern.tenancy.organizations.list(caller.user)) > 1 if known is None else known


CONTINUATIONS: Final[dict[FlowPurpose, Continuation]] = {FlowPurpose.ACCOUNT: _to_account}
"""The continuation of each purpose. Other modules add theirs when they are imported."""
