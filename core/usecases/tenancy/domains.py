"""Domains and domain routes: set, proved where only the domain's owner can publish, changed, removed, and checked again every week."""

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Final, Generic, TypeVar

import structlog

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import DomainId
from core.domain.identity.sign_in_domains import LoginPolicy
from core.domain.identity.upstream.providers import Provider
from core.domain.outbound import OutboundDestination
from core.domain.record.events import Actor, Event
from core.domain.tenancy.domains import (
    LEASE,
    LONGEST_PROOF,
    MOST_MISSES,
    MOST_ROUTES,
    NO_PROVIDER,
    RECHECKED_AFTER_MISS,
    RECHECKED_EVERY,
    TIMEOUT,
    TOO_MANY,
    UNKNOWN_PROVIDER,
    Domain,
    DomainRoute,
    DomainRouteChange,
    JoinPolicy,
    NamedProvider,
    domain_deleted,
    domain_lost,
    domain_name,
    domain_set,
    domain_verified,
    named,
    require_provider,
    route_created,
    route_deleted,
    route_domain,
    route_lost,
    route_updated,
    route_verified,
)
from core.domain.tenancy.invitations import require_may_admit
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.rights import find_rights_for_update
from core.usecases.tenancy.texts import follow_proof, organization_mail
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, TextRecords
from ports.system import Clock, System
from ports.tenancy.organizations import DomainRouteStore, DomainStore, ProofStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

Proved = TypeVar("Proved", bound=Domain)

_MISSING: Final = "domain_proof_missing"


class _Sight(StrEnum):
    FOUND = "found"
    MISSED = "missed"
    UNKNOWN = "unknown"
    """No name server answered, so nobody knows whether the proof is there."""


class Verification(Frozen):
    verified: bool
    message: str


class Use(Frozen, Generic[Proved]):
    """The purpose of proved domains. `lost_mail` names the mail that tells the owners what has ended with the proof; empty for no mail."""

    store: Callable[[UnitOfWork], ProofStore[Proved]]
    verified: Callable[[Proved, Actor], Event]
    lost: Callable[[Proved], Event]
    lost_mail: str = ""


class DomainProofs(Frozen):
    unit_of_work: UnitOfWorkFactory
    outbound: Outbound
    records: TextRecords
    templates: MailTemplates
    metrics: Metrics
    clock: Clock
    text_hosts: Collection[str] = ()
    """The domains to which own texts may link without a proof, as the operator says."""

    async def verify(self, use: Use[Proved], member: Member, actor: Actor, domain: Proved) -> Verification:
        """Looks for the proof. A verified domain stays verified, even if the proof is not found."""
        sight = await self._look(domain)
        if sight is not _Sight.FOUND:
            if domain.is_verified:
                return Verification(True, "The domain is verified, but its proof was not found just now. Leave it published.")
            if sight is _Sight.UNKNOWN:
                return Verification(False, f"No name server answered for {domain.record}, and there is no proof at {domain.file_url}")
            return Verification(False, f"The proof was not found: neither as a TXT record of {domain.record}, nor at {domain.file_url}")
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
            verified = await use.store(uow).verify(domain, now, now + RECHECKED_EVERY)
            if verified is None:
                return Verification(False, "Another organization has verified this domain, or you have changed yours meanwhile")
            if verified.is_new:
                await uow.record(use.verified(domain, actor))
                await follow_proof(uow, domain.organization, domain.name, self.text_hosts)
            await uow.commit()
        return Verification(True, "The domain is verified. Leave the proof published: it is looked at every week.")

    async def recheck(self, use: Use[Proved], domain: Proved) -> None:
        """Looks for the proof of a verified domain, and tells the owners when the proof is gone. If no name server answers, Postern looks
        again when the lease of this check has run out: the installation's own name servers may be down, and then the check of every domain
        fails.
        """
        sight = await self._look(domain)
        if sight is _Sight.UNKNOWN:
            log.warning("domain_proof_unknown", domain=domain.name, organization=str(domain.organization))
            return
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            store = use.store(uow)
            if sight is _Sight.FOUND:
                await store.seen(domain.id, now, now + RECHECKED_EVERY)
                await uow.commit()
                return
            # What follows from a lost proof changes the organization, which comes first.
            await uow.organizations.find_for_update(domain.organization)
            missed = await store.missed(domain, now, now + RECHECKED_AFTER_MISS, MOST_MISSES)
            if missed is None:
                return
            if not missed.is_verified:
                await uow.record(use.lost(missed))
                await follow_proof(uow, missed.organization, missed.name, self.text_hosts)
            mail = _MISSING if missed.misses == 1 else "" if missed.is_verified else use.lost_mail
            if mail:
                await self._tell_owners(uow, store, missed, mail)
            await uow.commit()
        log.warning("domain_proof_missing", domain=missed.name, organization=str(missed.organization), verified=missed.is_verified)

    async def _tell_owners(self, uow: UnitOfWork, store: ProofStore[Proved], domain: Proved, template: str) -> None:
        for owner in await store.owners(domain.organization):
            mail = organization_mail(
                self.templates,
                domain.organization,
                template,
                owner.email.address,
                account=owner.user,
                language=owner.language,
                branding=owner.branding,
                is_own=owner.is_own,
                domain=domain.name,
                record=domain.record,
                when=self.clock.now(),
            )
            await uow.jobs.add(mail.as_job())

    async def is_published(self, domain: Domain) -> bool:
        """Whether the proof is there at this moment, for a domain that nobody has stored as the organization's yet."""
        return await self._look(domain) is _Sight.FOUND

    async def _look(self, domain: Domain) -> _Sight:
        sight = await self._sight(domain)
        self.metrics.domain_checked(sight)
        return sight

    async def _sight(self, domain: Domain) -> _Sight:
        texts = await self.records.texts(domain.record)
        if any(map(domain.is_proved_by, texts or ())):
            return _Sight.FOUND
        for place in domain.files:
            if await self._is_proved_at(domain, place):
                return _Sight.FOUND
        return _Sight.UNKNOWN if texts is None else _Sight.MISSED

    async def _is_proved_at(self, domain: Domain, place: OutboundDestination) -> bool:
        try:
            answer = await self.outbound.get(place, TIMEOUT, most=LONGEST_PROOF)
        except OutboundFailed:
            return False
        return answer.status == 200 and domain.is_proved_by(answer.body.decode("ascii", "replace"))


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
            rights = await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
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
    rights = await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
    held = await uow.domain_routes.find(member.organization, route, provider)
    return found(None if held is None else held.route, _NO_SUCH_ROUTE), held is not None and held.provider_is_known, rights


_DOMAIN_USE: Final[Use[Domain]] = Use(lambda uow: uow.domains, domain_verified, domain_lost)


class Domains(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: DomainStore
    proofs: DomainProofs
    system: System

    async def get(self, member: Member) -> Domain | None:
        return await self.lookup.find(member.organization)

    async def set(self, member: Member, actor: Actor, name: str) -> Domain:
        """Sets the domain in place of the earlier one, whose proof then ends. Setting the same domain again changes nothing. Raises
        `BadRequest`, and `Forbidden` when the caller may no longer change it.
        """
        domain = Domain(
            id=DomainId(self.system.ids.new()),
            organization=member.organization,
            name=domain_name(name),
            token=self.system.secrets.token().reveal(),
            created_at=self.system.clock.now(),
        )
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
            before = await uow.domains.find(member.organization)
            if before is not None and before.name == domain.name:
                return before
            await uow.domains.save(domain)
            if before is not None and before.is_verified:
                await uow.record(domain_deleted(before, actor))
                await follow_proof(uow, member.organization, before.name, self.proofs.text_hosts)
            await uow.record(domain_set(domain, actor))
            await uow.commit()
        return domain

    async def verify(self, member: Member, actor: Actor) -> Verification:
        """Looks for the proof. A verified domain stays verified if the proof is missing. Raises `NotFound` when no domain is set."""
        domain = found(await self.lookup.find(member.organization), "No domain is set")
        return await self.proofs.verify(_DOMAIN_USE, member, actor, domain)

    async def remove(self, member: Member, actor: Actor) -> None:
        """Removes the domain, if one is set. Raises `Forbidden` when the caller may no longer change it."""
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SETTINGS_MANAGE)
            removed = await uow.domains.remove(member.organization)
            if removed is not None:
                await uow.record(domain_deleted(removed, actor))
                await follow_proof(uow, member.organization, removed.name, self.proofs.text_hosts)
                await uow.commit()

    async def claim_due(self, limit: int) -> Sequence[Domain]:
        """For the domain checker, which looks at each of them."""
        now = self.system.clock.now()
        return await self.lookup.claim_due(now, now + LEASE, limit)

    async def recheck(self, domain: Domain) -> None:
        """Looks for the proof of a verified domain, and tells the owners when it is gone."""
        await self.proofs.recheck(_DOMAIN_USE, domain)
