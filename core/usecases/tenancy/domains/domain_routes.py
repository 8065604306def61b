"""Domain routes: made, proved, changed and removed by members with permission, and checked again every week."""

from collections.abc import Collection, Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import DomainId
from core.domain.identity.realms import LoginPolicy
from core.domain.identity.upstream.providers import Provider
from core.domain.record.events import Actor
from core.domain.tenancy.domain_routes import (
    MOST_ROUTES,
    NO_PROVIDER,
    TOO_MANY,
    UNKNOWN_PROVIDER,
    DomainRoute,
    DomainRouteChange,
    JoinPolicy,
    NamedProvider,
    named,
    require_provider,
    route_created,
    route_deleted,
    route_domain,
    route_lost,
    route_updated,
    route_verified,
)
from core.domain.tenancy.domains import LEASE
from core.domain.tenancy.invitations import require_may_admit
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.domains.domain_proofs import DomainProofs, Use, Verification
from core.usecases.tenancy.rights import hold_rights
from core.usecases.tenancy.texts.proved_links import follow_proof
from ports.system import System
from ports.tenancy.domain_routes import DomainRouteStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_USE: Final[Use[DomainRoute]] = Use(lambda uow: uow.domain_routes, route_verified, route_lost, "domain_route_lost")


_NO_SUCH_ROUTE: Final = "There is no such domain route"


class DomainRoutes(Frozen):
    """`configured`: the shared providers at which the installation has a client of its own."""

    unit_of_work: UnitOfWorkFactory
    lookup: DomainRouteStore
    proofs: DomainProofs
    system: System
    configured: Collection[Provider] = ()

    async def list(self, member: Member) -> Sequence[DomainRoute]:
        """Oldest first."""
        return await self.lookup.list(member.organization)

    async def create(
        self, member: Member, actor: Actor, name: str, *, provider: str | None, login_policy: LoginPolicy, join_policy: JoinPolicy
    ) -> DomainRoute:
        """Raises `BadRequest`, `Conflict` when the organization has a route for the domain, and `Forbidden` when the caller may no longer
        make one, or none by which people become members.
        """
        shared, own = named(provider)
        now = self.system.clock.now()
        route = DomainRoute(
            id=DomainId(self.system.ids.new()),
            organization=member.organization,
            name=route_domain(name),
            token=self.system.secrets.token().reveal(),
            created_at=now,
            updated_at=now,
            shared_provider=shared,
            own_provider=own,
            login_policy=login_policy,
            join_policy=join_policy,
        )
        require_provider(route)
        async with self.unit_of_work() as uow:
            rights = await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            if join_policy is not JoinPolicy.OFF:
                require_may_admit(rights)
            added = await uow.domain_routes.add(route, MOST_ROUTES, provider_is_known=shared in self.configured)
            if added is None:
                standing = await uow.domain_routes.standing(member.organization, route.name)
                if standing.has_domain:
                    raise Conflict("domain: the organization has a route for this domain", words="domain_has_route")
                raise BadRequest(TOO_MANY if standing.count >= MOST_ROUTES else UNKNOWN_PROVIDER, words="domain_route_refused")
            await uow.record(route_created(added, actor))
            await uow.commit()
        return added

    async def change(self, member: Member, route: DomainId, actor: Actor, change: DomainRouteChange) -> DomainRoute:
        """Raises `BadRequest`, `NotFound`, and `Forbidden` when the caller may no longer change it, or not let people become members."""
        provider = change.named_provider
        async with self.unit_of_work() as uow:
            before, provider_is_known, rights = await _held(uow, member, route, provider)
            after = change.applied(before, self.system.clock.now())
            if after is before:
                return before
            if after.join_policy not in {before.join_policy, JoinPolicy.OFF}:
                require_may_admit(rights)
            if after.provider != before.provider and not provider_is_known and after.shared_provider not in self.configured:
                raise BadRequest(UNKNOWN_PROVIDER, words="provider_not_here")
            await uow.domain_routes.save(after)
            await uow.record(route_updated(before, after, actor))
            await uow.commit()
        return after

    async def verify(self, member: Member, route: DomainId, actor: Actor) -> Verification:
        """Looks for the proof. A verified route stays verified, even if the proof is not found. Raises `NotFound`."""
        return await self.proofs.verify(
            _USE, member, actor, found(await self.lookup.find_route(member.organization, route), _NO_SUCH_ROUTE)
        )

    async def remove(self, member: Member, route: DomainId, actor: Actor) -> None:
        """Removes the route, from the next sign-in on. Raises `NotFound`, and `Forbidden` when the caller may no longer remove it."""
        async with self.unit_of_work() as uow:
            removed, *_ = await _held(uow, member, route)
            await uow.domain_routes.remove(route)
            await uow.record(route_deleted(removed, actor))
            await follow_proof(uow, member.organization, removed.name, self.proofs.text_hosts)
            await uow.commit()

    async def claim_due(self, limit: int) -> Sequence[DomainRoute]:
        """Claims the routes that are due, for the checker, which checks each of them."""
        now = self.system.clock.now()
        return await self.lookup.claim_due(now, now + LEASE, limit)

    async def recheck(self, route: DomainRoute) -> None:
        """Looks for the proof of a verified domain. When the proof is gone for good, the route stops working, and the owners get a mail."""
        await self.proofs.recheck(_USE, route)


async def _held(
    uow: UnitOfWork, member: Member, route: DomainId, provider: NamedProvider = NO_PROVIDER
) -> tuple[DomainRoute, bool, frozenset[Capability]]:
    """Returns the route, whether the provider is known, and the member's rights."""
    rights = await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
    held = await uow.domain_routes.find(member.organization, route, provider)
    return found(None if held is None else held.route, _NO_SUCH_ROUTE), held is not None and held.provider_is_known, rights
