"""The claims that a service gets besides the standard ones: members of its organization configure them."""

from collections.abc import Sequence
from typing import Final

from core.domain.claims import ClaimPlace, ClaimSource, ServiceClaim
from core.domain.errors import BadRequest, Conflict, found
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ServiceClaimId
from core.domain.record.events import Actor
from core.domain.requests import UNCHANGED, Unchanged
from core.domain.services.service_claims import (
    ConfiguredClaim,
    checked_claim,
    require_known,
    require_room,
    service_claim_created,
    service_claim_deleted,
    service_claim_updated,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import FieldWriter
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import find_rights_for_update
from ports.services.services import ServiceClaimStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_NO_SUCH_CLAIM: Final = "The service has no such claim"


class ServiceClaimChange(Frozen, kw_only=True):
    """Fields that are UNCHANGED keep their values."""

    name: str | Unchanged = UNCHANGED
    source: ClaimSource | Unchanged = UNCHANGED
    argument: Json | Unchanged = UNCHANGED
    into: tuple[ClaimPlace, ...] | Unchanged = UNCHANGED


class ServiceClaims(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ServiceClaimStore
    system: System

    async def list(self, member: Member, service_slug: str) -> Sequence[ConfiguredClaim]:
        """By name. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, service_slug), NO_SUCH_SERVICE)

    async def create(self, member: Member, service_slug: str, wanted: ServiceClaim, actor: Actor) -> ConfiguredClaim:
        """The service's next token has the claim. Raises `BadRequest`, `NotFound`, `Conflict` when the service has a claim of this name,
        and `Forbidden` when the caller may no longer manage services.
        """
        wanted = checked_claim(wanted)
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            require_room(await uow.service_claims.count(service.id))
            person_writes = await _known(uow, wanted, member.organization)
            claim = ConfiguredClaim(ServiceClaimId(self.system.ids.new()), service.id, wanted, self.system.clock.now(), person_writes)
            if not await uow.service_claims.add(claim):
                raise _taken()
            await uow.record(service_claim_created(claim, service, actor))
            await uow.commit()
        return claim

    async def change(
        self, member: Member, service_slug: str, claim: ServiceClaimId, change: ServiceClaimChange, actor: Actor
    ) -> ConfiguredClaim:
        """A change of the source needs the argument of the new source. Raises the errors of `create`."""
        said = {name: value for name in _CHANGEABLE if (value := getattr(change, name)) is not UNCHANGED}
        if not said:
            raise BadRequest("Send at least one of name, source, argument and into", words="nothing_to_change")
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            before = found(await uow.service_claims.find(service.id, claim), _NO_SUCH_CLAIM)
            wanted = checked_claim(replace(before.claim, **said))
            if wanted == before.claim:
                return before
            after = replace(before, claim=wanted, person_writes=await _known(uow, wanted, member.organization))
            if not await uow.service_claims.save(after):
                raise _taken()
            await uow.record(service_claim_updated(before, after, service, actor))
            await uow.commit()
        return after

    async def delete(self, member: Member, service_slug: str, claim: ServiceClaimId, actor: Actor) -> None:
        """Raises `NotFound`, and `Forbidden` when the caller may no longer manage services."""
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            deleted = found(await uow.service_claims.delete(service.id, claim), _NO_SUCH_CLAIM)
            await uow.record(service_claim_deleted(deleted, service, actor))
            await uow.commit()


_CHANGEABLE = ("name", "source", "argument", "into")


async def _known(uow: UnitOfWork, claim: ServiceClaim, organization: OrganizationId) -> bool | None:
    """Whether the person writes the claim's field. None for a claim that is made of no field. Raises `BadRequest`."""
    if not claim.source.is_field:
        return None
    fields = await uow.profile_fields.list(None if claim.source is ClaimSource.PERSON_FIELD else organization)
    by_key = {field.key: field for field in fields}
    require_known(claim, by_key)
    return by_key[str(claim.argument)].is_written_by(FieldWriter.PERSON)


def _taken() -> Conflict:
    return Conflict("name: the service already has a claim of this name", words="name_taken")
