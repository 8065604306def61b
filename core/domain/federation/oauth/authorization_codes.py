"""Authorization codes: the browser brings one to an application, which exchanges it once, within a minute, for a session."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from hashlib import sha256
from typing import Final

from core.domain.claims import NO_PROFILE, StandardProfile
from core.domain.errors import BadRequest
from core.domain.federation.oauth.grants import TokenRequest, one_resource
from core.domain.federation.oauth.resources import OFFLINE_ACCESS
from core.domain.identifiers import AuthorizationCodeId, ClientId, EventId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.login_events import LoginEvent
from core.domain.identity.sessions import IDLE_LIFETIME, Session, SubscriptionState
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.key_proofs import KeyThumbprint
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.domain.tokens import TokenAudience, TokenAudiences
from core.frozen import Frozen, replace

LIFETIME: Final = timedelta(seconds=60)
# For this long, a client that sends its request twice does no harm: the second request is refused, and the session of the first lives on.
GRACE: Final = timedelta(seconds=10)
# The value of a code whose redemption adds no login event: the log of the application's organization has the sign-in already.
LOGGED_ALREADY: Final = ""

# RFC 7636 section 4.1.
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class ApprovedAuthorization(Frozen, kw_only=True):
    """An authorization that a person has approved, after all checks of the request."""

    service: ServiceId
    user: UserId
    parent: SessionId
    """The session of the browser. It must still live when the application redeems the code."""
    redirect_uri: str
    code_challenge: str | None
    """The challenge of the method S256. None when the client has a credential of its own and sent no challenge."""
    nonce: str | None
    scopes: tuple[str, ...]
    auth_time: datetime
    """When the person last came to that browser with a proof."""
    stated_at: datetime | None = None
    """When the person signed in at a provider; see `Proved.stated_at`."""
    authenticated_by: tuple[str, ...]
    provider: str = SESSION_PROVIDER
    """The provider in the login event."""
    audiences: Sequence[TokenAudience] = ()
    """The APIs that the application may have tokens for."""
    pushed: bytes | None = None
    """The digest of the pushed request that the code answers. The code uses it up."""
    key: KeyThumbprint | None = None
    """The key that the application has named for the code: nobody redeems the code without a proof of it (RFC 9449 section 10)."""


class Issue(Enum):
    """What came of the try to issue a code."""

    ISSUED = auto()
    REFUSED = auto()
    """The account, the consent or the service has ended."""
    USED = auto()
    """The pushed request has got its code already, or is too old."""


class NewCode(Frozen, kw_only=True):
    """The stored form of a code. The code itself is only in the redirect."""

    id: AuthorizationCodeId
    digest: bytes
    approved: ApprovedAuthorization
    created_at: datetime

    @property
    def expires_at(self) -> datetime:
        return self.created_at + LIFETIME


class Claim(Frozen, kw_only=True):
    """A client's claim that a code was made for it."""

    digest: bytes
    redirect_uri: str
    code_challenge: str | None
    proof: bytes
    """A digest of a value that the client knows, and a thief of the code does not."""
    resource: str | None = None
    """The API that the first access token shall be for."""
    key: KeyThumbprint | None = None
    """The key of which the request has shown a proof: the session is bound to it."""


class Opening(Frozen, kw_only=True):
    """The session that a good code is exchanged for, as far as it is known before the exchange."""

    session: SessionId
    refresh_digest: bytes
    login: LoginEvent
    """The login event. Person, provider, place and device come from the code, and the time comes from the statement that redeems it."""
    event: EventId
    """The id of the event that webhooks get."""
    lifetime: timedelta
    """The longest time that a session lasts."""
    idle: timedelta = IDLE_LIFETIME
    """The longest time without a use."""
    root: str = OFFLINE_ACCESS
    """A code with this scope opens a session that outlives the browser's."""


class EarlierUse(Frozen):
    """An earlier request has redeemed the code."""

    at: datetime
    proof: bytes
    session: SessionId
    user: UserId
    organization: OrganizationId
    service: ServiceId


class Redeemed(Frozen, kw_only=True):
    """A code that this request has redeemed, with the session that it opened."""

    session: Session
    email: Email
    email_is_verified: bool
    is_platform_owner: bool
    nonce: str | None
    role: str
    """The person's role in the organization of the service. Empty for a person who is no member."""
    subscription: SubscriptionState
    profile: StandardProfile = NO_PROFILE
    tells_more: bool = False
    """See `OpenedSession.tells_more`."""
    audience: TokenAudience | None = None
    """The API that the access token is for, if the code was granted for any."""


class Untargeted(Frozen):
    """The code is good, and nothing was redeemed: the request names no API, or not one alone, that the code was granted for."""

    audiences: TokenAudiences


class Contended:
    """Another request has redeemed the code at this moment. This request should look again."""


CONTENDED: Final = Contended()


class SecondUse(Enum):
    REPEATED = auto()
    """The same client sent its request twice."""
    STOLEN = auto()
    """Somebody else has the code: the session that was opened with it ends."""


def claim_of(request: TokenRequest, client: ClientId, *, is_public: bool) -> Claim:
    """Raises `BadRequest` when the request lacks something."""
    code, redirect_uri, verifier = request.code, request.redirect_uri, request.code_verifier
    if code is None:
        raise BadRequest("code: send the code that the browser received")
    if redirect_uri is None:
        raise BadRequest("redirect_uri: send the one that the code was sent to")
    if verifier is None:
        if is_public:
            raise BadRequest("code_verifier: a client without credentials must use PKCE")
        challenge, known = None, f"client {client}"
    else:
        text = verifier.reveal()
        if not _VERIFIER.fullmatch(text):
            raise BadRequest("code_verifier: 43 to 128 of A-Z, a-z, 0-9 and -._~ (RFC 7636)")
        challenge, known = code_challenge(verifier), f"verifier {text}"
    proof = sha256(known.encode()).digest()
    return Claim(
        digest=code.digest(),
        redirect_uri=redirect_uri,
        code_challenge=challenge,
        proof=proof,
        resource=one_resource(request.resources),
        key=request.key,
    )


def code_challenge(verifier: Token) -> str:
    """S256 (RFC 7636 section 4.2)."""
    return urlsafe_b64encode(verifier.digest()).rstrip(b"=").decode()


def second_use(claim: Claim, service: ServiceId, earlier: EarlierUse, now: datetime) -> SecondUse:
    """The meaning of a second use of the code, by this service."""
    same = claim.proof == earlier.proof and service == earlier.service
    return SecondUse.REPEATED if same and now - earlier.at <= GRACE else SecondUse.STOLEN


def code_reused(earlier: EarlierUse, actor: Actor, agent: ClientId | None = None) -> Event:
    # Nobody knows who sent the code again, so the event names the actor by address and client alone.
    details = {"session_id": str(earlier.session), "service_id": str(earlier.service)}
    return Event(
        "security.authorization_code.reused",
        replace(actor, agent=agent),
        Target("user", str(earlier.user)),
        earlier.organization,
        details,
        success=False,
    )
