"""Values of fields: what an organization, or the installation, keeps of people; read and written by those whom each field names."""

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from core.domain.errors import BadRequest, Forbidden, NotFound, Refusal, found
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowPurpose
from core.domain.json import Json
from core.domain.record.events import SYSTEM, Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import (
    FieldWriter,
    KeptValues,
    changed_values,
    is_empty,
    suitable_values,
    values_changed,
)
from core.domain.tenancy.profile_values import MOST_KEEPERS, AskedFields, HeldPerson, KeptBy
from core.domain.tenancy.roles import Capability, require_no_more
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_members, require_capability
from ports.clock import Clock
from ports.tenancy.profile_values import ProfileValueStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

_UNKNOWN: Final = "There is no such user"
_NOT_YOURS: Final = "You belong to no organization of this name"


class ProfileValues(Frozen):
    """An organization's values are told to nobody but the person and the organization's own administrators, directory and services."""

    unit_of_work: UnitOfWorkFactory
    lookup: ProfileValueStore
    clock: Clock

    async def of_installation(self, user: UserId) -> KeptValues:
        """What the installation keeps of the person, for platform owners. Raises `NotFound`."""
        return found(await self.lookup.read_tied(user, None), _UNKNOWN).kept

    async def write_in_installation(self, user: UserId, given: Mapping[str, Json], actor: Actor) -> KeptValues:
        """A platform owner writes. Raises `NotFound`, `BadRequest`."""
        async with self.unit_of_work() as uow:
            held = found(await uow.profile_values.hold(user, None), _UNKNOWN)
            after = await self.written(uow, held, given, FieldWriter.ADMINISTRATOR, actor)
            await uow.commit()
        return after

    async def of_tied(self, member: Member, user: UserId) -> KeptValues:
        """What the organization keeps of a person, for those who manage its members; for people who only use its services, those who
        manage its end users. Raises `NotFound`, `Forbidden`.
        """
        held = await self.lookup.read_tied(user, member.organization)
        if held is None:
            # People without any of these rights learn nothing, not even who is tied to the organization.
            if not (member.may(Capability.MEMBERS_MANAGE) or member.may(Capability.END_USERS_MANAGE)):
                raise Forbidden
            raise NotFound(_UNKNOWN)
        member.require(_needed(held))
        return held.kept

    async def write_of_tied(self, member: Member, user: UserId, given: Mapping[str, Json], actor: Actor) -> KeptValues:
        """An administrator writes. Claims of applications may follow from values, so nobody writes those of a member who may do more.
        Raises `NotFound`, `Forbidden`, `BadRequest`.
        """
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, member, *({user} - {member.responsible}))
            held = await uow.profile_values.hold(user, member.organization)
            if held is None:
                if not acting.capabilities & {Capability.MEMBERS_MANAGE, Capability.END_USERS_MANAGE}:
                    raise Forbidden
                raise NotFound(_UNKNOWN)
            require_capability(acting, _needed(held))
            if user in known:
                require_no_more(known[user].capabilities, acting.capabilities)
            after = await self.written(uow, held, given, FieldWriter.ADMINISTRATOR, actor)
            await uow.commit()
        return after

    async def of_person(self, caller: Caller, slug: str | None = None) -> Sequence[KeptBy]:
        """Everything that the installation and the person's organizations keep of them by fields; of at most a hundred organizations."""
        return await self.lookup.read_all(caller.user, slug, MOST_KEEPERS)

    async def write_own(self, caller: Caller, slug: str | None, given: Mapping[str, Json], actor: Actor) -> KeptBy:
        """The person writes, for the organization with this slug, or for the installation. Raises `NotFound`, `BadRequest`."""
        keeper = await self._keeper(caller.user, slug)
        async with self.unit_of_work() as uow:
            held = found(await uow.profile_values.hold(caller.user, keeper.organization), _UNKNOWN)
            after = await self.written(uow, held, given, FieldWriter.PERSON, actor)
            await uow.commit()
        return KeptBy(keeper.organization, keeper.slug, keeper.name, after)

    async def written(self, uow: UnitOfWork, held: HeldPerson, given: Mapping[str, Json], writer: FieldWriter, actor: Actor) -> KeptValues:
        """Writes within the caller's unit of work, after `hold`. Raises `BadRequest`."""
        changed = changed_values(held.kept, given, writer)
        if not changed.keys:
            return held.kept
        now = self.clock.now()
        await uow.profile_values.save(held.user, held.organization, changed.values, now)
        await uow.record(values_changed(held.user, held.organization, changed.keys, writer, actor))
        return KeptValues(held.kept.fields, changed.values, now)

    async def asked(self, user: UserId, flow: Flow) -> Sequence[AskedFields]:
        """What a page of the sign-in has to ask the person in this flow."""
        slug = None if flow.purpose is FlowPurpose.ACCOUNT else flow.wanted.organization
        return await self.lookup.asked(user, slug, flow.service)

    async def answer(
        self, user: UserId, flow: Flow, asked: Sequence[AskedFields], given: Mapping[str, Mapping[str, Json]], actor: Actor
    ) -> None:
        """Keeps the answers, by the slugs of the keepers, and remembers that these fields were asked for. A required field without an
        answer is refused. Raises `BadRequest`, whose message begins with the key.
        """
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            for one in sorted(asked, key=lambda one: one.slug):
                answers = self._answers(one, given.get(one.slug, {}))
                held = await uow.profile_values.hold(user, one.organization)
                if held is None and answers and one.organization is not None and flow.service is not None:
                    # The first sign-in to a service of this organization would make the tie later in this flow.
                    await uow.profile_values.enter(user, one.organization, flow.service, now)
                    held = await uow.profile_values.hold(user, one.organization)
                if held is None:
                    continue
                await self.written(uow, held, answers, FieldWriter.PERSON, actor)
                await uow.profile_values.remember_asked(user, one.organization, [field.id for field in one.fields], now)
            await uow.flows.have_answered(flow.id)
            await uow.commit()

    def _answers(self, asked: AskedFields, given: Mapping[str, Json]) -> Mapping[str, Json]:
        answers: dict[str, Json] = {}
        for field in asked.fields:
            value = given.get(field.key)
            if not is_empty(field, value):
                answers[field.key] = value
            elif field.required:
                raise BadRequest(f"{field.key}: this field is required", words="field_required")
        return answers

    async def _keeper(self, user: UserId, slug: str | None) -> KeptBy:
        for one in await self.lookup.read_all(user, slug or "", 1):
            if one.slug == (slug or ""):
                return one
        raise NotFound("The installation has no fields" if slug is None else _NOT_YOURS)


class ProviderValues(Frozen):
    """Implements `ports.identity.realms.ProvidedFields`."""

    unit_of_work: UnitOfWorkFactory
    values: ProfileValues

    async def keep(self, user: UserId, organization: OrganizationId, provider: str, given: Mapping[str, Json]) -> None:
        """Writes what fits. A wrong value, a value without room, or a lock that takes too long never fails a sign-in."""
        try:
            async with self.unit_of_work() as uow:
                held = await uow.profile_values.hold(user, organization)
                if held is None:
                    return
                suitable, wrong = suitable_values(held.kept, given, FieldWriter.PROVIDER)
                if wrong:
                    log.warning("provider_values_ignored", organization=str(organization), provider=provider, keys=sorted(wrong))
                await self.values.written(uow, held, suitable, FieldWriter.PROVIDER, SYSTEM)
                await uow.commit()
        except Refusal as refusal:
            log.warning("provider_values_not_kept", organization=str(organization), provider=provider, reason=refusal.message)


def _needed(held: HeldPerson) -> Capability:
    return Capability.MEMBERS_MANAGE if held.is_member else Capability.END_USERS_MANAGE
