"""The recorder of refusals: the last requests of an application that were refused, and the people whom it did not admit, with the reason
in words, what was received beside what is registered, and the change that helps. It keeps reasons and what the application itself chose
(addresses of its own, scopes, names of parameters), and nothing about people: no `state`, no hint, no token, no address of a person.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from core.domain.errors import BadRequest, OrganizationNotActive, Refusal, Unauthorized
from core.domain.federation.oauth.agents import ONE_API
from core.domain.federation.oauth.assertion_grants import IdentityAssertionRefused
from core.domain.federation.oauth.authorization_codes import Claim
from core.domain.federation.oauth.authorization_steps import NO_APPLICATIONS
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode
from core.domain.federation.oauth.clients import NO_CREDENTIAL, NO_KEYS, NO_SUCH_SECRET, ClientCredentials
from core.domain.federation.oauth.exchanges import SubjectRefused
from core.domain.federation.oauth.grants import (
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    JWT_BEARER,
    REFRESH_TOKEN,
    TOKEN_EXCHANGE,
    TokenRequest,
)
from core.domain.federation.oauth.oauth_errors import InvalidGrant, InvalidScope, InvalidTarget, UnauthorizedClient, UnsupportedGrantType
from core.domain.federation.oauth.scopes import SCOPES
from core.domain.federation.oauth.workloads import WorkloadRefused
from core.domain.identifiers import AuthorizationRefusalId, ClientId, ResourceServerId
from core.domain.identity.sessions import AGENTS_FORBIDDEN
from core.domain.identity.upstream.identity_assertions import IdentityAssertionFault
from core.domain.identity.upstream.identity_assertions import in_words as fault_in_words
from core.domain.identity.upstream.jwt_assertions import AssertionFault
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
    """The place that refused the request."""

    AUTHORIZE = "authorize"
    """The request that a browser brought, also one that was pushed before."""
    TOKEN = "token"  # noqa: S105 - a place
    SAML = "saml"
    PROXY = "proxy"
    """The check of a request to an application behind a proxy."""


class RefusalReason(StrEnum):
    """The reason why a request of an application was refused."""

    REDIRECT_MISSING = "redirect_missing"
    REDIRECT_UNREGISTERED = "redirect_unregistered"
    REQUEST_USED = "request_used"
    ORGANIZATION_CLOSED = "organization_closed"
    SCOPE_UNKNOWN = "scope_unknown"
    RESOURCE_UNKNOWN = "resource_unknown"
    """The request names an API that the application may not ask for, or several for one token."""
    RESPONSE_TYPE = "response_type"
    RESPONSE_MODE = "response_mode"
    PKCE_MISSING = "pkce_missing"
    PKCE_MALFORMED = "pkce_malformed"
    REQUEST_OBJECT = "request_object"
    PARAMETER = "parameter"
    SECRET_OWED = "secret_owed"  # noqa: S105 - a reason
    STRONGER_SIGN_IN = "stronger_sign_in"
    DIRECTORY_RESTRICTS = "directory_restricts"
    AGENTS_FORBIDDEN = "agents_forbidden"
    """The application is an agent, and its organization lets none act for its people."""
    AGENT_TARGET = "agent_target"
    """An agent has to name one API, and named none or several."""
    NOT_MEMBER = "not_member"
    """The application lets in members alone, and the person is none."""
    NO_ROLE = "no_role"
    """The application lets in people with a role alone, and the person has none."""
    SECRET_WRONG = "secret_wrong"  # noqa: S105 - a reason
    CREDENTIAL_MISSING = "credential_missing"
    KEYS_MISSING = "keys_missing"
    ASSERTION_REFUSED = "assertion_refused"
    WORKLOAD_UNREADABLE = "workload_unreadable"
    WORKLOAD_ISSUER = "workload_issuer"
    WORKLOAD_KEY = "workload_key"
    WORKLOAD_KEYS_AWAY = "workload_keys_away"
    WORKLOAD_AUDIENCE = "workload_audience"
    WORKLOAD_TIME = "workload_time"
    WORKLOAD_SUBJECT = "workload_subject"
    WORKLOAD_CLAIM = "workload_claim"
    """The name of the claim is what was received."""
    CODE_REFUSED = "code_refused"
    """Which of the next ones it was, the recorder finds out when it stores the refusal."""
    CODE_UNKNOWN = "code_unknown"
    CODE_EXPIRED = "code_expired"
    CODE_USED = "code_used"
    CODE_OF_ANOTHER = "code_of_another"
    REDIRECT_DIFFERS = "redirect_differs"
    VERIFIER_MISSING = "verifier_missing"
    VERIFIER_UNASKED = "verifier_unasked"
    VERIFIER_DIFFERS = "verifier_differs"
    REFRESH_TOKEN = "refresh_token"  # noqa: S105 - a reason
    IDENTITY_ASSERTION = "identity_assertion"
    """What was received names the fault."""
    GRANT_UNKNOWN = "grant_unknown"
    GRANT_NOT_ALLOWED = "grant_not_allowed"
    SUBJECT_TOKEN = "subject_token"  # noqa: S105 - a reason
    """The token that the application wants to exchange."""
    EXCHANGE_TARGET = "exchange_target"
    EXCHANGE_SCOPE = "exchange_scope"
    SAML = "saml"
    PROXY_SECRET = "proxy_secret"  # noqa: S105 - a reason
    PROXY_HOST = "proxy_host"


class PresentedCode(NamedTuple):
    """What the application sent to redeem a code, as far as it says why the code was refused. It is never stored."""

    digest: bytes
    redirect_uri: str
    code_challenge: str | None


class AuthorizationRefusal(Frozen, kw_only=True):
    """A refused request, as the recorder takes it. The recorder looks for the service when it stores the refusal."""

    id: AuthorizationRefusalId
    client: ClientId
    at: RefusingEndpoint
    reason: RefusalReason
    received: str
    occurred_at: datetime
    code: PresentedCode | None = None


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
            return in_words(RefusalReason(self.reason))[1]
        return _OF_DOCUMENT.get(self.reason, "Whoever publishes the document has to mend it. The next request reads it again")


class ListedRefusal(Frozen, kw_only=True):
    """A refused request, as those who look after the service see it."""

    id: AuthorizationRefusalId
    at: RefusingEndpoint
    reason: RefusalReason
    because: str
    """In words."""
    advice: str
    """The change that helps."""
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
    RefusalReason.RESPONSE_MODE: ("query", "form_post"),
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
_BY_DESCRIPTION: Final[Mapping[str, RefusalReason]] = {
    NO_APPLICATIONS: RefusalReason.DIRECTORY_RESTRICTS,
    AGENTS_FORBIDDEN: RefusalReason.AGENTS_FORBIDDEN,
    ONE_API: RefusalReason.AGENT_TARGET,
}
_OF_SECRET: Final[Mapping[str, RefusalReason]] = {
    NO_SUCH_SECRET: RefusalReason.SECRET_WRONG,
    NO_CREDENTIAL: RefusalReason.CREDENTIAL_MISSING,
    NO_KEYS: RefusalReason.KEYS_MISSING,
}

_OF_WORKLOAD: Final[Mapping[AssertionFault, RefusalReason]] = {
    AssertionFault.MALFORMED: RefusalReason.WORKLOAD_UNREADABLE,
    AssertionFault.ISSUER: RefusalReason.WORKLOAD_ISSUER,
    AssertionFault.KEY: RefusalReason.WORKLOAD_KEY,
    AssertionFault.SIGNATURE: RefusalReason.WORKLOAD_KEY,
    AssertionFault.KEYS_AWAY: RefusalReason.WORKLOAD_KEYS_AWAY,
    AssertionFault.AUDIENCE: RefusalReason.WORKLOAD_AUDIENCE,
    AssertionFault.EXPIRED: RefusalReason.WORKLOAD_TIME,
    AssertionFault.LIFETIME: RefusalReason.WORKLOAD_TIME,
    AssertionFault.EARLY: RefusalReason.WORKLOAD_TIME,
    AssertionFault.SUBJECT: RefusalReason.WORKLOAD_SUBJECT,
    AssertionFault.CLAIM: RefusalReason.WORKLOAD_CLAIM,
}


def refused_request(word: str, description: str, said: Mapping[str, str | None]) -> tuple[RefusalReason, str] | None:
    """The reason of a refused authorization request, and what was received. `word` is the error code that the application got, or the word
    of a refusal that a page told the person. None for answers that no change of the application would have avoided: nobody was signed in,
    or the person refused.
    """
    if word == AuthorizationErrorCode.INVALID_REQUEST:
        field = description.partition(":")[0]
        reason = _MALFORMED.get(field, RefusalReason.PARAMETER)
        if reason is RefusalReason.PKCE_MALFORMED and said.get("code_challenge") is None:
            reason = RefusalReason.PKCE_MISSING
        return reason, _received(reason, said) or (shown_word(field) if reason is RefusalReason.PARAMETER else "")
    found = _BY_DESCRIPTION.get(description) or _BY_WORD.get(word)
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
        case WorkloadRefused() | IdentityAssertionRefused():
            found = _of_assertion(refusal)
        case InvalidGrant() if claim is not None:
            code = PresentedCode(claim.digest, claim.redirect_uri, claim.code_challenge)
            return RefusalReason.CODE_REFUSED, shown_address(claim.redirect_uri), code
        case InvalidGrant():
            is_agent = refusal.detail == AGENTS_FORBIDDEN
            found = (RefusalReason.AGENTS_FORBIDDEN if is_agent else RefusalReason.REFRESH_TOKEN, "")
        case UnsupportedGrantType():
            found = (RefusalReason.GRANT_UNKNOWN, asked)
        case UnauthorizedClient():
            found = (RefusalReason.GRANT_NOT_ALLOWED, asked)
        case InvalidScope() | InvalidTarget() if request is not None:
            found = _beyond(refusal, request)
        case SubjectRefused():
            found = (RefusalReason.SUBJECT_TOKEN, "")
        case _:
            found = _malformed(refusal)
    return None if found is None else (*found, None)


def _of_assertion(refusal: WorkloadRefused | IdentityAssertionRefused) -> tuple[RefusalReason, str]:
    if isinstance(refusal, WorkloadRefused):
        return _OF_WORKLOAD[refusal.fault], shown_word(refusal.claim)
    return RefusalReason.IDENTITY_ASSERTION, refusal.fault.value


def _beyond(refusal: InvalidScope | InvalidTarget, request: TokenRequest) -> tuple[RefusalReason, str]:
    """The request names an API or a scope that it does not get."""
    is_exchange = request.grant_type == TOKEN_EXCHANGE
    if isinstance(refusal, InvalidScope):
        return RefusalReason.EXCHANGE_SCOPE if is_exchange else RefusalReason.SCOPE_UNKNOWN, shown_words(request.scope)
    return RefusalReason.EXCHANGE_TARGET if is_exchange else RefusalReason.RESOURCE_UNKNOWN, shown_addresses(request.resources)


def _malformed(refusal: Refusal) -> tuple[RefusalReason, str] | None:
    """Subclasses of `BadRequest` are answers to a poll, for example, and no mistakes of the application."""
    if type(refusal) is not BadRequest:
        return None
    field = refusal.message.partition(":")[0]
    return (RefusalReason.VERIFIER_MISSING, "") if field == "code_verifier" else (RefusalReason.PARAMETER, shown_word(field))


def _not_authenticated(refusal: Unauthorized, shown: ClientCredentials) -> tuple[RefusalReason, str]:
    if shown.assertion is not None:
        return _OF_SECRET.get(refusal.detail or "", RefusalReason.ASSERTION_REFUSED), ""
    reason = _OF_SECRET.get(refusal.detail or "", RefusalReason.CREDENTIAL_MISSING)
    begin = None if shown.secret is None else _OUR_SECRET.fullmatch(shown.secret.reveal())
    return reason, "" if begin is None else begin[1]


def shown_address(uri: str | None) -> str:
    """A redirect URI without its query and fragment, which may say something about a person."""
    plain = (uri or "").partition("?")[0].partition("#")[0]
    return plain if len(plain) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(plain) else ""


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
    "document_not_let_in": "If you know the host, let it in: on the page of this API, and in the sign-in rules of the organization",
    "document_busy": "Wait a minute. Ten fetches a minute are made of one host",
    "document_unreachable": "Open its address in a browser: it must be public, with a valid certificate, and answer at once",
    "documents_full": "Delete applications by document that nobody needs",
    "application_closed": "A platform owner can activate the organization",
}


def in_words(reason: RefusalReason, received: str = "") -> tuple[str, str]:
    """The reason, and the change that helps. Of an identity assertion, what was received is the fault."""
    if reason is RefusalReason.IDENTITY_ASSERTION and received in frozenset(IdentityAssertionFault):
        return fault_in_words(IdentityAssertionFault(received))
    return _WORDS[reason]


_WORDS: Final[Mapping[RefusalReason, tuple[str, str]]] = {
    RefusalReason.REDIRECT_MISSING: (
        "The request names no redirect_uri, or names it twice",
        "Send redirect_uri once: one of the registered addresses",
    ),
    RefusalReason.REDIRECT_UNREGISTERED: (
        "The service has not registered this redirect_uri",
        "Register the address exactly as it was received, or send a registered one. Each letter counts, also a slash at the end",
    ),
    RefusalReason.REQUEST_USED: (
        "The pushed request has expired, or was used before",
        "Push a new request for each sign-in, and send the person there within a minute",
    ),
    RefusalReason.ORGANIZATION_CLOSED: ("The organization is not active", "A platform owner can activate it"),
    RefusalReason.SCOPE_UNKNOWN: ("No such scope can be granted", "Ask for some of the scopes beside, separated by spaces"),
    RefusalReason.RESOURCE_UNKNOWN: (
        "The request names no API that the application may ask for, or several for one token",
        "Send resource with one of the identifiers beside, byte for byte, or let the application in on the page of the API",
    ),
    RefusalReason.RESPONSE_TYPE: ("response_type is missing or is not code", "Set response_type to code: Postern issues codes alone"),
    RefusalReason.RESPONSE_MODE: ("There is no such response_mode", "Leave response_mode out, or set it to query or form_post"),
    RefusalReason.PKCE_MISSING: (
        "An application without a secret must use PKCE, and sent no code_challenge",
        "Turn PKCE on in the library (S256). If the application has a server, make a client secret instead",
    ),
    RefusalReason.PKCE_MALFORMED: (
        "code_challenge or its method is wrong",
        "Set code_challenge_method to S256, and code_challenge to the SHA-256 of the verifier, in base64url without padding",
    ),
    RefusalReason.REQUEST_OBJECT: (
        "The request is in an object (request, request_uri or registration)",
        "Send the parameters themselves, or push them to /oauth/par",
    ),
    RefusalReason.PARAMETER: ("A parameter is missing, malformed or given twice", "Look at the named parameter in the application"),
    RefusalReason.SECRET_OWED: (
        "The service cannot redeem a code: it has neither a client secret nor a key, and used no PKCE",
        "Make a client secret, or turn PKCE on",
    ),
    RefusalReason.STRONGER_SIGN_IN: (
        "The application demands a second factor or a level that the person does not reach",
        "Let people set up a second factor, or leave acr_values, the essential acr and the scopes that ask for one out",
    ),
    RefusalReason.DIRECTORY_RESTRICTS: (
        "The person's directory lets them be signed in to no application",
        "Take the ProxyRestriction out at the directory, or let it name the entity id of the connection.",
    ),
    RefusalReason.AGENTS_FORBIDDEN: (
        "The organization does not let agents act for its people",
        "Allow agents in the sign-in rules of the organization. People are then asked again",
    ),
    RefusalReason.AGENT_TARGET: (
        "An agent acts at one API, and the request names none, or several",
        "Send resource once, with one of the identifiers beside. If people sign in to the application, it is no agent",
    ),
    RefusalReason.NOT_MEMBER: (
        "A person who is no member of the organization was not admitted",
        "Invite the person, or let the application admit anyone. The person's page says who may sign in where",
    ),
    RefusalReason.NO_ROLE: (
        "A person without a role in the application was not admitted",
        "Assign a role of the application to the person, to their role or to a team, or let the application admit all members",
    ),
    RefusalReason.SECRET_WRONG: (
        "The client secret is not one of the service's",
        "Compare how the secrets begin. If the right one is lost, make a new one and put it into the application",
    ),
    RefusalReason.CREDENTIAL_MISSING: (
        "The service has a client secret or a key, and the request showed none",
        "Give the application its client secret; look at its library's authentication method (client_secret_basic or client_secret_post)",
    ),
    RefusalReason.KEYS_MISSING: (
        "The application signs its requests (private_key_jwt), and the service has no public keys of it",
        "Store the public keys of the application as jwks, or the address where it publishes them as jwks_uri",
    ),
    RefusalReason.ASSERTION_REFUSED: (
        "The assertion that the application signed is not valid",
        "Compare its key, audience and clock; an assertion works once",
    ),
    RefusalReason.WORKLOAD_UNREADABLE: (
        "A workload sent something that is no signed token, or longer than 8 KiB",
        "Send the token itself as assertion: three parts with dots between, without the word Bearer and without a line break",
    ),
    RefusalReason.WORKLOAD_ISSUER: (
        "No trusted issuer of the application has the issuer of the workload's token",
        "Compare iss of the token with the issuer, byte for byte. A slash at the end counts",
    ),
    RefusalReason.WORKLOAD_KEY: (
        "The workload's token is not signed with a key of its trusted issuer",
        "Look at the address of the keys, or paste the keys of the issuer anew. A token without kid needs a single key",
    ),
    RefusalReason.WORKLOAD_KEYS_AWAY: (
        "The keys of the trusted issuer could not be fetched",
        "Let the installation reach the address of the keys, or paste the keys. An address in your own network needs the operator's leave",
    ),
    RefusalReason.WORKLOAD_AUDIENCE: (
        "The workload's token is for another audience, or for several",
        "Ask the issuer for a token with this audience alone",
    ),
    RefusalReason.WORKLOAD_TIME: (
        "The workload's token has expired, is from the future, or lives for more than a day",
        "Fetch a new token just before it is needed, and compare the clocks",
    ),
    RefusalReason.WORKLOAD_SUBJECT: (
        "The subject of the workload's token does not fit the pattern",
        "Compare sub of the token with the pattern, letter for letter. A * stands for one part between : and /",
    ),
    RefusalReason.WORKLOAD_CLAIM: (
        "A claim of the workload's token is missing, or has another value",
        "Compare the named claim with the trusted issuer. Text, numbers, true and false are different things",
    ),
    RefusalReason.CODE_REFUSED: ("The code is not valid", "Begin the sign-in anew"),
    RefusalReason.CODE_UNKNOWN: ("There is no such code", "Send the code as it came, decoded once, and redeem it at this installation"),
    RefusalReason.CODE_EXPIRED: ("The code has expired: it works for a minute", "Redeem the code at once, and compare the clocks"),
    RefusalReason.CODE_USED: (
        "The code was redeemed before",
        "Redeem each code once. Often a page is loaded twice, or a proxy repeats the request",
    ),
    RefusalReason.CODE_OF_ANOTHER: ("The code was given to another application", "Use the client id that the sign-in began with"),
    RefusalReason.REDIRECT_DIFFERS: (
        "The redirect_uri is not the one that the code was sent to",
        "Send the same redirect_uri to the token endpoint as at the beginning of the sign-in",
    ),
    RefusalReason.VERIFIER_MISSING: (
        "The sign-in began with PKCE, and the request has no usable code_verifier",
        "Keep the verifier in the person's session, and send it with the code",
    ),
    RefusalReason.VERIFIER_UNASKED: (
        "The request has a code_verifier, and the sign-in began without PKCE",
        "Send code_challenge at the beginning of the sign-in, or leave code_verifier out",
    ),
    RefusalReason.VERIFIER_DIFFERS: (
        "The code_verifier does not belong to the code_challenge",
        "Keep one verifier for each sign-in; two tabs must not overwrite each other's",
    ),
    RefusalReason.REFRESH_TOKEN: (
        "The refresh token has ended, was used before, or belongs to another application",
        "Keep the newest refresh token after each use. If the session has ended, let the person sign in again",
    ),
    RefusalReason.IDENTITY_ASSERTION: (
        "The identity assertion of the person's directory was refused",
        "Look at the exchanges of the connection: its recorder says why",
    ),
    RefusalReason.GRANT_UNKNOWN: ("There is no such grant type here", "Use one of the grant types beside"),
    RefusalReason.GRANT_NOT_ALLOWED: (
        "An application without a secret or key cannot use this grant type",
        "Make a client secret. Only an application with a server can have one",
    ),
    RefusalReason.SUBJECT_TOKEN: (
        "The token that the service wants to exchange is no living access token of a person, or is not the service's to exchange",
        "Send the access token that the API received as it came, while it lives. The service must stand for the API that the token is for",
    ),
    RefusalReason.EXCHANGE_TARGET: (
        "The request names no API that lets this service exchange tokens towards it, or several, or the person has not allowed it there",
        "Send resource once, name the service on the API's page, and for a token of its own also name the API at the authorization",
    ),
    RefusalReason.EXCHANGE_SCOPE: (
        "The scope goes beyond the API's scopes, the person's rights, or what was allowed at the API",
        "Ask for scopes of the API that the person holds; at the same API, for some of those that the first token has",
    ),
    RefusalReason.SAML: ("The SAML message was refused", ""),
    RefusalReason.PROXY_SECRET: (
        "A proxy asked about a host of the application, and showed no secret of it",
        "Let the proxy send a client secret of the application as X-Postern-Proxy. If its secret was deleted, make a new one",
    ),
    RefusalReason.PROXY_HOST: (
        "The proxy asked about a host that is not, or no more, the application's",
        "Add the host to the application, prove its domain again, or let the proxy send X-Forwarded-Host",
    ),
}
