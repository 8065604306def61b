"""Identity providers as a sign-in sees them: which are configured and offered, whether they respond, and the SAML keys that they know."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from core.domain.errors import Refusal
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.flows import Flow
from core.domain.identity.realms import Realm, RealmProvider
from core.domain.identity.upstream.connections import next_private_key_context, private_key_context
from core.domain.identity.upstream.providers import (
    NAMES,
    NO_OWN_PROVIDERS,
    Installed,
    OfferedFurther,
    OwnProviders,
    Provider,
    ProviderEndpoints,
    ProviderOffer,
    ProviderSite,
    Upstream,
    is_one_of_three,
)
from core.domain.identity.upstream.sign_in import ProviderAway, WayThrough, client_kept, upstream_of
from core.domain.saml import CertificateNotMade, three_years_after
from core.domain.secrets import Secret
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.identity.upstream import FurtherProviderStore, UpstreamProtocols
from ports.metrics import Metrics
from ports.saml import CertificateMaker
from ports.system import Clock, System
from ports.unit_of_work import UnitOfWorkFactory

KEPT_FOR: Final = 5.0


class FurtherOffers:
    """Caches the installation's custom providers that pages offer. They change rarely, so each process keeps them for some seconds. The
    cache grants nothing: leaving for a provider that is off by now is refused.
    """

    def __init__(self, lookup: FurtherProviderStore, elapsed: Callable[[], float]) -> None:
        """`elapsed` gives seconds that never go back."""
        self._lookup = lookup
        self._elapsed = elapsed
        self._read_at: float | None = None
        self._known: Sequence[OfferedFurther] = ()

    async def refresh(self) -> None:
        """Reads them again, if they were not read in the last seconds. While the database is away, those that are known stay."""
        now = self._elapsed()
        if self._read_at is not None and now - self._read_at < KEPT_FOR:
            return
        # Whoever comes meanwhile takes what is known.
        self._read_at = now
        try:
            self._known = await self._lookup.offered()
        except Refusal:
            self._read_at = None

    def forget(self) -> None:
        """The next one who asks reads them again."""
        self._read_at = None

    def offered_in(self, organization: OrganizationId | None) -> Sequence[ProviderOffer]:
        return [one.offer for one in self._known if one.is_offered_in(organization)]


class UpstreamProviders:
    """Finds the identity providers: the 3 social providers, with the client of the installation or of an organization, and the
    organizations' own enterprise connections.
    """

    def __init__(self, installed: Mapping[Provider, Installed], keyring: KeyRing, further: FurtherOffers) -> None:
        self._installed = installed
        self._keyring = keyring
        self.further = further

    def found(self, key: str, way: WayThrough, *, even_off: bool = False) -> Upstream:
        """With `even_off`, also a further provider that is off. Raises `ProviderOff`, and `UnknownProvider`."""
        kept = client_kept(key, way)
        opened = None if kept is None else Secret(self._keyring.open(kept.sealed_secret, kept.context).decode())
        return upstream_of(key, self._installed, way, opened, even_off=even_off)

    def installed_client(self, key: str) -> str | None:
        """Returns the installation's client id at the provider. None for an organization's own provider, and when the installation has no
        client there.
        """
        client = self._installed[Provider(key)].client if is_one_of_three(key) else None
        return None if client is None else client.client_id

    @property
    def shared(self) -> Sequence[str]:
        """Returns those of the three providers at which the installation has a client."""
        return [one.value for one in Provider if self._installed[one].client is not None]

    def offered_in(self, flow: Flow | None) -> Sequence[ProviderOffer]:
        """Returns the providers that the pages of a flow offer: only those that work there."""
        return self.offered(NO_OWN_PROVIDERS) if flow is None else self.offered(flow.own, flow.organization)

    def offered(self, own: OwnProviders, organization: OrganizationId | None = None) -> Sequence[ProviderOffer]:
        """Returns the three, the further ones of the installation, and an organization's own."""
        three = [
            ProviderOffer(one.value, NAMES[one]) for one in Provider if self._installed[one].client is not None or one.value in own.clients
        ]
        return [*three, *self.further.offered_in(organization), *own.providers]

    def name(self, key: str, otherwise: str = "") -> str:
        """Returns the provider's name for people. `otherwise` is the name of any but the three."""
        return NAMES[Provider(key)] if is_one_of_three(key) else otherwise


Answer = TypeVar("Answer")


class ProviderOutages(Frozen):
    """Detects outages of identity providers. If an organization's policy allows it, its members sign in with another method during an
    outage.
    """

    unit_of_work: UnitOfWorkFactory
    metrics: Metrics
    clock: Clock

    async def watch(self, upstream: ProviderSite, call: Awaitable[Answer]) -> Answer:
        """Makes a call to the provider and notes whether the provider answered. Returns the call's answer and raises the call's errors. A
        failure that repeats an earlier one is not noted, since it would lengthen the outage, or begin it again after its end.
        """
        try:
            return await call
        except ProviderAway as failure:
            self.metrics.upstream_sign_in(upstream.label, "away")
            if failure.is_news:
                await self.note(upstream)
            raise

    async def note(self, upstream: ProviderSite) -> None:
        """Notes that the provider is away."""
        async with self.unit_of_work() as uow:
            await uow.provider_outages.failed(upstream.key, self.clock.now())
            await uow.commit()

    async def watch_return(self, upstream: Upstream, way: WayThrough, call: Awaitable[Answer]) -> Answer:
        """Does what `watch` does, for the call after a person's return. A success shows that people get through, and ends an outage."""
        answer = await self.watch(upstream, call)
        if way.is_away:
            async with self.unit_of_work() as uow:
                await uow.provider_outages.worked(upstream.key)
                await uow.commit()
        return answer


class ProviderLooks(Frozen):
    """Asks a realm's provider itself, for people who try a way in of ours. Whoever meets an outage first has nobody before them who could
    have noticed it.
    """

    outages: ProviderOutages
    protocols: UpstreamProtocols
    shared: Mapping[str, ProviderEndpoints]
    """The endpoints of the providers that all organizations use."""

    async def answers(self, realm: Realm, provider: RealmProvider) -> bool:
        """Whether the provider answers at this moment. If not, its outage is noted. Nobody calls a directory by SAML, so it counts as
        there. Outside any unit of work.
        """
        site = self._site(realm, provider)
        if site is None:
            return True
        try:
            # The realm's provider counts as there, so a failure that is remembered is over.
            await self.outages.watch(site, self.protocols.look(site, at_attempt=True))
        except ProviderAway:
            return False
        return True

    def _site(self, realm: Realm, provider: RealmProvider) -> ProviderSite | None:
        if realm.own_provider is None:
            return ProviderSite(key=realm.provider, endpoints=self.shared[realm.shared_provider])
        if not provider.issuer:
            return None
        return ProviderSite(key=realm.provider, endpoints=ProviderEndpoints(issuer=provider.issuer), organization=realm.organization)


_SERIAL_BYTES: Final = 16


class SealedPair(Frozen):
    """A certificate in PEM, with its private key."""

    certificate: str
    sealed_key: bytes


class ConnectionKeys(Frozen):
    """Creates our key pairs for SAML connections. Each identity provider knows a key pair that it shares with no other."""

    maker: CertificateMaker
    keyring: KeyRing
    system: System

    async def make(self, provider: UpstreamProviderId, *, follows: bool = False) -> SealedPair:
        """Makes a key pair that is valid for three years, in up to half a second. `follows`: the pair is sealed as the next one. Raises
        `CertificateNotMade`.
        """
        now = self.system.clock.now().replace(microsecond=0)
        serial = int.from_bytes(self.system.secrets.key_bytes(_SERIAL_BYTES), "big") >> 1 or 1
        try:
            pem, key = await self.maker.make(str(provider), serial, int(now.timestamp()), int(three_years_after(now).timestamp()))
        except (ValueError, OSError) as error:
            raise CertificateNotMade(detail=str(error)) from error
        context = next_private_key_context(provider) if follows else private_key_context(provider)
        return SealedPair(pem, self.keyring.seal(key.reveal().encode(), context))
