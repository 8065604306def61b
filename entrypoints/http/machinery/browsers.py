"""Caller rules of pages: for users who are signed in in their browser, or for anybody."""

import hmac
from hashlib import sha256
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import quote, urlencode

import msgspec

from core.domain.errors import (
    Conflict,
    Forbidden,
    NotFound,
    OrganizationNotActive,
    ReauthenticationRequired,
    Refusal,
    SecondFactorRequired,
    TermsRequired,
)
from core.domain.identifiers import BoundKeyId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import form_token
from core.domain.identity.guards.bound_sessions import ShownBinding
from core.domain.identity.proofs import StepUp
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import SeeOther
from entrypoints.http.machinery.browser_cookies import acting_token, bound_cookie, flow_secret, other_tokens, session_token
from entrypoints.http.machinery.callers import WHILE_IMPERSONATING, CallerRule, MemberRule, SecurityScheme, SessionRule, witness_of
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.fields import Line

SIGN_IN: Final = "/ui/sign-in"
ANOTHER: Final = "another"
HOME: Final = "/ui"
PROVE: Final = "/ui/prove"
SECOND_FACTOR: Final = "/ui/second-factor"
ACCOUNTS: Final = "/ui/accounts"
TERMS: Final = "/ui/terms"
_SESSION: Final = "session"
# Between the proof in a form's token and the mark of its account.
_MARKED: Final = "."
_LONGEST_MARK: Final = 16
_BROWSER: Final = "browser"
_ACTING: Final = "acting"


class PageOutOfDate(Forbidden):
    """The form is older than the browser's last sign-in or sign-out, or was given to another browser, or the browser lost its cookies."""

    text = "This page is out of date"

    def __init__(self, place: str = "") -> None:
        """`place` is the address of the page that shows the form anew. Empty when there is no such page."""
        super().__init__(words="page_out_of_date")
        self.place = place


class OtherAccount(Conflict):
    """The page was made for another account than the one in use in this browser by now."""

    text = "This page belongs to another account"

    def __init__(self, place: str) -> None:
        """`place` is the address of the page, for the way back after the choice of its account."""
        super().__init__(words="other_account")
        self.place = place


class BoundForm(msgspec.Struct, frozen=True, kw_only=True):
    """A form that is bound to a cookie of the browser."""

    form_token: Token = Token("")


class FlowForm(BoundForm, frozen=True, kw_only=True):
    """A form of a flow."""

    flow: Line = ""


@runtime_checkable
class BindsForms(Protocol):
    """A caller rule whose forms are bound to a cookie.

    Each rule also names the secret that the forms of its pages are bound to. The dispatcher checks `form_token` in every form of these
    pages, so that no handler can forget the check. Postern does not serve a page whose form type has no `form_token`.
    """

    def secret(self, request: Request, postern: Postern, flow: str) -> tuple[Token, str] | None:
        """The secret in the cookie, and the name that goes into `form_token` next to it. None when the browser has no such cookie."""

    def former_secret(self, request: Request, postern: Postern) -> tuple[Token, str] | None:
        """The secret of a session that has ended since the page showed the form. None when the rule refuses forms of ended sessions."""


def token_for(rule: CallerRule, request: Request, postern: Postern, flow: str = "") -> str:
    """The right `form_token` for the forms of a page under this rule. Empty when the browser has no cookie; an empty token is refused."""
    assert isinstance(rule, BindsForms)  # noqa: S101 - a bug in the caller: only these rules have forms with a token
    bound = rule.secret(request, postern, flow)
    return "" if bound is None else form_token(*bound) + _account_mark(bound, request)


def require_bound_form(rule: BindsForms, request: Request, postern: Postern, form: BoundForm, *, below: int = 0) -> None:
    """Raises `PageOutOfDate` when the form has the wrong `form_token`, and `OtherAccount` when its page was made for another account. The
    page of the form is `below` segments above the form's address.
    """
    flow = form.flow if isinstance(form, FlowForm) else ""
    given, _, mark = form.form_token.reveal().partition(_MARKED)
    present = rule.secret(request, postern, flow)
    own = "" if present is None else _account_mark(present, request).removeprefix(_MARKED)
    is_proved = any(
        bound is not None and hmac.compare_digest(form_token(*bound).encode(), given.encode("utf-8", "surrogatepass"))
        for bound in (present, rule.former_secret(request, postern))
    )
    # Pages of the release before have no mark, and a session that has ended tells no account.
    if is_proved and (request.caller is None or mark in {"", own}):
        return
    if not is_proved and len(mark) == _LONGEST_MARK and own and own != mark:
        raise OtherAccount(_shown_at(request, form, below))
    # A form whose address has a query stands on the page of that address, so that page shows the form anew.
    raise PageOutOfDate(place_of(request) if request.caller is not None and request.query_string else "")


def _shown_at(request: Request, form: BoundForm, below: int) -> str:
    """The address of the page that shows a form."""
    if not below and request.query_string:
        return place_of(request)
    segments = request.path.rstrip("/").split("/")
    flow = getattr(form, "flow", "")
    return "/".join(segments[: len(segments) - below]) + (f"?{urlencode({'flow': flow})}" if flow else "")


def _account_mark(bound: tuple[Token, str], request: Request) -> str:
    """Names the account behind the token of a form that is bound to a session. It tells a form of another account, which the person may
    still want to send, from one that is only old. It opens nothing.
    """
    if bound[1] != _SESSION or request.caller is None:
        return ""
    return _MARKED + sha256(b"account " + request.caller.user.bytes).hexdigest()[:_LONGEST_MARK]


class _Browser:
    """Anybody with a browser. The rule looks the session cookie up; a browser without that cookie costs no look-up. A rule that looks
    `around` also finds the other accounts of the browser, in the same round trip; a browser with one account costs nothing more.
    """

    scheme: SecurityScheme | None = None
    refuses: tuple[type[Refusal], ...] = ()
    reads: tuple[str, ...] = ()

    def __init__(self, name: str, *, around: bool = False) -> None:
        self.name = name
        self._around = around

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, postern: Postern) -> Caller | None:
        if self._around:
            return await look_around(request, postern)
        token = session_token(request, postern.foundation.public_url)
        request.caller = None if token is None else await postern.tenancy.callers.resolve_browser(token, await bound_key(request, postern))
        return request.caller

    def secret(self, request: Request, postern: Postern, flow: str) -> tuple[Token, str] | None:  # noqa: ARG002 - `_InFlow` needs it
        base_url = postern.foundation.public_url
        if request.caller is not None and request.caller.impersonator is not None:
            acting = acting_token(request, base_url)
            return None if acting is None else (acting, _ACTING)
        token = None if request.caller is None else session_token(request, base_url)
        if token is not None:
            return token, _SESSION
        browser = flow_secret(request, base_url)
        return None if browser is None else (browser, _BROWSER)

    def former_secret(self, request: Request, postern: Postern) -> tuple[Token, str] | None:  # noqa: ARG002 - `_SigningOut` needs it
        return None


async def look_around(request: Request, postern: Postern) -> Caller | None:
    """Finds the person in the browser, and the other accounts that are signed in there."""
    base_url = postern.foundation.public_url
    token, others, bound = session_token(request, base_url), other_tokens(request, base_url), await bound_key(request, postern)
    if others:
        request.caller, request.others = await postern.tenancy.callers.resolve_browser_accounts(token, others, bound)
    else:
        request.caller, request.others = None if token is None else await postern.tenancy.callers.resolve_browser(token, bound), ()
    return request.caller


async def bound_key(request: Request, postern: Postern) -> BoundKeyId | None:
    """The key that this browser has proved within the last ten minutes, as its second cookie says. None without that cookie."""
    shown = await shown_binding(request, postern)
    return None if shown is None else shown.key


async def shown_binding(request: Request, postern: Postern) -> ShownBinding | None:
    given = bound_cookie(request, postern.foundation.public_url)
    return None if given is None else await postern.identity.bound_sessions.shown(given)


class _SigningOut(_Browser):
    """For signing out. After two quick clicks, the browser drops the first answer, which deletes the session cookie. The second request
    then carries the cookie of an ended session, and its form still counts.
    """

    def former_secret(self, request: Request, postern: Postern) -> tuple[Token, str] | None:
        token = session_token(request, postern.foundation.public_url) if request.caller is None else None
        return None if token is None else (token, _SESSION)


class _FoundByHandler(_Browser):
    """For a handler whose own look-up also finds the person, in the same round trip. The handler gets the session cookie's token as its
    caller, and sets `request.caller` to the person.
    """

    async def admit(self, request: Request, postern: Postern) -> Any:
        return session_token(request, postern.foundation.public_url)


class _SignedIn(_Browser):
    """For people who are signed in. The rule redirects anybody else to the sign-in page, and from there back. The values of a submitted
    form are lost. While a platform owner acts in somebody's name, only pages that say so are open.
    """

    impersonated = False

    def owes_limit(self, _method: str) -> bool:
        return False

    async def admit(self, request: Request, postern: Postern) -> Caller:
        acting = await _acting(request, postern)
        if acting is not None:
            request.caller = acting
            if not self.impersonated:
                raise Forbidden(WHILE_IMPERSONATING, words="impersonating")
            return acting
        caller = await super().admit(request, postern)
        if caller is None:
            raise sign_in_first(request)
        return caller


class _SignedInOrActing(_SignedIn):
    """As `_SignedIn`, also for a platform owner who acts in the person's name."""

    impersonated = True


class _StopsActing(_Browser):
    """For the end of acting in somebody's name. As with signing out, the form still counts when the session has ended meanwhile."""

    async def admit(self, request: Request, postern: Postern) -> Caller | None:
        request.caller = await _acting(request, postern)
        return request.caller

    def former_secret(self, request: Request, postern: Postern) -> tuple[Token, str] | None:
        token = acting_token(request, postern.foundation.public_url)
        return None if token is None else (token, _ACTING)


def _acting_cookies(request: Request, postern: Postern) -> tuple[Token, Token] | None:
    """The cookies of a browser in which a platform owner acts in somebody's name: of that session, and of the platform owner's own."""
    base_url = postern.foundation.public_url
    acting, own = acting_token(request, base_url), session_token(request, base_url)
    return None if acting is None or own is None else (acting, own)


async def _acting(request: Request, postern: Postern) -> Caller | None:
    cookies = _acting_cookies(request, postern)
    if cookies is None:
        return None
    witness, bound = witness_of(request, postern), await bound_key(request, postern)
    return await postern.tenancy.callers.resolve_acting(*cookies, witness, bound=bound)


class _BrowserMember(_SignedIn):
    """The rule of an endpoint for members, for the page that offers the endpoint in the console. The same people pass, with the cookie of
    their browser in place of a token.
    """

    reads = ("org_slug",)

    def __init__(self, of: MemberRule) -> None:
        super().__init__(f"browser_{of.name}")
        self.of = of
        self.refuses = (Forbidden, NotFound, OrganizationNotActive, SecondFactorRequired)

    async def admit(self, request: Request, postern: Postern) -> Any:
        try:
            member = await self._member(request, postern)
        except ReauthenticationRequired:
            raise prove_first(request, StepUp.ACCOUNT) from None
        except TermsRequired:
            raise accept_first(request) from None
        if member is None:
            raise sign_in_first(request)
        request.caller = member.caller
        self.of.require(member)
        return member

    async def _member(self, request: Request, postern: Postern) -> Any:
        token = session_token(request, postern.foundation.public_url)
        if token is None:
            return None
        slug, participation, witness = request.path_values["org_slug"], self.of.admitted.participation, witness_of(request, postern)
        acting, bound = acting_token(request, postern.foundation.public_url), await bound_key(request, postern)
        if acting is not None:
            member = await postern.tenancy.callers.resolve_acting_member(acting, token, slug, participation, witness, bound=bound)
            if member is not None:
                return member
        return await postern.tenancy.callers.resolve_browser_member(token, slug, participation, witness, bound=bound)


class _BrowserPerson(_SignedInOrActing):
    """As `_BrowserMember`, for an endpoint that names no organization."""

    def __init__(self, of: SessionRule) -> None:
        super().__init__(f"browser_{of.name}")
        self.of = of
        self.refuses = (Forbidden,)

    async def admit(self, request: Request, postern: Postern) -> Caller:
        caller = await super().admit(request, postern)
        try:
            self.of.require(caller)
        except TermsRequired:
            raise accept_first(request) from None
        return caller


class _InFlow(_Browser):
    """For the pages of a flow. Their forms are bound to the browser and to the flow, no matter which person signs in meanwhile."""

    def secret(self, request: Request, postern: Postern, flow: str) -> tuple[Token, str] | None:
        browser = flow_secret(request, postern.foundation.public_url)
        return None if browser is None else (browser, bound_to(flow))


def bound_to(flow: str) -> str:
    """The name that goes into `form_token` in the forms of a flow. Before a flow begins, `flow` is empty, and the forms are bound to the
    browser alone.
    """
    return f"flow {flow}"


def sign_in_first(request: Request) -> SeeOther:
    """A redirect to the sign-in page, which leads back. After a form whose address has a query, the sign-in page leads back to the page of
    that address, which shows the form again.
    """
    place = place_of(request) if request.method == "GET" or request.query_string else HOME
    return SeeOther(f"{SIGN_IN}?to={quote(place, safe='/')}")


def sign_in_again(place: str, again: str = "yes") -> str:
    """The address of the sign-in page for a person who is signed in. The person signs in once more, or with `ANOTHER` account, and comes
    back to `place`.
    """
    return f"{SIGN_IN}?to={quote(place, safe='/')}&again={again}"


def prove_first(request: Request, asked: StepUp) -> SeeOther:
    """A redirect to the page that asks for a fresh proof, which leads back. A form that needs a proof stands on the page of its own
    address, so the proof page leads back to that address.
    """
    return SeeOther(proof_page(place_of(request) if request.method == "GET" else request.path, asked))


def accept_first(request: Request) -> SeeOther:
    """A redirect to the page on which a person accepts terms, which leads back."""
    return SeeOther(terms_page(place_of(request) if request.method == "GET" else request.path))


def terms_page(place: str, organization: str = "") -> str:
    """`organization`: the slug of the one that the place belongs to, where the person may have no tie to it yet."""
    of = f"&organization={quote(organization)}" if organization else ""
    return f"{TERMS}?to={quote(place, safe='/')}{of}"


def proof_page(place: str, asked: StepUp) -> str:
    return f"{PROVE}?to={quote(place, safe='/')}&need={asked.name.lower()}"


def place_of(request: Request) -> str:
    """The address of the request, with its query."""
    return request.path + (f"?{request.query_string.decode('ascii', 'replace')}" if request.query_string else "")


_IN_BROWSER: Final[dict[Any, CallerRule]] = {}


def in_browser(rule: CallerRule) -> CallerRule:
    """The rule of the pages that offer an endpoint with this rule. Raises `LookupError` for a rule that admits no people."""
    if rule not in _IN_BROWSER:
        if isinstance(rule, MemberRule):
            _IN_BROWSER[rule] = _BrowserMember(rule)
        elif isinstance(rule, SessionRule):
            _IN_BROWSER[rule] = _BrowserPerson(rule)
        else:
            raise LookupError(f"Nobody comes with a browser where the rule is {rule.name}")
    return _IN_BROWSER[rule]


def admits(rule: CallerRule, caller: Any) -> bool:
    """Whether a caller whom a page has admitted may also call an endpoint with this rule, for instance to show its button."""
    assert isinstance(rule, MemberRule | SessionRule)  # noqa: S101 - a bug in a page: only such endpoints have pages
    try:
        rule.require(caller)
    except Refusal:
        return False
    return True


BROWSER: Final[CallerRule] = _SignedIn("browser")
BROWSER_OR_ACTING: Final[CallerRule] = _SignedInOrActing("browser_or_acting")
STOPS_ACTING: Final[CallerRule] = _StopsActing("browser_or_acting")
BROWSER_OR_NOBODY: Final[CallerRule] = _Browser("browser_or_nobody")
BROWSER_WITH_OTHERS: Final[CallerRule] = _Browser("browser_or_nobody", around=True)
SIGNING_OUT: Final[CallerRule] = _SigningOut("browser_or_nobody")
SIGNING_ALL_OUT: Final[CallerRule] = _SigningOut("browser_or_nobody", around=True)
BROWSER_FOUND_BY_HANDLER: Final[CallerRule] = _FoundByHandler("browser_or_nobody")
IN_FLOW: Final[CallerRule] = _InFlow("in_flow", around=True)
