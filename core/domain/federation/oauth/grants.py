"""Grants: a client exchanges a grant for tokens (RFC 6749 sections 4 and 5)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from core.domain.claims import NO_PROFILE, StandardProfile
from core.domain.errors import BadRequest
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.refusals import InvalidGrant, InvalidScope, InvalidTarget, RefusalReason, UnsupportedGrantType
from core.domain.federation.oauth.resources import LONGEST_SCOPES, MOST_RESOURCES, OfferedResource, words
from core.domain.formats import Json
from core.domain.identifiers import IdentityId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.sessions import Context, OpenedSession, TokenUse
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.identities import Encounter, Linking, linking
from core.domain.identity.upstream.identity_assertions import (
    IdentityAssertionFault,
    IdentityAssertionRefusal,
    IssuingConnection,
    in_words,
)
from core.domain.identity.upstream.jwt_assertions import AssertionFault
from core.domain.key_proofs import KeyThumbprint, bound
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.domain.tokens import ONE_AT_A_TIME, TokenAudience
from core.frozen import Frozen

AUTHORIZATION_CODE: Final = "authorization_code"
REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105 - the name of a grant
CLIENT_CREDENTIALS: Final = "client_credentials"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant
CIBA: Final = "urn:openid:params:grant-type:ciba"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class TokenRequest(Frozen, kw_only=True):
    """A request to the token endpoint. The grant type decides which fields count."""

    grant_type: str
    code: Token | None = None
    redirect_uri: str | None = None
    code_verifier: Token | None = None
    refresh_token: Token | None = None
    auth_req_id: Token | None = None
    """Names a request from afar."""
    assertion: Token | None = None
    """The signed token of an issuer outside (RFC 7523)."""
    scope: str | None = None
    resources: Sequence[str] = ()
    """The identifiers of APIs, as the request names them."""
    subject_token: Token | None = None
    subject_token_type: str | None = None
    actor_token: Token | None = None
    actor_token_type: str | None = None
    requested_token_type: str | None = None
    audience: str | None = None
    key: KeyThumbprint | None = None
    """The key of which the request has shown a proof: the tokens are bound to it."""


class Granted(Frozen):
    """A session that the client got, and more data for its ID token."""

    opened: OpenedSession
    email_is_verified: bool
    role: str
    """The person's role in the organization of the service. Empty for a person who is no member."""
    nonce: str | None = None
    profile: StandardProfile = NO_PROFILE


class IssuedTokens(Frozen):
    access_token: Token
    expires_in: int
    scope: str | None = None
    refresh_token: Token | None = None
    id_token: Token | None = None
    issued_token_type: str | None = None
    """Only an exchange says it (RFC 8693 section 2.2.1)."""
    acts_for: UserId | None = None
    """The person, if the client is an agent."""
    key: KeyThumbprint | None = None
    """The access token is bound to it."""


def grant_type(named: str | None) -> str:
    """The named grant type. Raises `BadRequest`."""
    if named is None:
        raise BadRequest("grant_type: missing")
    return named


def no_such_grant(named: str) -> UnsupportedGrantType:
    return UnsupportedGrantType(detail=f"grant_type {named[:100]!r}")


def one_resource(named: Sequence[str]) -> str | None:
    """The API that a token request names. Raises `InvalidTarget` when it names several: a token is for one."""
    if len(set(named)) > 1:
        raise InvalidTarget(ONE_AT_A_TIME)
    return named[0] if named else None


def client_claims(
    client: RegisteredClient,
    audience: TokenAudience | None,
    *,
    issuer: str,
    token_id: str,
    now: datetime,
    lifetime: timedelta,
    scopes: Sequence[str] = (),
    key: KeyThumbprint | None = None,
) -> Mapping[str, Json]:
    """The claims of an application's own token (RFC 9068). The token names the application and no person. It names no session, so no caller
    rule but that of signals admits it. No session's token has its audience, except at an API that both may ask for: there, `sub` is the
    client.
    """
    claims: dict[str, Json] = {
        "iss": issuer,
        "sub": client.client,
        "aud": f"services:{client.context.organization_slug}",
        "exp": int((now + lifetime).timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "client_id": client.client,
        "token_use": TokenUse.CLIENT.value,
        "org": client.context.organization_slug,
        "org_id": str(client.context.organization),
        "service": client.context.service_slug,
        "service_id": str(client.context.service),
    }
    if scopes:
        claims["scope"] = " ".join(scopes)
    if audience is not None:
        claims |= {"aud": audience.identifier, "resource_id": str(audience.id), "scope": " ".join(audience.scopes)}
    return bound(claims, key)


class IdentityAssertionRefused(InvalidGrant):
    """The fault is also kept for those who look after the application."""

    recorded_as = RefusalReason.IDENTITY_ASSERTION

    def __init__(self, fault: IdentityAssertionFault, message: str) -> None:
        super().__init__(message, detail=fault.value)
        self.fault = fault


class AssertionVerdict(Frozen):
    """What an identity assertion grant would lead to. `fault` is None if the application would get a token."""

    fault: IdentityAssertionFault | None
    came: str = ""

    @property
    def said(self) -> tuple[str, str]:
        """The verdict in words, and the change that helps."""
        if self.fault is None:
            return "The assertion would give the application a token. No token was issued, and the assertion can still be used.", ""
        words_, mend = in_words(self.fault)
        return f"{words_}: {self.came}." if self.came else f"{words_}.", f"{mend}."


# What an application is told about a person whom its directory names. The recorder of the connection says more.
_OF_PERSON: Final = frozenset(
    (
        *(IdentityAssertionFault.PERSON_UNKNOWN, IdentityAssertionFault.PERSON_DEACTIVATED, IdentityAssertionFault.DOMAIN),
        *(IdentityAssertionFault.NOT_MEMBER, IdentityAssertionFault.NOT_ADMITTED),
    )
)


def oauth_refusal(refusal: IdentityAssertionRefusal) -> BadRequest:
    """The answer to the application. The connection's recorder has every reason."""
    told, _ = in_words(refusal.fault)
    if refusal.fault in {IdentityAssertionFault.RESOURCE, IdentityAssertionFault.RESOURCE_CLOSED}:
        return InvalidTarget(f"resource: {told}")
    if refusal.fault is IdentityAssertionFault.SCOPE:
        return InvalidScope(f"scope: {told}")
    if refusal.fault in _OF_PERSON:
        told = "The connection does not let this person in: its recorder says why"
    return IdentityAssertionRefused(refusal.fault, told)


def named_api(claims: Mapping[str, Any], asked: str | None) -> str:
    """The API of the token: one that the assertion names. The request may choose one of several. Raises `IdentityAssertionRefusal`."""
    given = claims.get("resource")
    named = given if isinstance(given, list | tuple) else (given,)
    if not 0 < len(named) <= MOST_RESOURCES or not all(isinstance(one, str) and one for one in named):
        raise IdentityAssertionRefusal(IdentityAssertionFault.RESOURCE)
    if asked is None and len(set(named)) == 1:
        return str(named[0])
    if asked is None or asked not in named:
        raise IdentityAssertionRefusal(IdentityAssertionFault.RESOURCE)
    return asked


def named_scopes(claims: Mapping[str, Any], asked: str | None) -> Sequence[str]:
    """The scopes of the token: those of the assertion, or fewer. Without any in the assertion, the token has none. Raises
    `IdentityAssertionRefusal`.
    """
    given = claims.get("scope", "")
    if not isinstance(given, str) or max(len(given), len(asked or "")) > LONGEST_SCOPES:
        raise IdentityAssertionRefusal(IdentityAssertionFault.SCOPE)
    allowed = words(given)
    if asked is None:
        return allowed
    wanted = words(asked)
    if not set(wanted) <= set(allowed):
        raise IdentityAssertionRefusal(IdentityAssertionFault.SCOPE)
    return wanted


def audience_of(offered: Sequence[OfferedResource], scopes: Sequence[str]) -> TokenAudience:
    """The API as the token has it, with the scopes that the person may have. Nobody signs in here, so scopes that ask for a proof are left
    out. Raises `IdentityAssertionRefusal`.
    """
    if not offered:
        raise IdentityAssertionRefusal(IdentityAssertionFault.RESOURCE_CLOSED)
    (resource,) = offered
    if scopes and not any(scope.name in scopes for scope in resource.scopes):
        raise IdentityAssertionRefusal(IdentityAssertionFault.SCOPE)
    unasked = [scope.name for scope in resource.scopes if scope.name in scopes and not scope.demand.asks]
    return resource.granted(unasked, by_trust=True)


def known_person(asserted: Asserted, met: Encounter, connection: IssuingConnection) -> tuple[Account, IdentityId]:
    """The account that the connection's sign-ins open, by the one decision about all of them. An assertion makes and connects nothing.
    Raises `IdentityAssertionRefusal`.
    """
    decided = linking(asserted, met, str(connection.id), of_organization=True)
    if decided is Linking.SIGN_IN and met.connected is not None and met.identity is not None:
        return met.connected.account, met.identity
    raise IdentityAssertionRefusal(_PERSON_FAULTS.get(decided, IdentityAssertionFault.PERSON_UNKNOWN))


_PERSON_FAULTS: Final = {
    Linking.DEACTIVATED: IdentityAssertionFault.PERSON_DEACTIVATED,
    Linking.NOT_FOR_ACCOUNT: IdentityAssertionFault.DOMAIN,
}


def assertion_accepted(user: UserId, context: Context, session: SessionId, connection: IssuingConnection, audience: TokenAudience) -> Event:
    """The directory has decided, and the application acts: the request comes from its servers and says nothing about the person's place."""
    details = {
        "provider_id": str(connection.id),
        "provider": connection.name,
        "service_id": str(context.service),
        "service_slug": context.service_slug,
        "resource": audience.identifier,
        "scope": " ".join(audience.scopes),
        "session_id": str(session),
    }
    return Event("user.assertion.accepted", Actor(user), Target("user", str(user)), connection.organization, details)


_SAID: Final = {
    AssertionFault.MALFORMED: ("it is no signed token of the usual size", RefusalReason.WORKLOAD_UNREADABLE),
    AssertionFault.ISSUER: ("nobody trusts its issuer here", RefusalReason.WORKLOAD_ISSUER),
    AssertionFault.KEY: ("its issuer has no key of this name", RefusalReason.WORKLOAD_KEY),
    AssertionFault.SIGNATURE: ("its signature is not good", RefusalReason.WORKLOAD_KEY),
    AssertionFault.KEYS_AWAY: ("the keys of its issuer could not be fetched", RefusalReason.WORKLOAD_KEYS_AWAY),
    AssertionFault.AUDIENCE: ("it is for another audience, or for several", RefusalReason.WORKLOAD_AUDIENCE),
    AssertionFault.EXPIRED: ("it has expired", RefusalReason.WORKLOAD_TIME),
    AssertionFault.LIFETIME: ("it lives for more than a day", RefusalReason.WORKLOAD_TIME),
    AssertionFault.EARLY: ("it is from the future", RefusalReason.WORKLOAD_TIME),
    AssertionFault.SUBJECT: ("its subject does not fit", RefusalReason.WORKLOAD_SUBJECT),
    AssertionFault.CLAIM: ("one of its claims does not match", RefusalReason.WORKLOAD_CLAIM),
}


class WorkloadRefused(InvalidGrant):
    """The refusal of a workload: a build job or cluster that presents a token of its own issuer in place of a secret (RFC 7523 section
    2.1).

    The assertion keeps none of the rules of whoever asks. The answer says which part of it does not fit; what the rule wants is for those
    who set it. `claim` is the name of a claim in the rule.
    """

    oauth_error: ClassVar = "invalid_grant"

    def __init__(self, fault: AssertionFault, *, claim: str = "", detail: str | None = None) -> None:
        words, self.recorded_as = _SAID[fault]
        super().__init__(f"assertion: {words}", detail=detail)
        self.fault = fault
        self.claim = claim
