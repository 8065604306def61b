"""Sign-ins through an identity provider: the state that is stored meanwhile, and the refusals."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from core.domain.errors import BadRequest, Refusal
from core.domain.identifiers import FlowId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.flows import Flow
from core.domain.identity.upstream.connections import SamlSettings
from core.domain.identity.upstream.ldap.answers import ldap_site
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.identity.upstream.providers import (
    NAMES,
    NOTHING_MAPPED,
    ClientAtProvider,
    FurtherSettings,
    Installed,
    Provider,
    ProviderEndpoints,
    ProviderOff,
    ProviderOrigin,
    SamlAtProvider,
    UnknownProvider,
    Upstream,
    digest_of_tested,
    is_one_of_three,
    origin_of,
)
from core.domain.saml import KeyPair
from core.domain.secrets import Secret, Token
from core.frozen import Frozen

# The authentication method of sessions that began at a provider. RFC 8176 has no word for it.
FEDERATED: Final = "fed"
LIFETIME: Final = timedelta(minutes=15)
REPEATABLE: Final = timedelta(seconds=20)
"""For this long after a browser has come back, the same browser may come back again. The slowest provider does not take longer to answer.
"""
# Providers send shorter codes; RFC 6749 sets no bound.
LONGEST_CODE: Final = 4096


_NO_VALUES: Final[Mapping[str, object]] = {}


class OAuthError(Refusal):
    """The provider did not answer, or its answer broke the protocol. Only the log may contain the provider's words."""

    code = "OAUTH_ERROR"
    text = "The provider could not be used: try again later"

    def __init__(self, *, words: str = "provider_failed", values: Mapping[str, object] = _NO_VALUES, detail: str | None = None) -> None:
        super().__init__(words=words, values=values, detail=detail)


class ProviderAway(OAuthError):
    """The provider could not be reached, or answered that it is down. It is no news when it repeats what became of an earlier call, or of
    another caller's: whoever made that call has noted it.
    """

    def __init__(self, *, detail: str | None = None, is_news: bool = True) -> None:
        super().__init__(detail=detail)
        self.is_news = is_news


class UnreadableAnswer(OAuthError):
    """The provider answered, and what it sent is no JSON, or too much of it."""


class RenewalEnded(OAuthError):
    """A token has expired, and nothing can renew it."""

    text = "The token has expired and cannot be renewed: the person has to sign in through the provider again"


class UpstreamRefused(BadRequest):
    """Nobody is signed in, and nothing is connected. `reason` is for programs, and the text of the same name for people."""

    text = "You cannot sign in in this way"

    def __init__(self, reason: str, *, detail: str | None = None) -> None:
        super().__init__(words=f"provider_{reason}", detail=detail)
        self.reason = reason


class SealedClient(Frozen, kw_only=True):
    """A client at a provider, as it is stored. `context` names the place that its secret is sealed for."""

    client_id: str
    sealed_secret: bytes
    context: str


class ConfiguredProvider(Frozen, kw_only=True):
    """An organization's own provider, as it is stored."""

    organization: OrganizationId
    name: str
    issuer: str
    client: SealedClient
    scopes: tuple[str, ...]
    profile_mapping: Mapping[str, str] = NOTHING_MAPPED
    second_factor_values: tuple[str, ...] = ()
    saml: SamlSettings | None = None
    """None for any other kind. For SAML, the client's id is the issuer, and its secret our private key."""
    ldap: LdapSettings | None = None
    """None for any other kind. For LDAP, the client's id is the issuer, and its secret the bind password."""
    certificate: str = ""
    """Our certificate, for SAML."""


class ConfiguredFurther(Frozen, kw_only=True):
    """A further provider of the installation, as it is stored."""

    name: str
    settings: FurtherSettings
    client: SealedClient
    secret_set_at: datetime
    is_on: bool
    """It is turned on, and offered where the sign-in leads to."""
    is_draft: bool = False
    """Only a platform owner who tests it may know of it."""

    @property
    def digest(self) -> bytes:
        """What a test of it is about."""
        return digest_of_tested(self.settings, self.client.client_id, self.secret_set_at)


class WayThrough(Frozen, kw_only=True):
    """The data that a sign-in through a provider depends on, as they are at this moment."""

    organization: OrganizationId | None = None
    """The flow's organization, if the flow has one and the organization is active."""
    own_client: SealedClient | None = None
    """The organization's own client at a shared provider."""
    configured: ConfiguredProvider | None = None
    """None when no provider has this id, when it is turned off, when its organization is not active, or when the flow belongs to another
    organization.
    """
    further: ConfiguredFurther | None = None
    """None when no further provider has this short name."""
    service: ServiceId | None = None
    """The service in which the person signs in, or connects an identity."""
    service_scopes: tuple[str, ...] = ()
    """The scopes that the service wants at the provider in the person's name."""
    is_lent: bool = False
    """The client differs from the client that the service uses, so we ask for nothing in the service's name."""
    redirect_uri: str = ""
    """The first redirect URI that the service has registered."""
    realm: OrganizationId | None = None
    """The organization that sends people of its domain to this shared provider, if the person came here that way."""
    is_away: bool = False
    """A call to the provider has failed, and none has succeeded since."""
    falls_back: bool = False
    """The organization that sends people there accepts other ways in during an outage of the provider."""


class ServicePlace(Frozen, kw_only=True):
    """The place that a sign-in through a provider leads to, as a request names it before the person leaves for the provider."""

    organization: str = ""
    """The organization's slug."""
    service: ServiceId | None = None
    service_slug: str = ""
    """The service's slug within the organization. It is used when the id is not known."""
    realm: str = ""
    """The slug of the organization that sends people of its domain to a shared provider."""


class NewState(Frozen, kw_only=True):
    """Stored while the person is at the provider. The state itself is only in the browser's address line."""

    digest: bytes
    browser_digest: bytes
    provider: str
    flow: FlowId | None = None
    """None when the state is for connecting an identity to an account."""
    user: UserId | None = None
    """The owner of this account."""
    session: SessionId | None = None
    """The session in which the person goes to the provider. It must still live when the person comes back."""
    asked_in: SessionId | None = None
    """The session in which the person asked for the connection, if it is another one. It must still live, too."""
    installed_client: str | None
    """The installation's client. The organization's own client replaces it, if there is one. The client that was used is stored, because
    the provider's answer counts only for the same client.
    """
    tests: bool = False
    """A platform owner tests the provider in this session: nobody signs in, and nothing is connected."""
    asks_consent: bool = False
    """The page at the provider asks the person again to allow what the service wants."""
    created_at: datetime

    @property
    def expires_at(self) -> datetime:
        return self.created_at + LIFETIME


class TakenState(Frozen, kw_only=True):
    """The data of a state that a browser came back with. The state itself is deleted by now."""

    provider: str
    flow: Flow | None
    """None when an identity is connected to the account of `user`, and when the flow is over or belongs to another browser."""
    user: UserId | None
    sessions: tuple[SessionId, ...]
    """The session in which the person went to the provider, and the session in which the person asked for the connection, if it is another
    one. Each must still live.
    """
    client_id: str
    asked_consent: bool
    way: WayThrough
    tests: bool = False
    """See `NewState.tests`."""
    on_pages: bool = False
    """The person asked for the connection on our own pages."""


class UsedState(Frozen, kw_only=True):
    """A state with which a browser has come back a moment ago."""

    flow: Flow | None
    """None when the state was for connecting an identity."""
    led_to: str
    """The address that the browser was sent to. Empty while the first request is still at work, and when the browser goes on in the flow.
    """

    @property
    def has_led_somewhere(self) -> bool:
        flow = self.flow
        return self.led_to != "" or (flow is not None and (flow.signed_in_at is not None or flow.awaits_second_factor))


class ProviderRequest(Frozen, kw_only=True):
    """The values that go to the provider, and the values that must come back."""

    redirect_uri: str
    state: Token
    nonce: str
    verifier: Token
    scopes: tuple[str, ...] = ()
    login_hint: str = ""
    fresh: bool = False
    """The person must sign in at the provider again, if the provider supports this."""
    since: datetime | None = None
    """The earliest time that counts for the person's sign-in at the provider, if the provider tells when. None when any time will do."""
    choose: bool = False
    """The person must at least choose an account there, so that a link alone signs nobody in."""
    offline: bool = False
    """We want to act for the person later on, too."""
    consent: bool = False
    """The person must consent again, for providers that give a refresh token only then."""
    contexts: tuple[str, ...] = ()
    """The authentication contexts that the application asks for, at a directory of its organization."""
    answer_names_issuer: bool = False
    """The answer named its issuer (RFC 9207), and this issuer is the provider's."""

    @property
    def code_challenge(self) -> str:
        """The challenge for the method S256 (RFC 7636)."""
        return urlsafe_b64encode(self.verifier.digest()).rstrip(b"=").decode()


class ReceivedTokens(Frozen, kw_only=True):
    """The tokens by which we may act for the person at the provider."""

    access_token: Secret
    refresh_token: Secret | None = None
    expires_in: int | None = None
    scopes: tuple[str, ...] | None = None
    """None when the provider did not say: then the scopes are those that we asked for."""


NO_TOKENS: Final = ReceivedTokens(access_token=Secret(""))
"""A provider that gives no tokens: nobody acts for the person there."""


def used(digest: bytes) -> bytes:
    """The digest of a state that was used. It replaces the state's own digest, so nobody can use the state a second time."""
    return sha256(b"used " + digest).digest()


def is_code(code: Token) -> bool:
    """Whether a provider may have issued this code (RFC 6749, appendix A.11). Only such a code goes to a provider: nobody knows how a
    provider handles other texts.
    """
    text = code.reveal()
    return 0 < len(text) <= LONGEST_CODE and text.isascii() and text.isprintable()


def derived(state: Token, key: bytes) -> tuple[str, Token]:
    """The nonce and the PKCE verifier of a state. Both are computed from the state, which the database does not have, so a reader of
    the database cannot compute them.
    """
    return _derived(b"nonce", state, key), Token(_derived(b"verifier", state, key))


def upstream_of(
    provider: str, installed: Mapping[Provider, Installed], way: WayThrough, opened: Secret | None, *, even_off: bool = False
) -> Upstream:
    """The provider for this sign-in. `opened` is the secret of the client that `client_kept` named, if any. Raises `ProviderOff`,
    and `UnknownProvider`.
    """
    origin = origin_of(provider)
    if origin is ProviderOrigin.FURTHER:
        return _further(provider, way.further, opened, even_off=even_off)
    if origin is ProviderOrigin.OWN:
        configured = way.configured
        if configured is None or opened is None:
            raise ProviderOff(detail="the organization has no such provider, or it is turned off")
        return Upstream(
            key=provider,
            name=configured.name,
            endpoints=ProviderEndpoints(issuer=configured.issuer),
            client=ClientAtProvider(configured.client.client_id, opened),
            scopes=configured.scopes,
            organization=configured.organization,
            profile_mapping=configured.profile_mapping,
            second_factor_values=configured.second_factor_values,
            saml=None if configured.saml is None else SamlAtProvider(configured.saml, KeyPair(configured.certificate, opened)),
            ldap=None if configured.ldap is None else ldap_site(configured.ldap, opened),
        )
    one = Provider(provider)
    ours = installed[one]
    client = ours.client if way.own_client is None or opened is None else ClientAtProvider(way.own_client.client_id, opened)
    if client is None:
        raise ProviderOff(detail="neither the installation nor the organization has a client there")
    return Upstream(key=provider, name=NAMES[one], endpoints=ours.endpoints, client=client)


def _further(provider: str, kept: ConfiguredFurther | None, opened: Secret | None, *, even_off: bool) -> Upstream:
    if kept is None or opened is None or (kept.is_draft and not even_off):
        raise UnknownProvider
    if not kept.is_on and not even_off:
        raise ProviderOff(detail="the provider is turned off, or not offered there")
    settings = kept.settings
    return Upstream(
        key=provider,
        name=kept.name,
        endpoints=ProviderEndpoints(
            issuer=settings.identity_issuer,
            authorization_url=settings.authorization_url,
            token_url=settings.token_url,
            userinfo_url=settings.profile_url,
        ),
        client=ClientAtProvider(kept.client.client_id, opened),
        scopes=settings.scopes,
        further=settings,
    )


def client_kept(provider: str, way: WayThrough) -> SealedClient | None:
    """The client whose secret has to be opened. None when the installation's client is used."""
    if is_one_of_three(provider):
        return way.own_client
    if way.further is not None:
        return way.further.client
    return None if way.configured is None else way.configured.client


def _derived(purpose: bytes, state: Token, key: bytes) -> str:
    return urlsafe_b64encode(hmac.digest(key, purpose + b" " + state.digest(), sha256)).rstrip(b"=").decode()
