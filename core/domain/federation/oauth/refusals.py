"""Refusals of OAuth: their reasons in words, and their error codes."""

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
    """The reason, and the change that helps. Of an identity assertion, what was received is the fault.

    The code that raises a refusal names its reason, by `recorded_as`; the recorder of refusals finds out what depends on the request.
    """
    if reason is RefusalReason.IDENTITY_ASSERTION and received in frozenset(IdentityAssertionFault):
        return fault_in_words(IdentityAssertionFault(received))
    return _WORDS[reason]


_WORDS: Final[Mapping[RefusalReason, tuple[str, str]]] = {
    RefusalReason.REDIRECT_MISSING: (
        "The request has no redirect_uri, or contains it more than once",
        "Send redirect_uri once, with a registered redirect URI",
    ),
    RefusalReason.REDIRECT_UNREGISTERED: (
        "The redirect URI is not registered",
        "Register the redirect URI exactly as received, or send a registered one. Every character must match, including a trailing slash",
    ),
    RefusalReason.REQUEST_USED: (
        "The pushed authorization request has expired or was already used",
        "Push a new request for each sign-in, and redirect the browser within 1 minute",
    ),
    RefusalReason.ORGANIZATION_CLOSED: ("The organization is not active", "A platform owner can activate it"),
    RefusalReason.SCOPE_UNKNOWN: (
        "The requested scope cannot be granted",
        "Request one or more of the registered scopes, separated by spaces",
    ),
    RefusalReason.RESOURCE_UNKNOWN: (
        "The request names no API that the application can request tokens for, or more than one for one token",
        "Send resource with one of the registered identifiers, byte for byte, or allow the application on the API's page",
    ),
    RefusalReason.RESPONSE_TYPE: ("response_type is missing or not code", "Set response_type to code. No other value is supported"),
    RefusalReason.RESPONSE_MODE: (
        "This response_mode is not supported",
        "Omit response_mode, or set it to query, form_post or, with PKCE, fragment",
    ),
    RefusalReason.PKCE_MISSING: (
        "code_challenge is missing: an application without a secret must use PKCE",
        "Turn on PKCE (S256) in the library. If the application has a server, create a client secret instead",
    ),
    RefusalReason.PKCE_MALFORMED: (
        "code_challenge or code_challenge_method is invalid",
        "Set code_challenge_method to S256, and code_challenge to the SHA-256 hash of the verifier in base64url without padding",
    ),
    RefusalReason.REQUEST_OBJECT: (
        "The request uses a request object (request, request_uri or registration)",
        "Send the parameters directly, or push them to /oauth/par",
    ),
    RefusalReason.PARAMETER: ("A parameter is missing, malformed or sent twice", "Check the named parameter in the application"),
    RefusalReason.SECRET_OWED: (
        "The application cannot redeem codes: it has no client secret or key, and used no PKCE",
        "Create a client secret, or turn on PKCE",
    ),
    RefusalReason.STRONGER_SIGN_IN: (
        "The application requires MFA or an authentication level that the person does not reach",
        "Ask people to set up MFA, or omit acr_values, the essential acr claim and the scopes that require MFA",
    ),
    RefusalReason.DIRECTORY_RESTRICTS: (
        "The identity provider does not allow this person to sign in to applications (ProxyRestriction)",
        "Remove ProxyRestriction at the identity provider, or add the entity ID of the connection to it",
    ),
    RefusalReason.AGENTS_FORBIDDEN: (
        "AI agents are blocked in this organization",
        "Allow AI agents in the sign-in rules of the organization. People are then asked for consent again",
    ),
    RefusalReason.AGENT_TARGET: (
        "An AI agent can act at one API only, and the request names none or more than one",
        "Send resource once, with one of the registered identifiers. If people sign in to this application, it is not an AI agent",
    ),
    RefusalReason.NOT_MEMBER: (
        "A person who is not a member of the organization was denied access",
        "Invite the person, or let anyone with an account sign in. The person's page shows which applications they can sign in to",
    ),
    RefusalReason.NO_ROLE: (
        "A person without a role in the application was denied access",
        "Assign an application role to the person, their team or their organization role. Or let all members sign in to the application",
    ),
    RefusalReason.SECRET_WRONG: (
        "The client secret does not belong to the application",
        "Compare the prefixes of the secrets. If the right secret is lost, create a new one and add it to the application",
    ),
    RefusalReason.CREDENTIAL_MISSING: (
        "The application has a client secret or key, but the request contains none",
        "Configure the client secret in the application, and check how its library sends it (client_secret_basic or client_secret_post)",
    ),
    RefusalReason.KEYS_MISSING: (
        "The application signs its requests (private_key_jwt), but Postern has no public key for it",
        "Add the application's public keys as jwks, or the URL where it publishes them as jwks_uri",
    ),
    RefusalReason.ASSERTION_REFUSED: (
        "The client assertion is not valid",
        "Check the key, audience and clock of the application. Each assertion can be used once",
    ),
    RefusalReason.WORKLOAD_UNREADABLE: (
        "The workload token is not signed, or is longer than 8 KiB",
        "Send the token itself in assertion: three parts separated by dots, without the word Bearer and without a line break",
    ),
    RefusalReason.WORKLOAD_ISSUER: (
        "The issuer of the workload token is not a trusted issuer of the application",
        "Compare the iss claim with the trusted issuer. Every character must match, including a trailing slash",
    ),
    RefusalReason.WORKLOAD_KEY: (
        "The workload token is not signed with a key of the trusted issuer",
        "Check the JWKS URL, or paste the issuer's keys again. For a token without kid, the issuer must have exactly one key",
    ),
    RefusalReason.WORKLOAD_KEYS_AWAY: (
        "The trusted issuer's keys could not be fetched",
        (
            "Make sure that the installation can reach the JWKS URL, or paste the keys. For a URL in your own network, the "
            "operator must allow the network"
        ),
    ),
    RefusalReason.WORKLOAD_AUDIENCE: (
        "The workload token has a different audience, or more than one",
        "Request a token from the issuer with the registered audience only",
    ),
    RefusalReason.WORKLOAD_TIME: (
        "The workload token has expired, is not valid yet, or is valid for more than one day",
        "Request a new token just before you use it, and check the clocks",
    ),
    RefusalReason.WORKLOAD_SUBJECT: (
        "The subject of the workload token does not match the pattern",
        "Compare the sub claim with the pattern, character by character. A * matches one part between : and /",
    ),
    RefusalReason.WORKLOAD_CLAIM: (
        "A claim of the workload token is missing or has a different value",
        "Compare the named claim with the trusted issuer's settings. The type must match, too: text, number, or true and false",
    ),
    RefusalReason.CODE_REFUSED: ("The authorization code is not valid", "Start the sign-in again"),
    RefusalReason.CODE_UNKNOWN: (
        "The authorization code is unknown",
        "Send the code as received, decoded once, and redeem it at this installation",
    ),
    RefusalReason.CODE_EXPIRED: (
        "The authorization code has expired: it is valid for 1 minute",
        "Redeem the code immediately, and check the clocks",
    ),
    RefusalReason.CODE_USED: (
        "The authorization code was already redeemed",
        "Redeem each code once. Common causes: a page is loaded twice, or a proxy repeats the request",
    ),
    RefusalReason.CODE_OF_ANOTHER: (
        "The authorization code was issued to another application",
        "Use the client ID from the authorization request",
    ),
    RefusalReason.REDIRECT_DIFFERS: (
        "The redirect_uri differs from the one in the authorization request",
        "Send the same redirect_uri in the authorization request and the token request",
    ),
    RefusalReason.VERIFIER_MISSING: (
        "The sign-in started with PKCE, but the token request has no valid code_verifier",
        "Store the verifier in the user's session, and send it with the code",
    ),
    RefusalReason.VERIFIER_UNASKED: (
        "The token request has a code_verifier, but the sign-in started without PKCE",
        "Send code_challenge in the authorization request, or omit code_verifier",
    ),
    RefusalReason.VERIFIER_DIFFERS: (
        "The code_verifier does not match the code_challenge",
        "Store a separate verifier for each sign-in, so that two browser tabs do not overwrite each other's",
    ),
    RefusalReason.REFRESH_TOKEN: (
        "The refresh token is no longer valid, was already used, or belongs to another application",
        "Store the newest refresh token after each use. If the session has ended, let the user sign in again",
    ),
    RefusalReason.IDENTITY_ASSERTION: (
        "The identity assertion of the person's identity provider was rejected",
        "The recent sign-ins, tests and sign-outs of the identity provider show the reason",
    ),
    RefusalReason.KEY_PROOF: (
        "The DPoP proof does not match the request",
        (
            "The error response to the application names the part that does not match. The usual causes are the URL (htu) behind "
            "a proxy, and the clock"
        ),
    ),
    RefusalReason.KEY_PROOF_MISSING: (
        "The application's tokens are bound to a key (DPoP), but the request has no DPoP proof",
        "Configure the application to send DPoP proofs, or turn off dpop_bound_access_tokens",
    ),
    RefusalReason.GRANT_UNKNOWN: ("This grant type is not supported", "Use one of the registered grant types"),
    RefusalReason.GRANT_NOT_ALLOWED: (
        "An application without a secret or key cannot use this grant type",
        "Create a client secret. Only an application with a server can have one",
    ),
    RefusalReason.SUBJECT_TOKEN: (
        "The application cannot exchange this token, or the token is not a valid access token of a person",
        "Send the access token that the API received, before it expires. The application must represent the API that the token is for",
    ),
    RefusalReason.EXCHANGE_TARGET: (
        "The request names no API that allows this application to exchange tokens, or names several, or the person has not consented",
        (
            "Send resource once, byte for byte. Add the application under Token exchange on the API's page. For a token of its "
            "own, the application must send the API as resource in the authorization request. The person is then asked for consent"
        ),
    ),
    RefusalReason.EXCHANGE_SCOPE: (
        "The scope exceeds the API's scopes, the person's permissions, or the consent given at the API",
        "Request scopes of the API that the person holds. For the same API, request only scopes of the first token",
    ),
    RefusalReason.SAML: ("The SAML message was rejected", ""),
    RefusalReason.PROXY_SECRET: (
        "The reverse proxy did not send a client secret of the application",
        "Configure the proxy to send a client secret of the application in X-Postern-Proxy. If the secret was deleted, create a new one",
    ),
    RefusalReason.PROXY_HOST: (
        "The reverse proxy sent a host that does not belong to the application",
        "Add the host on the Reverse proxy page, verify its domain again, or configure the proxy to send X-Forwarded-Host",
    ),
    RefusalReason.PROFILE: (
        "The request does not meet the application's security profile (fapi2)",
        (
            "Push requests (PAR) with PKCE (S256). Sign assertions with PS256, ES256 or EdDSA. Their audience must be the issuer "
            "only, as a string. Or remove the security profile"
        ),
    ),
}


# The refusals below have an error code of their own in OAuth (RFC 6749 section 5.2). A malformed request is a plain `BadRequest`, and a
# client that fails to authenticate itself is a plain `Unauthorized`.
class InvalidGrant(BadRequest):
    oauth_error: ClassVar = "invalid_grant"
    text = "The code or token is not valid, has expired or was used before, or was given to another client or redirect URI"


class GrantOfAgent(InvalidGrant):
    """The organization lets no agent act for its people any more."""

    recorded_as = RefusalReason.AGENTS_FORBIDDEN


class InvalidScope(BadRequest):
    oauth_error: ClassVar = "invalid_scope"
    text = "The requested scope exceeds the scope that was granted"


class InvalidTarget(BadRequest):
    """The request names an API that the client may have no token for (RFC 8707 section 2)."""

    oauth_error: ClassVar = "invalid_target"
    text = "This client cannot request a token for an API with this identifier"


class UnauthorizedClient(BadRequest):
    oauth_error: ClassVar = "unauthorized_client"
    recorded_as = RefusalReason.GRANT_NOT_ALLOWED
    text = "This client is not allowed to use this grant type"


class UnsupportedGrantType(BadRequest):
    oauth_error: ClassVar = "unsupported_grant_type"
    recorded_as = RefusalReason.GRANT_UNKNOWN
    text = "This grant type is not supported"


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
