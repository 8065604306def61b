"""Refresh tokens: the outcome of presenting one."""

import hmac
from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from enum import Enum, auto
from hashlib import sha256
from typing import Final

from core.domain.claims import NO_PROFILE, StandardProfile
from core.domain.identifiers import ClientId, ServiceId
from core.domain.identity.devices import Client
from core.domain.identity.sessions import NO_SUBSCRIPTION, OpenedSession, Session, SubscriptionState
from core.domain.key_proofs import KeyThumbprint
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.domain.tokens import NO_AUDIENCES, NoAudience, TokenAlgorithm, TokenAudience, TokenAudiences
from core.frozen import Frozen, replace

# For this long, a client that lost the answer to its refresh may ask again. It gets the same successor.
GRACE: Final = timedelta(seconds=10)
LONGEST_REFRESH_TOKEN: Final = 1000
# keycloak-js reads the second part of each token as JSON, and ends where it finds none. This one is `{}` (docs/decisions/0189).
_EMPTY_PART: Final = ".e30"


class PresentedRefreshToken(Frozen):
    """The refresh token that a client presented, as the database has it, and whether this request has just rotated it."""

    session: Session
    email: Email
    is_platform_owner: bool
    is_live: bool
    """The session has neither ended nor been revoked, and the accounts behind it may still use it."""
    is_admitted: bool
    """The service of the session admits the person. A session in the organization itself admits its members."""
    organization_is_active: bool
    rotated: bool
    rotated_at: datetime | None
    """When an earlier request rotated the token."""
    rotated_by: bytes | None
    subscription: SubscriptionState = NO_SUBSCRIPTION
    email_is_verified: bool = False
    role: str = ""
    """The person's role in the organization of the session. Empty for a person who is no member."""
    owes_second_factor: bool = False
    """This organization requires a second factor of the member, and the time to set one up is over."""
    owes_terms: bool = False
    """The time to accept terms of this organization, or of the installation, is over."""
    client: ClientId | None = None
    algorithm: TokenAlgorithm = TokenAlgorithm.ES256
    """Signs the access tokens of an application that holds the token."""
    """The application that the session was given to."""
    profile: StandardProfile = NO_PROFILE
    tells_more: bool = False
    """See `OpenedSession.tells_more`."""
    audiences: TokenAudiences = NO_AUDIENCES
    """The APIs that the session was granted."""
    is_agent: bool = False
    """The application acts for the person."""
    agents_are_forbidden: bool = False
    """The application is an agent, and its organization lets none act."""
    is_kept_out: bool = False
    """A hook of the organization, or of the installation, has said no."""
    stays: bool = False
    """The token is not exchanged for another: the application holds the FAPI 2.0 Security Profile (section 5.3.2.1), whose tokens are bound
    to a key and to a client that authenticates.
    """


class Holder(Frozen):
    """The application that presents a refresh token, and the scopes that it wants this time; without scopes, it gets all of the session's.
    A public application has not authenticated itself.
    """

    client: ClientId
    service: ServiceId
    scopes: tuple[str, ...] = ()
    is_public: bool = False
    resource: str | None = None
    """The API that the access token shall be for."""
    foreign_scopes: tuple[str, ...] = ()
    """The scopes that it wants there. Without any, it gets all that were granted there."""
    key: KeyThumbprint | None = None
    """The key of which the request has shown a proof."""


class Continued(Frozen):
    """A session after its refresh, and what its ID token says of its person."""

    opened: OpenedSession
    email_is_verified: bool
    role: str
    profile: StandardProfile = NO_PROFILE


class BeyondScopes(Exception):
    """The application asks for scopes that the session was not opened with."""


class RefreshOutcome(Enum):
    GRANTED = auto()
    REPEATED = auto()
    """A client that lost the answer repeats its request, and gets the same successor."""
    CONTENDED = auto()
    """Another request is rotating the token at this moment. This request should look again."""
    ENDED = auto()
    REUSED = auto()
    """Two clients have this token, and one of them is not its owner, so the session ends."""
    NOT_A_MEMBER = auto()
    BEYOND_SCOPES = auto()
    NO_AUDIENCE = auto()
    """The session has no API of this name open, or several to choose from."""
    ORGANIZATION_NOT_ACTIVE = auto()
    SECOND_FACTOR_REQUIRED = auto()
    TERMS_REQUIRED = auto()
    REFUSED_BY_HOOK = auto()
    AGENTS_FORBIDDEN = auto()


def refresh_outcome(presented: PresentedRefreshToken, by: bytes, now: datetime, holder: Holder | None = None) -> RefreshOutcome:
    if presented.agents_are_forbidden:
        return RefreshOutcome.AGENTS_FORBIDDEN
    if not presented.is_live or (presented.stays and presented.rotated_at is not None):
        # One that stays was exchanged before its application had the profile. Whoever comes with it has authenticated: this is no theft.
        return RefreshOutcome.ENDED
    repeated = False
    if presented.rotated_at is not None:
        repeated = now - presented.rotated_at <= GRACE and presented.rotated_by == by
        if not repeated:
            return RefreshOutcome.REUSED
    forbidden = _forbidden(presented, holder)
    if forbidden is not None:
        return forbidden
    if repeated:
        return RefreshOutcome.REPEATED
    return RefreshOutcome.GRANTED if presented.rotated else RefreshOutcome.CONTENDED


def _forbidden(presented: PresentedRefreshToken, holder: Holder | None) -> RefreshOutcome | None:
    shut = _shut_out(presented) if presented.session.context.organization is not None else None
    if shut is not None:
        return shut
    if holder is not None and not set(holder.scopes) <= set(presented.session.scopes or ()):
        return RefreshOutcome.BEYOND_SCOPES
    try:
        audience = presented.audiences.chosen(None if holder is None else holder.resource)
    except NoAudience:
        return RefreshOutcome.NO_AUDIENCE
    return RefreshOutcome.BEYOND_SCOPES if holder is not None and _asks_too_much(holder, audience) else None


def _shut_out(presented: PresentedRefreshToken) -> RefreshOutcome | None:
    """Why the organization of the session lets nobody, or this person not, in."""
    if not presented.is_admitted:
        return RefreshOutcome.NOT_A_MEMBER
    if not presented.organization_is_active:
        return RefreshOutcome.ORGANIZATION_NOT_ACTIVE
    if presented.owes_second_factor:
        return RefreshOutcome.SECOND_FACTOR_REQUIRED
    if presented.is_kept_out:
        return RefreshOutcome.REFUSED_BY_HOOK
    return RefreshOutcome.TERMS_REQUIRED if presented.owes_terms else None


def _asks_too_much(holder: Holder, audience: TokenAudience | None) -> bool:
    """Whether the application asks for scopes that it was not granted at the API. Without an API, words that are no scopes of ours are
    ignored, unless there is no other.
    """
    if audience is None:
        return bool(holder.foreign_scopes) and not holder.scopes
    return not set(holder.foreign_scopes) <= set(audience.scopes)


def audience_of(presented: PresentedRefreshToken, holder: Holder | None) -> TokenAudience | None:
    """The API of the next access token, with the scopes that the application wants there. Raises `NoAudience`."""
    audience = presented.audiences.chosen(None if holder is None else holder.resource)
    if audience is None or holder is None or not holder.foreign_scopes:
        return audience
    return replace(audience, scopes=tuple(scope for scope in audience.scopes if scope in holder.foreign_scopes))


def successor(token: Token, key: bytes) -> Token:
    """The successor of a refresh token, derived from the token and a key of the installation. So a client that lost the answer gets the
    same successor again, and the database holds nothing that lets anyone in.
    """
    derived = hmac.digest(key, token.reveal().encode(), sha256)
    following = Token(urlsafe_b64encode(derived).rstrip(b"=").decode())
    return with_empty_part(following) if token.reveal().endswith(_EMPTY_PART) else following


def with_empty_part(token: Token) -> Token:
    """The first refresh token of a public application: opaque as any other, and readable for libraries that take it for a JWT."""
    return Token(token.reveal() + _EMPTY_PART)


def fingerprint(client: Client) -> bytes:
    """Shows that a repeated refresh comes from the same device. The fingerprint is made of the device token, or, for a client that keeps
    none, of its user agent. Addresses do not count: a client that loses an answer has often just changed networks.
    """
    if client.device_token is not None:
        return sha256(b"token " + client.device_token.digest()).digest()
    return sha256(b"agent " + client.user_agent.encode("utf-8", "surrogatepass")).digest()


def token_reused(session: Session, actor: Actor, agent: ClientId | None = None) -> Event:
    # Nobody knows who presented the token, so the event names the actor by address and client alone.
    return Event(
        "security.refresh_token.reused",
        replace(actor, agent=agent),
        Target("user", str(session.user)),
        session.context.organization,
        {"session_id": str(session.id)},
        success=False,
    )
