"""Resource servers: members register their APIs and verify the hosts, and platform owners approve hosts that cannot be verified."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import ResourceServerId
from core.domain.identity.callers import Caller
from core.domain.record.events import Actor
from core.domain.services.resource_servers import (
    MOST_APPROVALS,
    MOST_RESOURCE_SERVERS,
    ResourceApproval,
    ResourceHost,
    ResourceServer,
    ResourceServerChange,
    ResourceServerSettings,
    changed,
    made,
    resource_host_lost,
    resource_host_verified,
    resource_server_approval_withdrawn,
    resource_server_approved,
    resource_server_asked,
    resource_server_created,
    resource_server_deleted,
    resource_server_superseded,
    resource_server_updated,
    with_services,
)
from core.domain.tenancy.domains import LEASE, RECHECKED_EVERY
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.tenancy.domains import DomainProofs, Use, Verification
from core.usecases.tenancy.rights import hold_office, hold_rights
from ports.services.services import ResourceServerStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_USE: Final[Use[ResourceHost]] = Use(lambda uow: uow.resource_servers, resource_host_verified, resource_host_lost, "resource_host_lost")
_TAKEN: Final = (
    "Another organization has verified this host, or tokens were issued for this identifier in its name. Choose another "
    "path, or contact the operator of this installation"
)


_NO_SUCH_SERVER: Final = "There is no such resource server"


class ResourceServers(Frozen):
    """Every change locks the organization, and checks the caller's rights again."""

    unit_of_work: UnitOfWorkFactory
    lookup: ResourceServerStore
    proofs: DomainProofs
    system: System

    async def list(self, member: Member) -> Sequence[ResourceServer]:
        """Oldest first."""
        return await self.lookup.list(member.organization)

    async def get(self, member: Member, server: ResourceServerId) -> ResourceServer:
        """Raises `NotFound`."""
        return found(await self.lookup.find_own(member.organization, server), _NO_SUCH_SERVER)

    async def create(self, member: Member, identifier: str, settings: ResourceServerSettings, actor: Actor) -> ResourceServer:
        """Register an API. If the organization has proved the host already, tokens are made for the API from now on. Raises `BadRequest`,
        `Conflict` when the organization has the identifier, and `Forbidden` when the caller may no longer create services.
        """
        now = self.system.clock.now()
        token = self.system.secrets.token().reveal()
        server = made(self.system.ids.new(), member.organization, identifier, settings, token=token, now=now)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_CREATE)
            existing = await uow.resource_servers.existing(member.organization, server.identifier, server.host)
            if existing.count >= MOST_RESOURCE_SERVERS:
                raise BadRequest(
                    f"An organization has at most {MOST_RESOURCE_SERVERS} resource servers: delete one first",
                    words="limit_reached",
                    values={"most": MOST_RESOURCE_SERVERS},
                )
            server = await _with_services(uow, replace(server, token=existing.token or token))
            if not await uow.resource_servers.add(server):
                raise Conflict("identifier: the organization has an API with this identifier", words="identifier_taken")
            await uow.record(resource_server_created(server, actor))
            await uow.commit()
        if server.is_local or not existing.is_proved:
            return server
        async with self.unit_of_work() as uow:
            return await self._prove(uow, server, actor) or server

    async def change(self, member: Member, server: ResourceServerId, change: ResourceServerChange, actor: Actor) -> ResourceServer:
        """Raises `NotFound`, `BadRequest`, and `Forbidden` when the caller may no longer manage services."""
        if not change.said:
            raise BadRequest("Send at least one field", words="nothing_to_change")
        async with self.unit_of_work() as uow:
            before = await _held(uow, member, server)
            after = changed(before, change, self.system.clock.now())
            if after is before:
                return before
            after = await _with_services(uow, after)
            await uow.resource_servers.save(after)
            await uow.record(resource_server_updated(before, after, actor))
            await uow.commit()
        return after

    async def verify(self, member: Member, server: ResourceServerId, actor: Actor) -> Verification:
        """Look for the proof of the host. A host that is proved stays so, even if the proof is not found. Raises `NotFound`, and
        `BadRequest` for a host that nobody can prove.
        """
        known = found(await self.lookup.find_own(member.organization, server), _NO_SUCH_SERVER)
        if known.is_local:
            raise BadRequest("The identifier is local: it needs no verification", words="resource_needs_no_proof")
        if not known.can_be_proved:
            raise BadRequest("The host is not a DNS name, so it cannot be verified: request an approval", words="resource_not_provable")
        if not await self.proofs.is_published(known.proof):
            if known.verified_at is not None:
                return Verification(True, "The host is verified, but the verification record was not found just now. Keep it published.")
            places = f"neither as a TXT record of {known.proof.record}, nor at {known.proof.file_url}"
            return Verification(False, f"The verification record was not found: {places}")
        async with self.unit_of_work() as uow:
            if await self._prove(uow, await _held(uow, member, server), actor) is None:
                return Verification(False, _TAKEN)
        return Verification(True, "The host is verified. Keep the record published: it is checked every week.")

    async def _prove(self, uow: UnitOfWork, server: ResourceServer, actor: Actor) -> ResourceServer | None:
        """None when another organization has the host or the identifier; nothing is changed then."""
        now = self.system.clock.now()
        superseded = await uow.resource_servers.claim(server)
        given = await uow.resource_servers.prove(server, now, now + RECHECKED_EVERY)
        if given is None:
            return None
        await uow.record_all([resource_server_superseded(other) for other in superseded])
        if server.verified_at is None:
            await uow.record(resource_host_verified(given.server.proof, actor))
        await uow.commit()
        return given.server

    async def ask_approval(self, member: Member, server: ResourceServerId, actor: Actor) -> ResourceServer:
        """Asks the owners of the platform. Asking again changes nothing. Raises `NotFound`, `BadRequest` when there is nothing to approve,
        and `Forbidden`.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            waiting = _waiting(await _held(uow, member, server))
            if not await uow.resource_servers.ask_approval(server, now):
                return waiting
            asking = replace(waiting, approval_asked_at=now)
            await uow.record(resource_server_asked(asking, actor))
            await uow.commit()
        return asking

    async def delete(self, member: Member, server: ResourceServerId, actor: Actor) -> None:
        """Tokens for it are refused from the next introspection on. Raises `NotFound`, `Forbidden`."""
        async with self.unit_of_work() as uow:
            removed = await _held(uow, member, server)
            await uow.resource_servers.remove(server)
            await uow.record(resource_server_deleted(removed, actor))
            await uow.commit()

    async def claim_due(self, limit: int) -> Sequence[ResourceHost]:
        """For the domain checker, which looks at each of them."""
        now = self.system.clock.now()
        return await self.lookup.claim_due(now, now + LEASE, limit)

    async def recheck(self, host: ResourceHost) -> None:
        """Looks for the proof of a proved host. When the proof is gone for good, no more tokens are made, and the owners get a mail."""
        await self.proofs.recheck(_USE, host)


class ResourceApprovals(Frozen):
    """By the owners of the platform."""

    unit_of_work: UnitOfWorkFactory
    lookup: ResourceServerStore
    system: System

    async def list(self) -> Sequence[ResourceApproval]:
        """The APIs that wait for an approval, the longest waiting first, then those that have one. At most `MOST_APPROVALS`."""
        return await self.lookup.approvals(MOST_APPROVALS)

    async def approve(self, caller: Caller, server: ResourceServerId, actor: Actor) -> ResourceServer:
        """Tokens are made for the API from now on, without a proof. Raises `NotFound`, `BadRequest` when it does not wait, `Conflict` when
        another organization has proved the host or has had the identifier, and `Forbidden`.
        """
        async with self.unit_of_work() as uow:
            await hold_office(uow, caller)
            waiting = _waiting(found(await uow.resource_servers.find(server), _NO_SUCH_SERVER))
            given = await uow.resource_servers.approve(waiting, self.system.clock.now())
            if given is None:
                raise Conflict(
                    "Another organization has verified this host, or tokens were issued for this identifier in its name",
                    words="resource_of_another",
                )
            await uow.record(resource_server_approved(given.server, actor))
            await uow.commit()
        return given.server

    async def withdraw(self, caller: Caller, server: ResourceServerId, actor: Actor) -> ResourceServer:
        """The API waits again. Taking back what was never given changes nothing. Raises `NotFound` and `Forbidden`."""
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            await hold_office(uow, caller)
            approved = found(await uow.resource_servers.find(server), _NO_SUCH_SERVER)
            if not await uow.resource_servers.withdraw_approval(server, now):
                return approved
            after = replace(approved, approved_at=None, updated_at=now)
            await uow.record(resource_server_approval_withdrawn(after, actor))
            await uow.commit()
        return after


async def _held(uow: UnitOfWork, member: Member, server: ResourceServerId) -> ResourceServer:
    await hold_rights(uow, member, Capability.SERVICES_MANAGE)
    return found(await uow.resource_servers.find_own(member.organization, server), _NO_SUCH_SERVER)


async def _with_services(uow: UnitOfWork, server: ResourceServer) -> ResourceServer:
    named = await uow.resource_servers.services(server.organization, [*server.admitted, *server.exchanges], server.service_slug)
    return with_services(server, named)


def _waiting(server: ResourceServer) -> ResourceServer:
    """Raises `BadRequest` when tokens are made for it already."""
    if server.is_local:
        raise BadRequest("The identifier is local: it needs no approval", words="resource_needs_no_proof")
    if server.verified_at is not None or server.approved_at is not None:
        raise BadRequest("Tokens are already issued for this API", words="resource_not_waiting")
    return server
