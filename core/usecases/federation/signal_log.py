"""The log of security events that an organization's streams were sent, and the verification events that its members request."""

from collections.abc import Sequence
from uuid import UUID

from core.domain.errors import found
from core.domain.federation.signals import SignalDelivery, require_pace, require_telling, stream_tested, stream_verified
from core.domain.identifiers import SignalStreamId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.federation.signals import NO_SUCH_STREAM
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import hold_rights
from ports.federation.signals import SignalLogLookup
from ports.system import Clock
from ports.unit_of_work import UnitOfWorkFactory


class SignalLog(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SignalLogLookup
    clock: Clock

    async def list(
        self, member: Member, service_slug: str, stream: SignalStreamId, *, before: UUID | None, delivered: bool | None, limit: int
    ) -> Sequence[SignalDelivery]:
        """Newest first; those behind the place `before`. Raises `NotFound`."""
        asked = self.lookup.list(member.organization, service_slug, stream, before=before, delivered=delivered, limit=limit)
        return found(await asked, NO_SUCH_STREAM)

    async def verify(self, member: Member, service_slug: str, stream: SignalStreamId, actor: Actor) -> None:
        """Queues a proof of life, as if the application had asked. Raises `NotFound`; `BadRequest` for a stream that its application has
        disabled; and `RateLimited` for one too soon after another.
        """
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.WEBHOOKS_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            await uow.signals.hold_settings(service.id)
            verified = found(await uow.signals.find(service.id, stream), NO_SUCH_STREAM)
            require_telling(verified)
            now = self.clock.now()
            require_pace(await uow.signals.verified_at(stream), now)
            await uow.signals.note_verification(stream, now)
            await uow.record(stream_verified(verified, member.organization, None, actor))
            await uow.record(stream_tested(verified, member.organization, actor))
            await uow.commit()
