"""Refusals of OAuth: their reasons in words, and their error codes.

The reasons for which requests of applications are refused, with the words and the help for those who look after the application. Whoever
raises a refusal names its reason, by `recorded_as`; what depends on the request, the recorder of refusals finds out.

Refusals that have an error code of their own in OAuth (RFC 6749 section 5.2). A malformed request is a plain `BadRequest`, and a client
that fails to authenticate itself is a plain `Unauthorized`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Final

from core.domain.errors import BadRequest, Forbidden, Unauthorized
from core.domain.identity.upstream.identity_assertions import IdentityAssertionFault
from core.domain.identity.upstream.identity_assertions import in_words as fault_in_words


class RefusalReason(StrEnum):
    """Why an application's request was rejected."""

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
    KEY_PROOF = "key_proof"
    """A proof of a key does not fit the request (DPoP)."""
    KEY_PROOF_MISSING = "key_proof_missing"
    """The application's tokens are bound to keys, and the request has no proof."""
    GRANT_NOT_ALLOWED = "grant_not_allowed"
    SUBJECT_TOKEN = "subject_token"  # noqa: S105 - a reason
    """The token that the application wants to exchange."""
    EXCHANGE_TARGET = "exchange_target"
    EXCHANGE_SCOPE = "exchange_scope"
    SAML = "saml"
    PROXY_SECRET = "proxy_secret"  # noqa: S105 - a reason
    PROXY_HOST = "proxy_host"
    PROFILE = "profile"
    """The request does not hold the profile of the service."""


def reason_in_words(reason: RefusalReason, received: str = "") -> tuple[str, str]:
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
    RefusalReason.RESPONSE_MODE: (
        "There is no such response_mode",
        "Leave response_mode out, or set it to query, form_post or, with PKCE, fragment",
    ),
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
    RefusalReason.KEY_PROOF: (
        "The proof of the key (DPoP) does not fit the request",
        "The answer names the part: most often htu behind a proxy, or the clock",
    ),
    RefusalReason.KEY_PROOF_MISSING: (
        "This application's tokens are bound to a key, and the request has no proof of one",
        "Let the application send proofs, or turn dpop_bound_access_tokens off",
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
    RefusalReason.PROFILE: (
        "The request does not hold the profile fapi2 of the service",
        "Push requests with PKCE, and sign assertions with PS256, ES256 or EdDSA for the issuer alone. Or take the profile back",
    ),
}


class InvalidGrant(BadRequest):
    oauth_error: ClassVar = "invalid_grant"
    text = "The code or token is not valid, has expired or was used before, or was given to another client or redirect URI"


class GrantOfAgent(InvalidGrant):
    """The organization lets no agent act for its people any more."""

    recorded_as = RefusalReason.AGENTS_FORBIDDEN


class InvalidScope(BadRequest):
    oauth_error: ClassVar = "invalid_scope"
    text = "The scope goes beyond what was granted"


class InvalidTarget(BadRequest):
    """The request names an API that the client may have no token for (RFC 8707 section 2)."""

    oauth_error: ClassVar = "invalid_target"
    text = "No API that this client may ask for has this identifier"


class UnauthorizedClient(BadRequest):
    oauth_error: ClassVar = "unauthorized_client"
    recorded_as = RefusalReason.GRANT_NOT_ALLOWED
    text = "This client may not use this grant type"


class UnsupportedGrantType(BadRequest):
    oauth_error: ClassVar = "unsupported_grant_type"
    recorded_as = RefusalReason.GRANT_UNKNOWN
    text = "There is no such grant type here"


class InsufficientScope(Forbidden):
    """An access token lacks a scope (RFC 6750 section 3.1). The message names the scope."""

    oauth_error: ClassVar = "insufficient_scope"

    def __init__(self, scope: str) -> None:
        super().__init__(f"The access token must have been granted the scope {scope}")
        self.scope = scope


CLIENT_UNKNOWN = "The client could not be authenticated"


def client_refused(detail: str, *, recorded_as: str = "") -> Unauthorized:
    """The answer is the same for every reason. The log has the reason."""
    refusal = Unauthorized(CLIENT_UNKNOWN, detail=detail)
    refusal.recorded_as = recorded_as
    return refusal
