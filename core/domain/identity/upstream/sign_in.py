"""Signing in through an upstream provider: what is kept while the person is there, and what they may be told when they come back."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from core.domain.errors import BadRequest, Refusal
from core.domain.identifiers import FlowId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.flows import Flow
from core.domain.identity.upstream.providers import (
    NAMES,
    ClientAtProvider,
    Installed,
    Provider,
    ProviderEndpoints,
    ProviderOff,
    Upstream,
    is_one_of_three,
)
from core.domain.secrets import Secret, Token
from core.frozen import Frozen

# How sessions say that their person came in by the word of a provider. RFC 8176 has no word for it.
FEDERATED: Final = "fed"
LIFETIME: Final = timedelta(minutes=15)
REPEATABLE: Final = timedelta(seconds=20)
"""For this long after somebody has come back, their browser may come back again. The slowest provider takes no longer."""
# Providers send less; RFC 6749 sets no bound.
LONGEST_CODE: Final = 4096


class OAuthError(Refusal):
    """The provider did not answer, or not as its protocol has it. What it said is in the log at most."""

    code = "OAUTH_ERROR"
    text = "The provider could not be used: try again later"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__(words="provider_failed", detail=detail)


class ProviderAway(OAuthError):
    """It could not be reached, or answered that it is down."""


class RenewalEnded(OAuthError):
    """An expired token that nothing renews any more."""

    text = "The token has expired and cannot be renewed: the person has to sign in through the provider again"


class UpstreamRefused(BadRequest):
    """Nobody comes in, or nothing is connected. `reason` is for programs, and the text of the same name for people."""

    text = "You cannot sign in in this way"

    def __init__(self, reason: str, *, detail: str | None = None) -> None:
        super().__init__(words=f"provider_{reason}", detail=detail)
        self.reason = reason


class SealedClient(Frozen, kw_only=True):
    """A client at a provider, as it is kept. `context` is what its secret was sealed with."""

    client_id: str
    sealed_secret: bytes
    context: str


class ConfiguredProvider(Frozen, kw_only=True):
    """An organization's own provider, as it is kept."""

    organization: OrganizationId
    name: str
    issuer: str
    client: SealedClient
    scopes: tuple[str, ...]


class WayThrough(Frozen, kw_only=True):
    """What a sign-in through a provider depends on, as it is at this moment."""

    organization: OrganizationId | None = None
    """That of the flow, if that is one's and active."""
    own_client: SealedClient | None = None
    """The organization's, at one of the three."""
    configured: ConfiguredProvider | None = None
    """None: there is none with this id, or it is turned off, or its organization is not active, or the flow is another organization's."""
    service: ServiceId | None = None
    """In which the person signs in, or connects an identity."""
    service_scopes: tuple[str, ...] = ()
    """What the service wants to do at the provider in the person's name."""
    is_lent: bool = False
    """The client is not the one that the service acts by, so nothing is asked for in its name."""
    redirect_uri: str = ""
    """The first that the service has registered."""
    realm: OrganizationId | None = None
    """That which leads people of its domain to one of the three, if that is how the person came by here."""
    is_away: bool = False
    """A call to the provider has failed, and none has succeeded since."""
    falls_back: bool = False
    """An organization that leads people there lets them in otherwise while the provider is away."""


class ServicePlace(Frozen, kw_only=True):
    """Where a sign-in through a provider leads, as somebody names it who has not left yet."""

    organization: str = ""
    """Its slug."""
    service: ServiceId | None = None
    service_slug: str = ""
    """The same within the organization, where the id is not known."""
    realm: str = ""
    """The slug of the organization that leads people of its domain to one of the three."""


class NewState(Frozen, kw_only=True):
    """Kept while the person is at the provider. The state itself is in the browser's address line only."""

    digest: bytes
    browser_digest: bytes
    provider: str
    flow: FlowId | None = None
    """None: an identity is connected to an account."""
    user: UserId | None = None
    """Whose account that is."""
    session: SessionId | None = None
    """In which they go there; it must still live."""
    asked_in: SessionId | None = None
    """In which they asked for it, where that is another; it must still live, too."""
    installed_client: str | None
    """The installation's, which is used unless the organization has one of its own. Whichever it is is kept: with another client than the
    request, the answer does not count.
    """
    asks_consent: bool = False
    """The person is asked to allow again what the service wants to do there."""
    created_at: datetime

    @property
    def expires_at(self) -> datetime:
        return self.created_at + LIFETIME


class TakenState(Frozen, kw_only=True):
    """What a state was for. It is gone from where it was kept."""

    provider: str
    flow: Flow | None
    """None: an identity is connected to the account of `user`; or the flow is over, or another browser's."""
    user: UserId | None
    sessions: tuple[SessionId, ...]
    """In which that person went there, and in which they asked for it, where that is another: each must still live."""
    client_id: str
    asked_consent: bool
    way: WayThrough
    on_pages: bool = False
    """Who connects an identity has asked for it on our own pages."""


class UsedState(Frozen, kw_only=True):
    """A state with which somebody has come back a moment ago."""

    flow: Flow | None
    """None: an identity is connected."""
    led_to: str
    """The address that they were led to. Empty: they still wait, or go on in the flow."""

    @property
    def has_led_somewhere(self) -> bool:
        flow = self.flow
        return self.led_to != "" or (flow is not None and (flow.signed_in_at is not None or flow.awaits_second_factor))


class ProviderRequest(Frozen, kw_only=True):
    """What goes to the provider and is expected back."""

    redirect_uri: str
    state: Token
    nonce: str
    verifier: Token
    scopes: tuple[str, ...] = ()
    login_hint: str = ""
    fresh: bool = False
    """The person must sign in there again, if the provider knows how to ask for it."""
    since: datetime | None = None
    """When they must have done so at the earliest, if the provider tells when they did. None: whenever."""
    choose: bool = False
    """The person must at least choose an account there, so that a link alone signs nobody in."""
    offline: bool = False
    """We want to act for the person later on, too."""
    consent: bool = False
    """The person must allow it again, where the provider gives what renews a token only then."""
    answer_names_issuer: bool = False
    """What came back says whose answer it is (RFC 9207), and that is this provider's."""

    @property
    def code_challenge(self) -> str:
        """S256 (RFC 7636)."""
        return urlsafe_b64encode(self.verifier.digest()).rstrip(b"=").decode()


class ReceivedTokens(Frozen, kw_only=True):
    """With which we may act for the person at the provider."""

    access_token: Secret
    refresh_token: Secret | None = None
    expires_in: int | None = None
    scopes: tuple[str, ...] | None = None
    """None: it did not say, so they are those that were asked for."""


def used(digest: bytes) -> bytes:
    """By which a state is known that somebody has come back with: by its own digest nobody finds it any more."""
    return sha256(b"used " + digest).digest()


def is_code(code: Token) -> bool:
    """Whether a provider may have given it out (RFC 6749, appendix A.11). Nothing else is sent to one: who knows how it fails at that."""
    text = code.reveal()
    return 0 < len(text) <= LONGEST_CODE and text.isascii() and text.isprintable()


def derived(state: Token, key: bytes) -> tuple[str, Token]:
    """The nonce and the PKCE verifier of a state. They need not be kept, and whoever reads the database cannot compute them."""
    return _derived(b"nonce", state, key), Token(_derived(b"verifier", state, key))


def upstream_of(provider: str, installed: Mapping[Provider, Installed], way: WayThrough, opened: Secret | None) -> Upstream:
    """`opened` is the secret of the client that `client_kept` named, if it named one. Raises `ProviderOff`."""
    if not is_one_of_three(provider):
        configured = way.configured
        if configured is None or opened is None:
            raise ProviderOff(detail="no such provider of this organization is on")
        return Upstream(
            key=provider,
            name=configured.name,
            endpoints=ProviderEndpoints(issuer=configured.issuer),
            client=ClientAtProvider(configured.client.client_id, opened),
            scopes=configured.scopes,
            organization=configured.organization,
        )
    one = Provider(provider)
    ours = installed[one]
    client = ours.client if way.own_client is None or opened is None else ClientAtProvider(way.own_client.client_id, opened)
    if client is None:
        raise ProviderOff(detail="neither the installation nor the organization has a client there")
    return Upstream(key=provider, name=NAMES[one], endpoints=ours.endpoints, client=client)


def client_kept(provider: str, way: WayThrough) -> SealedClient | None:
    """Whose secret has to be opened. None: the installation's client is used."""
    if is_one_of_three(provider):
        return way.own_client
    return None if way.configured is None else way.configured.client


def _derived(purpose: bytes, state: Token, key: bytes) -> str:
    return urlsafe_b64encode(hmac.digest(key, purpose + b" " + state.digest(), sha256)).rstrip(b"=").decode()
