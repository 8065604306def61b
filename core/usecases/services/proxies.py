"""Applications behind a proxy: members of the organization set their hosts, what each path asks for, and what the application is told."""

from core.domain.errors import BadRequest, found
from core.domain.record.events import Actor
from core.domain.services.proxies import (
    KeptProxy,
    PathPreview,
    ProxySettingsChange,
    changed,
    demands_of,
    host_taken,
    proxy_updated,
    require_known,
    require_proxy,
    return_addresses,
    unproved,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import find_rights_for_update
from ports.services.services import ProxyStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class ServiceProxies(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ProxyStore
    system: System

    async def get(self, member: Member, service_slug: str) -> KeptProxy:
        """Of a service of another type, what nobody has set. Raises `NotFound`."""
        return found(await self.lookup.find(member.organization, service_slug), NO_SUCH_SERVICE)

    async def preview(self, member: Member, service_slug: str, target: str) -> PathPreview:
        """What a request for this path is asked. Raises `NotFound`."""
        return demands_of((await self.get(member, service_slug)).settings.path_rules, target)

    async def change(
        self, member: Member, service_slug: str, change: ProxySettingsChange, actor: Actor, *, for_platform: bool
    ) -> KeptProxy:
        """`for_platform`: the caller speaks for the platform, so a new host needs no proof. Raises `NotFound`; `BadRequest` for what can
        never be, and for a host without a proof; `Conflict` for a host of another application; and `Forbidden` when the caller may no
        longer manage services.
        """
        if not change.said:
            raise BadRequest("Send at least one field", words="nothing_to_change")
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            require_proxy(service)
            before = found(await uow.proxies.find(member.organization, service_slug), NO_SUCH_SERVICE)
            after = changed(before.settings, change)
            rights = await uow.proxies.rights(service.id)
            require_known(after, rights.roles, rights.permissions)
            if set(after.hosts) == set(before.settings.hosts):
                # They are listed in the order of their names.
                after = replace(after, hosts=before.settings.hosts)
            if after == before.settings:
                return before
            now = self.system.clock.now()
            approved = await self._without_proof(uow, member, [host for host in after.hosts if host not in before.settings.hosts])
            if approved and not for_platform:
                raise unproved(approved[0])
            for host in sorted(after.hosts):
                if host in before.settings.hosts:
                    continue
                if not await uow.proxies.claim(service.id, host, now if host in approved else None):
                    raise host_taken(host)
            await uow.proxies.release(service.id, after.hosts)
            await uow.proxies.save(service.id, after, now)
            await uow.services.save(replace(service, redirect_uris=return_addresses(after.hosts), updated_at=now))
            await uow.record(proxy_updated(before.settings, after, service, actor, approved))
            kept = found(await uow.proxies.find(member.organization, service_slug), NO_SUCH_SERVICE)
            await uow.commit()
        return kept

    async def _without_proof(self, uow: UnitOfWork, member: Member, hosts: list[str]) -> list[str]:
        proved = await uow.proxies.proved(member.organization, hosts) if hosts else ()
        return [host for host in hosts if host not in proved]
