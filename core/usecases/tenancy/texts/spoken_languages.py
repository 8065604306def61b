"""The languages of an organization, chosen by members with permission."""

from collections.abc import Sequence

from core.domain.errors import found
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts.spoken_languages import SpokenLanguages, languages_updated, spoken_languages
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from ports.tenancy.texts.spoken_languages import SpokenLanguageStore
from ports.unit_of_work import UnitOfWorkFactory


class OrganizationLanguages(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SpokenLanguageStore

    async def get(self, member: Member) -> SpokenLanguages:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return _found(await self.lookup.find(member.organization))

    async def change(self, member: Member, codes: Sequence[str], actor: Actor) -> SpokenLanguages:
        """Raises `BadRequest`, and `Forbidden` when the caller may no longer change the settings."""
        after = spoken_languages(codes)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            before = _found(await uow.spoken_languages.find(member.organization))
            if after == before:
                return before
            await uow.spoken_languages.save(member.organization, after)
            await uow.record(languages_updated(member.organization, before, after, actor))
            await uow.commit()
        return after


def _found(spoken: SpokenLanguages | None) -> SpokenLanguages:
    return found(spoken, "There is no such organization", words="organization_unknown")
