"""Records refused requests of an application, and shows the first sign-in of a new one."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from core.domain.errors import BadRequest, OrganizationNotActive, Refusal, Unauthorized
from core.domain.federation.oauth.authorization_codes import Claim
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode
from core.domain.federation.oauth.clients import ClientCredentials
from core.domain.federation.oauth.exchanges import SubjectRefused
from core.domain.federation.oauth.grants import (
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    JWT_BEARER,
    REFRESH_TOKEN,
    TOKEN_EXCHANGE,
    IdentityAssertionRefused,
    TokenRequest,
    WorkloadRefused,
)
from core.domain.federation.oauth.refusals import (
    InvalidGrant,
    InvalidScope,
    InvalidTarget,
    RefusalReason,
    UnauthorizedClient,
    UnsupportedGrantType,
    reason_in_words,
)
from core.domain.federation.oauth.resources import SCOPES
from core.domain.federation.open_registrations import has_open_form
from core.domain.identifiers import AuthorizationRefusalId, AwaitedSignInId, ClientId, OrganizationId, ResourceServerId, SessionId, UserId
from core.domain.key_proofs import KeyProofMissing, KeyProofRefused, NonceNeeded
from core.domain.services.clients import web_page
from core.domain.services.services import SignInPolicy
from core.frozen import Frozen

MOST_REFUSALS: Final = 50
"""The limit of one service. The oldest refusals go first."""
_LONGEST_ADDRESS: Final = 300
_MOST_ADDRESSES: Final = 3
_LONGEST_WORD: Final = 100
_MOST_WORDS: Final = 20
# Anybody can send a request in an application's name. A value is kept only if it has the form of what belongs there.
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]{0,40}:[A-Za-z0-9._~!$&'()*+,;=:/\[\]%-]*")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]*")
_OUR_SECRET: Final = re.compile(r"(cs_[A-Za-z0-9]{6})_.+")


class RefusingEndpoint(StrEnum):
    """The endpoint that rejected the request."""

    AUTHORIZE = "authorize"
    """The request that a browser brought, also one that was pushed before."""
    TOKEN = "token"  # noqa: S105 - a place
    SAML = "saml"
    PROXY = "proxy"
    """The check of a request to an application behind a proxy."""


class PresentedCode(NamedTuple):
    """What the application sent to redeem a code, as far as it says why the code was refused. It is never stored."""

    digest: bytes
    redirect_uri: str
    code_challenge: str | None


class AuthorizationRefusal(Frozen, kw_only=True):
    """A refused request of an application, or a user whom it did not admit, as the recorder takes it: the reason, what was received beside
    what is registered, and the change that helps. It contains reasons and what the application itself chose (its own URIs, scopes, names of
    parameters), and nothing about users: no `state`, no hint, no token, no email address. The recorder looks for the application when it
    stores the refusal.
    """

    id: AuthorizationRefusalId
    client: ClientId
    at: RefusingEndpoint
    reason: RefusalReason
    received: str
    occurred_at: datetime
    code: PresentedCode | None = None
    awaited_in: SessionId | None = None
    """The browser's session, if somebody says in this browser that they wait for a sign-in: see `AwaitedSignIn`. Nobody else's request
    names one.
    """


class DocumentRefusal(Frozen, kw_only=True):
    """A request of a metadata client that was refused before a person had allowed the client in the organization: its document was not let
    in, or is wrong, or the request is. Those who look after the API see it.
    """

    id: AuthorizationRefusalId
    api: ResourceServerId
    address: str
    reason: str
    """The word of the refusal, which has a text of the same name for people; of a wrong request, a `RefusalReason`."""
    because: str
    occurred_at: datetime

    @property
    def advice(self) -> str:
        if self.reason in frozenset(RefusalReason):
            return reason_in_words(RefusalReason(self.reason))[1]
        return _OF_DOCUMENT.get(self.reason, "The publisher of the document must fix it. The next request reads it again")


class ListedRefusal(Frozen, kw_only=True):
    """A refused request, as those who look after the service see it."""

    id: AuthorizationRefusalId
    at: RefusingEndpoint
    reason: RefusalReason
    because: str
    """In words."""
    advice: str
    """The change that fixes the request."""
    received: str
    registered: Sequence[str]
    """What the installation has registered or expects in place of what was received."""
    occurred_at: datetime


class RefusalContext(Frozen, kw_only=True):
    """What a service has registered."""

    redirect_uris: Sequence[str]
    secrets: Sequence[str]
    """The beginnings of its client secrets."""
    resources: Sequence[str]
    """The identifiers of the APIs that it may ask for."""
    trusted: Mapping[str, Sequence[str]]
    """The issuers, audiences and subject patterns of its trusted issuers."""


_GRANTS: Final = (AUTHORIZATION_CODE, REFRESH_TOKEN, CLIENT_CREDENTIALS, DEVICE_CODE, TOKEN_EXCHANGE, JWT_BEARER)
_ABOUT_REDIRECTS: Final = frozenset((RefusalReason.REDIRECT_UNREGISTERED, RefusalReason.REDIRECT_MISSING, RefusalReason.REDIRECT_DIFFERS))
_ABOUT_RESOURCES: Final = frozenset((RefusalReason.RESOURCE_UNKNOWN, RefusalReason.AGENT_TARGET))
_ABOUT_SECRETS: Final = frozenset((RefusalReason.SECRET_WRONG, RefusalReason.SECRET_OWED, RefusalReason.CREDENTIAL_MISSING))
_ABOUT_TRUST: Final[Mapping[RefusalReason, str]] = {
    RefusalReason.WORKLOAD_ISSUER: "issuers",
    RefusalReason.WORKLOAD_AUDIENCE: "audiences",
    RefusalReason.WORKLOAD_SUBJECT: "patterns",
}
_EXPECTED: Final[Mapping[RefusalReason, Sequence[str]]] = {
    RefusalReason.SCOPE_UNKNOWN: SCOPES,
    RefusalReason.RESPONSE_TYPE: ("code",),
    RefusalReason.RESPONSE_MODE: ("query", "form_post", "fragment"),
    RefusalReason.PKCE_MALFORMED: ("S256",),
    RefusalReason.PKCE_MISSING: ("S256",),
    RefusalReason.GRANT_UNKNOWN: _GRANTS,
}
# By the field that the description of `invalid_request` begins with.
_MALFORMED: Final[Mapping[str, RefusalReason]] = {
    "response_type": RefusalReason.RESPONSE_TYPE,
    "response_mode": RefusalReason.RESPONSE_MODE,
    "code_challenge_method": RefusalReason.PKCE_MALFORMED,
    "code_challenge": RefusalReason.PKCE_MALFORMED,
}
_BY_WORD: Final[Mapping[str, RefusalReason]] = {
    AuthorizationErrorCode.INVALID_SCOPE: RefusalReason.SCOPE_UNKNOWN,
    AuthorizationErrorCode.INVALID_TARGET: RefusalReason.RESOURCE_UNKNOWN,
    AuthorizationErrorCode.UNSUPPORTED_RESPONSE_TYPE: RefusalReason.RESPONSE_TYPE,
    AuthorizationErrorCode.REQUEST_NOT_SUPPORTED: RefusalReason.REQUEST_OBJECT,
    AuthorizationErrorCode.REQUEST_URI_NOT_SUPPORTED: RefusalReason.REQUEST_OBJECT,
    AuthorizationErrorCode.REGISTRATION_NOT_SUPPORTED: RefusalReason.REQUEST_OBJECT,
    AuthorizationErrorCode.UNAUTHORIZED_CLIENT: RefusalReason.SECRET_OWED,
    AuthorizationErrorCode.UNMET_REQUIREMENTS: RefusalReason.STRONGER_SIGN_IN,
    "redirect_missing": RefusalReason.REDIRECT_MISSING,
    "redirect_unregistered": RefusalReason.REDIRECT_UNREGISTERED,
    "request_used": RefusalReason.REQUEST_USED,
    "application_closed": RefusalReason.ORGANIZATION_CLOSED,
}


def refused_request(word: str, description: str, said: Mapping[str, str | None], recorded_as: str = "") -> tuple[RefusalReason, str] | None:
    """The reason of a refused authorization request, and what was received. `word` is the error code that the application got, or the word
    of a refusal that a page told the person. `recorded_as` is the reason that the refusal itself has named, if any. None for answers that
    no change of the application would have avoided: nobody was signed in, or the person refused.
    """
    if recorded_as:
        return RefusalReason(recorded_as), _received(RefusalReason(recorded_as), said)
    if word == AuthorizationErrorCode.INVALID_REQUEST:
        field = description.partition(":")[0]
        reason = _MALFORMED.get(field, RefusalReason.PARAMETER)
        if reason is RefusalReason.PKCE_MALFORMED and said.get("code_challenge") is None:
            reason = RefusalReason.PKCE_MISSING
        return reason, _received(reason, said) or (shown_word(field) if reason is RefusalReason.PARAMETER else "")
    found = _BY_WORD.get(word)
    return None if found is None else (found, _received(found, said))


def turned_away(policy: SignInPolicy) -> RefusalReason:
    """The reason why an application with this policy did not admit a person who has signed in."""
    return RefusalReason.NO_ROLE if policy is SignInPolicy.ASSIGNED else RefusalReason.NOT_MEMBER


def _received(reason: RefusalReason, said: Mapping[str, str | None]) -> str:
    shown = _RECEIVED.get(reason)
    return "" if shown is None else shown[1](said.get(shown[0]))


def refused_exchange(
    refusal: Refusal, request: TokenRequest | None, shown: ClientCredentials, claim: Claim | None
) -> tuple[RefusalReason, str, PresentedCode | None] | None:
    """The reason of a refused token request, what was received, and the code if it may say more. `request` is None if it has no grant type.
    None for refusals that say nothing about the application, such as a limit.
    """
    asked = "" if request is None else shown_word(request.grant_type)
    match refusal:
        case OrganizationNotActive():
            found: tuple[RefusalReason, str] | None = (RefusalReason.ORGANIZATION_CLOSED, "")
        case Unauthorized():
            found = _not_authenticated(refusal, shown)
        case WorkloadRefused():
            found = (RefusalReason(refusal.recorded_as), shown_word(refusal.claim))
        case IdentityAssertionRefused():
            found = (RefusalReason(refusal.recorded_as), refusal.fault.value)
        case InvalidGrant() if claim is not None:
            code = PresentedCode(claim.digest, claim.redirect_uri, claim.code_challenge)
            return RefusalReason.CODE_REFUSED, shown_address(claim.redirect_uri), code
        case InvalidGrant():
            found = (RefusalReason(refusal.recorded_as or RefusalReason.REFRESH_TOKEN), "")
        case UnsupportedGrantType() | UnauthorizedClient():
            found = (RefusalReason(refusal.recorded_as), asked)
        case InvalidScope() | InvalidTarget() if request is not None:
            found = _beyond(refusal, request)
        case SubjectRefused():
            found = (RefusalReason(refusal.recorded_as), "")
        case _:
            found = _malformed(refusal)
    return None if found is None else (*found, None)


def _beyond(refusal: InvalidScope | InvalidTarget, request: TokenRequest) -> tuple[RefusalReason, str]:
    """The request names an API or a scope that it does not get."""
    is_exchange = request.grant_type == TOKEN_EXCHANGE
    if isinstance(refusal, InvalidScope):
        return RefusalReason.EXCHANGE_SCOPE if is_exchange else RefusalReason.SCOPE_UNKNOWN, shown_words(request.scope)
    return RefusalReason.EXCHANGE_TARGET if is_exchange else RefusalReason.RESOURCE_UNKNOWN, shown_addresses(request.resources)


def _malformed(refusal: Refusal) -> tuple[RefusalReason, str] | None:
    """Subclasses of `BadRequest` are answers to a poll, for example, and no mistakes of the application."""
    if isinstance(refusal, KeyProofMissing):
        return RefusalReason.KEY_PROOF_MISSING, ""
    if isinstance(refusal, KeyProofRefused) and not isinstance(refusal, NonceNeeded):
        return RefusalReason.KEY_PROOF, ""
    if type(refusal) is not BadRequest:
        return None
    field = refusal.message.partition(":")[0]
    return (RefusalReason.VERIFIER_MISSING, "") if field == "code_verifier" else (RefusalReason.PARAMETER, shown_word(field))


def _not_authenticated(refusal: Unauthorized, shown: ClientCredentials) -> tuple[RefusalReason, str]:
    if shown.assertion is not None:
        return RefusalReason(refusal.recorded_as or RefusalReason.ASSERTION_REFUSED), ""
    reason = RefusalReason(refusal.recorded_as or RefusalReason.CREDENTIAL_MISSING)
    begin = None if shown.secret is None else _OUR_SECRET.fullmatch(shown.secret.reveal())
    return reason, "" if begin is None else begin[1]


def shown_address(uri: str | None) -> str:
    """A redirect URI without its query and fragment, which may say something about a person."""
    plain = (uri or "").partition("?")[0].partition("#")[0]
    return plain if len(plain) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(plain) else ""


def shown_client(client: str) -> str:
    """The id of a metadata client. That of an open client says all of it, and may be longer than an address."""
    return client if has_open_form(client) else shown_address(client)


def shown_addresses(uris: Sequence[str]) -> str:
    return " ".join(filter(None, map(shown_address, uris[:_MOST_ADDRESSES])))


def shown_word(word: str | None) -> str:
    return word if word is not None and len(word) <= _LONGEST_WORD and _WORD.fullmatch(word) else ""


def shown_words(words: str | None) -> str:
    return " ".join(filter(None, map(shown_word, (words or "")[: _LONGEST_WORD * _MOST_WORDS].split()[:_MOST_WORDS])))


def registered_for(reason: RefusalReason, expected: str, context: RefusalContext) -> Sequence[str]:
    """What is registered beside what was received."""
    if reason is RefusalReason.REDIRECT_DIFFERS and expected:
        return (expected,)
    if reason in _ABOUT_REDIRECTS:
        return context.redirect_uris
    if reason in _ABOUT_RESOURCES:
        return context.resources
    if reason in _ABOUT_TRUST:
        return context.trusted[_ABOUT_TRUST[reason]]
    return context.secrets if reason in _ABOUT_SECRETS else _EXPECTED.get(reason, ())


# The parameter that was wrong, and the way in which it is shown.
_RECEIVED: Final[Mapping[RefusalReason, tuple[str, Callable[[str | None], str]]]] = {
    RefusalReason.REDIRECT_UNREGISTERED: ("redirect_uri", shown_address),
    RefusalReason.SCOPE_UNKNOWN: ("scope", shown_words),
    RefusalReason.RESOURCE_UNKNOWN: ("resource", lambda named: shown_addresses((named or "").split())),
    RefusalReason.AGENT_TARGET: ("resource", lambda named: shown_addresses((named or "").split())),
    RefusalReason.RESPONSE_TYPE: ("response_type", shown_words),
    RefusalReason.RESPONSE_MODE: ("response_mode", shown_words),
    RefusalReason.PKCE_MALFORMED: ("code_challenge_method", shown_word),
}


_OF_DOCUMENT: Final[Mapping[str, str]] = {
    "document_not_let_in": "If you trust the host, allow it on the page of this API and in the sign-in rules of the organization",
    "open_client_not_let_in": (
        "If people use such clients, allow dynamic client registration on the page of this API and in the sign-in rules of the organization"
    ),
    "open_client_hosts": "If you trust the hosts, add them on the page of this API and in the sign-in rules of the organization",
    "document_busy": "Wait 1 minute. Postern makes at most 10 fetches per minute to one host",
    "document_unreachable": "Open its URL in a browser: it must be public, have a valid certificate, and respond immediately",
    "documents_full": "Delete applications by document that nobody needs",
    "application_closed": "A platform owner can activate the organization",
}


# The first sign-in that somebody waits for.

AWAITED_FOR: Final = timedelta(minutes=10)
MOST_MISTAKES: Final = 5
"""The newest refused requests that a page shows."""


class NewAwaitedSignIn(Frozen, kw_only=True):
    id: AwaitedSignInId
    user: UserId
    session: SessionId
    """The browser's session. Requests of other browsers, and of other accounts in the same browser, do not show."""
    organization: OrganizationId
    service_slug: str
    began_at: datetime

    @property
    def ends_at(self) -> datetime:
        return self.began_at + AWAITED_FOR


class AwaitedPage(NamedTuple):
    """The page that looks. Only its own person, in the session in which it began, sees anything."""

    id: AwaitedSignInId
    user: UserId
    session: SessionId


class ArrivedSignIn(Frozen):
    """The session that the application got, in the browser session that waits."""

    user: UserId
    at: datetime
    scopes: Sequence[str]


class AwaitedSignIn(Frozen, kw_only=True):
    """What a page behind "Add the application" has seen so far: the first sign-in that comes from the same browser, and until then the
    refusals. The page polls for ten minutes, and each user waits on one page at a time.
    """

    organization: OrganizationId
    service_slug: str
    ends_at: datetime
    mistakes: Sequence[AuthorizationRefusalId]
    """The newest first."""
    arrived: ArrivedSignIn | None

    def is_over(self, now: datetime) -> bool:
        return self.arrived is not None or now >= self.ends_at


def may_be_added_by_a_press(address: str) -> bool:
    """Whether a page may offer to register the address by a press: http on this machine alone. Any site can send the browser that waits to
    us with an address of its own, in the application's name. Whoever is to register such an address has to type it, and reads it before.
    The rule of registration decides what this machine is: a press that registration refuses is no offer.
    """
    try:
        return web_page(address, "redirect_uris").startswith("http:")
    except BadRequest:
        return False
