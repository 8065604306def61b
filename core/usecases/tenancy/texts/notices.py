"""Members with permission say from when until when their organization's notice stands above the sign-in."""

from core.domain.errors import found
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts.notices import NoticeTimes, notice_updated
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from ports.tenancy.texts.notices import NoticeStore
from ports.unit_of_work import UnitOfWorkFactory

_UNKNOWN = "There is no such organization"


class Notices(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: NoticeStore

    async def get(self, member: Member) -> NoticeTimes:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return found(await self.lookup.find(member.organization), _UNKNOWN)

    async def set(self, member: Member, times: NoticeTimes, actor: Actor) -> NoticeTimes:
        """Raises `BadRequest`, and `Forbidden` when the caller may no longer change the settings."""
        after = times.checked()
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            before = found(await uow.notices.find(member.organization), _UNKNOWN)
            if before != after:
                await uow.notices.save(member.organization, after)
                await uow.record(notice_updated(member.organization, before, after, actor))
                await uow.commit()
        return after
