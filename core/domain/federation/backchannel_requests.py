"""Backchannel authentication requests (OpenID Connect CIBA Core 1.0, in poll mode): an application asks a user who is elsewhere, who
answers on an account page.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, Final
from uuid import UUID

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.oauth.authorizations import AuthorizationRequest, Recipient
from core.domain.federation.oauth.clients import AuthenticatedClient, RegisteredClient
from core.domain.federation.oauth.refusals import InvalidGrant, InvalidScope, RefusalReason, UnauthorizedClient
from core.domain.federation.oauth.resources import OPENID
from core.domain.formats import Json
from core.domain.identifiers import BackchannelRequestId, ClientId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.jobs import NewJob
from core.domain.key_proofs import KeyThumbprint
from core.domain.lines import has_host, has_link, has_quotation
from core.domain.mail import Email
from core.domain.normal_forms import NotNormalized, normalized
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.services.clients import describes_itself, is_open
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAudience
from core.frozen import Frozen, replace

# The provider in the login events of such sign-ins.
PROVIDER: Final = "afar"
INTERVAL: Final = 5
"""In seconds: an application must wait for so long before it polls again."""
SLOWER: Final = 5
"""In seconds: an application that polls too soon must wait so much longer from then on."""
# The time that a request takes varies. An application that waits exactly as long as it must is never slowed down.
LENIENCY: Final = timedelta(seconds=0.5)
USUAL_EXPIRY: Final = 600
SHORTEST_EXPIRY: Final = 30
LONGEST_EXPIRY: Final = 3600
LONGEST_MESSAGE: Final = 60
LONGEST_LOGIN_HINT: Final = 320
"""The most characters of a mail address."""

# How often a client may ask for one person, named in whatever way. It is counted by the hint, so it tells nothing of the person.
ASKS_OF_HINT: Final = RateLimit("afar_asks_of_hint", burst=5, seconds_per_request=120)
ASKS_OF_CLIENT: Final = RateLimit("afar_asks_of_client", burst=60, seconds_per_request=2)
ASKS_OF_ORGANIZATION: Final = RateLimit("afar_asks_of_organization", burst=300, seconds_per_request=0.5)
# A person hears of one client by mail once in a quarter of an hour. The other requests wait on the page.
MAILS_OF_CLIENT: Final = RateLimit("afar_mails", burst=1, seconds_per_request=900)
# All clients of an organization together mail a person so often. It is counted where nobody sees it, and of each organization apart:
# otherwise one could use up the mails that tell of another's requests.
MAILS_OF_PERSON: Final = RateLimit("afar_mails_of_person", burst=6, seconds_per_request=900)
MOST_WAITING: Final = 20
"""So many requests of all applications of an organization wait for one person at most. The next ones reach nobody."""
MOST_WAITING_OF_CLIENT: Final = 5

PAGE: Final = "/ui/requests"
TELL_JOB: Final = "afar_requests.tell"
# Where an answer goes that nobody is sent to. `.invalid` names no host, ever.
NOWHERE: Final = Recipient("https://afar.invalid/")


class InvalidBindingMessage(BadRequest):
    oauth_error: ClassVar = "invalid_binding_message"
    text = (
        f"binding_message: one line of at most {LONGEST_MESSAGE} characters, without links, email addresses, quotation marks, "
        "control characters and text direction marks"
    )


class BackchannelPending(BadRequest):
    oauth_error: ClassVar = "authorization_pending"
    text = "The person has not answered yet: ask again after the interval"


class BackchannelSlowDown(BackchannelPending):
    oauth_error: ClassVar = "slow_down"
    text = f"The application polls too often: from now on, wait {SLOWER} seconds longer each time"


class BackchannelExpired(BadRequest):
    oauth_error: ClassVar = "expired_token"
    text = "The request has expired: send a new one"


class BackchannelRefused(BadRequest):
    oauth_error: ClassVar = "access_denied"
    text = "The person denied the request, or the approved access has expired or was revoked"


class BackchannelState(StrEnum):
    PENDING = "pending"
    ALLOWED = "allowed"
    REFUSED = "refused"
    CONSUMED = "consumed"
    """The application has its tokens."""


class BackchannelStep(StrEnum):
    """The steps of a request. A closed list, because it is the label of a metric."""

    ASKED = "asked"
    MAILED = "mailed"
    ALLOWED = "allowed"
    REFUSED = "refused"
    BLOCKED = "blocked"
    LET_IN = "let_in"


class AskedBackchannel(Frozen, kw_only=True):
    """What an application asks for."""

    login_hint: str
    scopes: tuple[str, ...]
    foreign_scopes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    binding_message: str | None = None
    lifetime: timedelta = timedelta(seconds=USUAL_EXPIRY)
    key: KeyThumbprint | None = None

    @property
    def person(self) -> UserId | None:
        """The person, if the hint is an id in its usual form. `UUID` reads many more, and each would count as a hint of its own."""
        try:
            named = UUID(self.login_hint)
        except ValueError:
            return None
        return UserId(named) if str(named) == self.login_hint.lower() else None

    def counted_as(self, service: ServiceId) -> str:
        """The name of the bucket for this hint. It holds no address."""
        return f"{service}:{sha256(Email(self.login_hint).key.encode('utf-8', 'surrogatepass')).hexdigest()}"


class NewBackchannelRequest(Frozen, kw_only=True):
    """The stored form of a new request. The application alone has its id in words."""

    id: BackchannelRequestId
    digest: bytes
    service: ServiceId
    asked: AskedBackchannel
    audience: TokenAudience | None
    """The API, with the scopes that the application asks for there."""
    created_at: datetime

    @property
    def expires_at(self) -> datetime:
        return self.created_at + self.asked.lifetime


class BackchannelAnswer(Frozen, kw_only=True):
    """The answer to the application. It is the same whether or not anybody will ever read the request."""

    auth_req_id: str
    expires_in: int
    interval: int = INTERVAL


class WaitingRequest(Frozen, kw_only=True):
    """A request that waits for its person: who asks, where, what, until when, in which words."""

    id: BackchannelRequestId
    user: UserId
    organization: OrganizationId
    service: ServiceId
    client: ClientId
    service_name: str
    service_logo: str | None
    """The digest of its logo."""
    organization_name: str
    is_agent: bool
    scopes: tuple[str, ...]
    identifier: str | None
    """The identifier of the API."""
    api: str
    """Its name. Empty without an API, and where it is gone."""
    foreign_scopes: tuple[str, ...]
    says: Sequence[str]
    """What the scopes of the API allow, in the words of its owners."""
    binding_message: str | None
    created_at: datetime
    expires_at: datetime

    def as_asked(self) -> AuthorizationRequest:
        """The request as one that a browser brings."""
        resources = () if self.identifier is None else (self.identifier,)
        return AuthorizationRequest(
            client_id=self.client, recipient=NOWHERE, scopes=self.scopes, resources=resources, foreign_scopes=self.foreign_scopes
        )


class BlockedClient(Frozen, kw_only=True):
    """An application of which a person wants to hear no more."""

    service: ServiceId
    service_name: str
    organization_name: str
    blocked_at: datetime


class OwnRequests(Frozen, kw_only=True):
    """What a person's page about requests shows."""

    waiting: Sequence[WaitingRequest]
    """The oldest first."""
    blocked: Sequence[BlockedClient]
    """Sorted by application and organization name."""


class BackchannelDecision(Frozen, kw_only=True):
    """A person's yes."""

    user: UserId
    email: str
    session: SessionId
    scopes: tuple[str, ...]
    granted: Sequence[TokenAudience]


class PolledRequest(Frozen, kw_only=True):
    """A request as a poll found it."""

    id: BackchannelRequestId
    state: BackchannelState
    expires_at: datetime
    is_slowed: bool
    is_open: bool
    """The organization still lets its applications ask, and the person is still its own member."""
    key: KeyThumbprint | None
    allowed: BackchannelDecision | None


class BackchannelNotice(Frozen, kw_only=True):
    """Of which request a person is told."""

    request: BackchannelRequestId

    def as_job(self) -> NewJob:
        return NewJob(TELL_JOB, {"request": str(self.request)})

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "BackchannelNotice | None":
        """None for a payload that names no request."""
        try:
            return cls(request=BackchannelRequestId(UUID(str(payload.get("request")))))
        except ValueError:
            return None


def read_message(text: str | None) -> str | None:
    """The message as it is shown. Raises `InvalidBindingMessage`."""
    if text is None:
        return None
    # Compatible letters first: a full-width dot is a dot.
    try:
        whole = normalized(text, "NFKC", LONGEST_MESSAGE)
    except NotNormalized:
        raise InvalidBindingMessage from None
    message = whole.strip(" ")
    if not message or len(whole) > LONGEST_MESSAGE:
        raise InvalidBindingMessage
    kinds = set(map(unicodedata.category, whole))
    if any(kind[0] == "C" for kind in kinds) or not kinds.isdisjoint({"Zl", "Zp"}):
        raise InvalidBindingMessage
    # Within quotation marks, the page and the mail show the message. One that has them could end the quotation, and go on in our name.
    if has_link(whole) or has_host(whole) or "@" in whole or has_quotation(whole) or has_quotation(text):
        raise InvalidBindingMessage
    return message


def read_expiry(text: str | None) -> timedelta:
    """Raises `BadRequest`."""
    if text is None:
        return timedelta(seconds=USUAL_EXPIRY)
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and SHORTEST_EXPIRY <= int(text) <= LONGEST_EXPIRY):
        raise BadRequest(f"requested_expiry: a whole number of seconds, from {SHORTEST_EXPIRY} to {LONGEST_EXPIRY}")
    return timedelta(seconds=int(text))


def require_asker(client: AuthenticatedClient) -> RegisteredClient:
    """An application that the organization has registered, and that authenticates itself. Raises `UnauthorizedClient`."""
    found = client.registered
    if client.is_public or found.service_type is ServiceType.PROXY or describes_itself(found.client) or is_open(found.client):
        raise UnauthorizedClient(
            "Only an agent or application that its organization has registered can send backchannel requests, and only with a credential"
        )
    if found.holds_fapi2:
        refusal = UnauthorizedClient("The security profile fapi2 of this application does not support backchannel authentication")
        refusal.recorded_as = RefusalReason.PROFILE
        raise refusal
    return found


def not_turned_on() -> UnauthorizedClient:
    return UnauthorizedClient(
        "The organization does not allow its applications to use backchannel authentication (afar_requests of its sign-in rules)"
    )


def require_scopes(asked: AskedBackchannel, client: RegisteredClient) -> AskedBackchannel:
    """An agent gets none of our scopes. Any other application signs the person in (CIBA section 7.1). Raises `InvalidScope`."""
    if client.is_agent:
        return replace(asked, scopes=())
    if OPENID not in asked.scopes:
        raise InvalidScope("scope: must have openid")
    return asked


def allowed(found: PolledRequest, key: KeyThumbprint | None, now: datetime) -> BackchannelDecision:
    """The yes that a poll waits for, also for one that came too soon. `key` is the one that the poll has shown. Raises
    `BackchannelPending`, `BackchannelSlowDown`, `BackchannelRefused`, `BackchannelExpired`, `InvalidGrant`.
    """
    if found.state is BackchannelState.CONSUMED or found.key not in {None, key}:
        raise InvalidGrant
    if now >= found.expires_at:
        raise BackchannelExpired
    if found.allowed is not None and found.is_open:
        return found.allowed
    if found.state is not BackchannelState.PENDING:
        raise BackchannelRefused
    raise BackchannelSlowDown if found.is_slowed else BackchannelPending


def gone() -> NotFound:
    return NotFound("The request was not found, or is complete", words="afar_request_gone")


def backchannel_allowed(request: WaitingRequest, organization: OrganizationId, granted: Sequence[TokenAudience], actor: Actor) -> Event:
    details: dict[str, Json] = {
        "service_id": str(request.service),
        "request_id": str(request.id),
        "scopes": list(request.scopes),
        "resources": [one.identifier for one in granted],
    }
    return Event("user.afar_request.allowed", _by(request, actor), Target("service", str(request.service)), organization, details)


def backchannel_refused(request: WaitingRequest, actor: Actor) -> Event:
    # The organization does not get this event: what a person refuses says nothing that the application may know.
    details: dict[str, Json] = {"service_id": str(request.service), "request_id": str(request.id)}
    return Event("user.afar_request.refused", _by(request, actor), Target("user", str(request.user)), details=details)


def client_blocked(user: UserId, service: ServiceId, actor: Actor) -> Event:
    return Event("user.afar_client.blocked", actor, Target("user", str(user)), details={"service_id": str(service)})


def client_unblocked(user: UserId, service: ServiceId, actor: Actor) -> Event:
    return Event("user.afar_client.unblocked", actor, Target("user", str(user)), details={"service_id": str(service)})


def _by(request: WaitingRequest, actor: Actor) -> Actor:
    return replace(actor, agent=request.client) if request.is_agent else actor
