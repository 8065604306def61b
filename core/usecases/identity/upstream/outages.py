"""Notices outages of upstream providers. If an organization's policy allows it, its people sign in another way during an outage."""

from collections.abc import Awaitable, Mapping
from typing import TypeVar

from core.domain.identity.realms import Realm, RealmProvider
from core.domain.identity.upstream.providers import ProviderEndpoints, ProviderSite, Upstream
from core.domain.identity.upstream.sign_in import ProviderAway, WayThrough
from core.frozen import Frozen
from ports.clock import Clock
from ports.identity.upstream.protocols import UpstreamProtocols
from ports.metrics import Metrics
from ports.unit_of_work import UnitOfWorkFactory

Answer = TypeVar("Answer")


class ProviderOutages(Frozen):
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
