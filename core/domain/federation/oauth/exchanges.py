"""Token exchange (RFC 8693): an API calls another API on behalf of a user."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.grants import TokenRequest, one_resource
from core.domain.federation.oauth.refusals import InvalidScope, InvalidTarget, RefusalReason
from core.domain.federation.oauth.resources import OfferedResource, words
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.sessions import MOST_ACTORS, TWO_FACTORS, ActingClient, TokenUse
from core.domain.key_proofs import KeyThumbprint, bound, key_of
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.domain.tokens import TokenAudience
from core.frozen import Frozen

ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type
UNKNOWN_TARGET: Final = (
    "resource: no API with this identifier allows this client's service to exchange tokens, or the person has not "
    "consented: name the API as resource in the authorization request"
)
_NOT_OURS: Final = "subject_token: not a valid access token of this issuer"
_ENDED: Final = "subject_token: no longer valid, or neither this client's own nor for an API that the client's service represents"
# What a new token repeats of the one that it came of: the person, their sign-in and their organization.
_REPEATED: Final = ("sub", "amr", "acr", "auth_time", "org", "org_id")


class SubjectRefused(BadRequest):
    """The token that was shown is not exchanged. RFC 8693 section 2.2.2 wants `invalid_request` for it."""

    recorded_as = RefusalReason.SUBJECT_TOKEN


class ExchangeRequest(Frozen):
    subject_token: Token
    resource: str
    scopes: tuple[str, ...] | None
    """None when the request names none."""


class SubjectToken(Frozen, kw_only=True):
    """The token that is exchanged."""

    session: SessionId
    user: UserId
    audience: UUID
    """The API that the token is for, or the service of the client that it was given to."""
    scopes: tuple[str, ...]
    expires_at: datetime
    claims: Mapping[str, Json]


class Exchangeable(Frozen, kw_only=True):
    """A subject at this moment, together with the API that the request names."""

    ends_at: datetime
    """The end of its session."""
    acting: ActingClient | None
    """Who acts by the subject already."""
    is_listed: bool
    """The organization lists the person as its member, and the person has not confirmed that."""
    target: OfferedResource | None
    """The API, with the scopes that the person holds there. None when it lets the service exchange nothing towards it, or the person has
    not let the service act there, whose own application it is.
    """
    bounds: Collection[str] | None
    """The scopes that were allowed at the API on the way to the subject. None when nobody has spoken of the API."""
    left: Collection[str]
    """The scopes that the person leaves to the service at the API: of their own application those that they have allowed, of another
    service all that they have not refused to their application.
    """
    is_first: bool
    """No session stands that the same service has opened from the subject's session for the API."""


class TokenExchange(Frozen, kw_only=True):
    """The session that an exchange opens, and its one token.

    The API's service presents the access token that it received, and gets one for the other API. The new token names the actor, expires
    with the first one, and allows nothing that the user cannot do.
    """

    session: SessionId
    subject: SubjectToken
    client: RegisteredClient
    audience: TokenAudience
    acting: ActingClient
    created_at: datetime
    ends_at: datetime
    key: KeyThumbprint | None = None
    """Its token is bound to it."""

    def claims(self, issuer: str, token_id: str) -> Mapping[str, Json]:
        said = self.subject.claims
        claims: dict[str, Json] = {
            **{name: said[name] for name in _REPEATED if name in said},
            "iss": issuer,
            "aud": self.audience.identifier,
            "exp": int(self.ends_at.timestamp()),
            "iat": int(self.created_at.timestamp()),
            "jti": token_id,
            "sid": str(self.session),
            "client_id": self.client.client,
            "scope": " ".join(self.audience.scopes),
            "token_use": TokenUse.EXCHANGED.value,
            "resource_id": str(self.audience.id),
            "service": self.client.context.service_slug,
            "service_id": str(self.client.service),
            "act": self.acting.claim,
        }
        return bound(claims, self.key)

    def recorded(self, actor: Actor) -> Event:
        """For the first of these exchanges. The event names both: the person, and the service that acts for them."""
        details: dict[str, Json] = {
            "service_id": str(self.client.service),
            "resource": self.audience.identifier,
            "scopes": list(self.audience.scopes),
            "subject_client_id": str(self.subject.claims["client_id"]),
            "subject_audience": str(self.subject.claims["aud"]),
            "act": dict(self.acting.claim),
        }
        target, organization = Target("user", str(self.subject.user)), OrganizationId(self.client.organization)
        return Event("user.token.exchanged", actor, target, organization, details, person=self.subject.user)


def exchange_request(request: TokenRequest) -> ExchangeRequest:
    """Raises `BadRequest`, `InvalidTarget`, `InvalidScope`."""
    if request.subject_token is None:
        raise BadRequest("subject_token: send the access token that your API received")
    if request.subject_token_type != ACCESS_TOKEN_TYPE:
        raise BadRequest(f"subject_token_type: must be {ACCESS_TOKEN_TYPE}. No other token is exchanged, and no ID token")
    if request.actor_token is not None or request.actor_token_type is not None:
        raise BadRequest("actor_token: the authenticated client is the actor, so omit actor_token and its type")
    if request.requested_token_type not in {None, ACCESS_TOKEN_TYPE}:
        raise BadRequest(f"requested_token_type: an exchange issues access tokens only. Omit it, or send {ACCESS_TOKEN_TYPE}")
    if request.audience is not None:
        raise BadRequest("audience: name the API by its identifier, in resource")
    resource = one_resource(request.resources)
    if resource is None:
        raise BadRequest("resource: name the API that the new token is for")
    if request.scope is None:
        return ExchangeRequest(request.subject_token, resource, None)
    asked = words(request.scope)
    if not asked:
        raise InvalidScope
    return ExchangeRequest(request.subject_token, resource, asked)


def no_access_token(detail: str | None) -> SubjectRefused:
    return SubjectRefused(_NOT_OURS, detail=detail)


def has_ended() -> SubjectRefused:
    return SubjectRefused(_ENDED)


def subject_of(claims: Mapping[str, Json], client: RegisteredClient, key: KeyThumbprint | None = None) -> SubjectToken:
    """The subject, from the claims of a token that we signed. Raises `SubjectRefused` for a token of another use, and for one that another
    client was given for the service itself. The client that a bound token was issued to has its key, and shows it. An API that received the
    token has not (docs/decisions/0206).
    """
    of_token = key_of(claims)
    if of_token not in {None, key} and claims.get("client_id") == client.client:
        raise SubjectRefused("subject_token: bound to a key, so send a DPoP proof of this key with the exchange")
    match claims.get("token_use"):
        case TokenUse.RESOURCE.value | TokenUse.EXCHANGED.value:
            audience = claims["resource_id"]
        case TokenUse.ACCESS.value if (claims.get("client_id"), claims.get("service_id")) == (client.client, str(client.service)):
            audience = claims["service_id"]
        case TokenUse.CLIENT.value:
            raise SubjectRefused("subject_token: represents an application, not a person. Request your own token with client_credentials")
        case TokenUse.IMPERSONATION.value:
            raise SubjectRefused("subject_token: a platform owner impersonates the person with it, so it cannot be exchanged")
        case _:
            raise SubjectRefused(_ENDED, detail="a token for no API, which the client was not given")
    return SubjectToken(
        session=SessionId(UUID(str(claims["sid"]))),
        user=UserId(UUID(str(claims["sub"]))),
        audience=UUID(str(audience)),
        scopes=words(str(claims.get("scope", ""))),
        expires_at=datetime.fromtimestamp(_seconds(claims["exp"]), UTC),
        claims=claims,
    )


def exchanged(
    request: ExchangeRequest,
    subject: SubjectToken,
    found: Exchangeable,
    client: RegisteredClient,
    *,
    session: SessionId,
    now: datetime,
    lifetime: timedelta,
    key: KeyThumbprint | None = None,
) -> TokenExchange:
    """Raises `SubjectRefused`, `InvalidTarget`, `InvalidScope`."""
    if found.is_listed:
        raise SubjectRefused("subject_token: its person has not confirmed that they belong to the organization")
    if found.acting is not None and not found.acting.has_room:
        raise SubjectRefused(f"subject_token: {MOST_ACTORS} services already act in a chain with it, and a third is not allowed")
    target = found.target
    if target is None:
        raise InvalidTarget(UNKNOWN_TARGET)
    scopes = _narrowed(request.scopes, subject, target, found)
    # Whole seconds, as tokens say them: the session must not end before its token does.
    ends_at = min(now + (target.lifetime or lifetime), subject.expires_at, found.ends_at).replace(microsecond=0)
    if ends_at <= now:
        raise has_ended()
    return TokenExchange(
        session=session,
        subject=subject,
        client=client,
        audience=TokenAudience(target.id, target.identifier, scopes, target.lifetime, target.algorithm),
        acting=ActingClient(client.client, found.acting),
        created_at=now,
        ends_at=ends_at,
        key=key,
    )


def _narrowed(asked: Sequence[str] | None, subject: SubjectToken, target: OfferedResource, found: Exchangeable) -> tuple[str, ...]:
    """At the same API the new token has no scope that the first one lacks, and at another API none beyond what was allowed there on the
    way, nor any that the person does not leave to the service. Where nobody has spoken of the API, its owner has, by naming the service:
    the scopes are those that the request asks for. In each case the person must hold them, and must have shown the second factor that a
    scope asks for.
    """
    is_same = target.id == subject.audience
    has_shown_both = subject.claims.get("acr") == TWO_FACTORS
    allowed = {scope.name for scope in target.scopes if scope.is_held and (has_shown_both or not scope.demand.second_factor)}
    if is_same:
        allowed &= set(subject.scopes)
    allowed &= set(found.left)
    if found.bounds is not None:
        allowed &= set(found.bounds)
    if asked is None:
        asked = subject.scopes if is_same else ()
        return tuple(scope for scope in asked if scope in allowed)
    if not set(asked) <= allowed:
        raise InvalidScope("scope: exceeds the API's scopes, the person's permissions, or the consent given at the API")
    return tuple(asked)


def _seconds(value: Json) -> int:
    assert isinstance(value, int)  # noqa: S101 - for the type checker: the verifier has looked
    return value
