"""Declares profile fields of an installation or organization, and reads and writes their values."""

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound, Refusal, found
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ProfileFieldId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowPurpose
from core.domain.record.events import SYSTEM, Actor
from core.domain.requests import UNCHANGED, Unchanged
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import (
    ANYTHING,
    MOST_FIELDS,
    FieldKind,
    FieldPrompt,
    FieldRule,
    FieldWriter,
    KeptValues,
    ProfileField,
    changed_values,
    checked_field,
    field_created,
    field_deleted,
    field_updated,
    is_empty,
    purge_job,
    suitable_values,
    values_changed,
)
from core.domain.tenancy.profile_values import MOST_KEEPERS, AskedFields, HeldPerson, KeptBy
from core.domain.tenancy.roles import Capability, require_grantable, require_no_more
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_members, hold_rights, require_capability
from ports.system import Clock, System
from ports.tenancy.organizations import ProfileFieldStore, ProfileValueStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class FieldWish(Frozen, kw_only=True):
    """What a request says of a field. What is left out stays as it is, or gets its usual value."""

    label: str | None = None
    rule: FieldRule | None = None
    written_by: frozenset[FieldWriter] | None = None
    scope: str | Unchanged | None = UNCHANGED
    required: bool | None = None
    asked_at: FieldPrompt | Unchanged | None = UNCHANGED
    position: int | None = None

    def applied(self, field: ProfileField) -> ProfileField:
        return replace(
            field,
            label=field.label if self.label is None else self.label,
            rule=field.rule if self.rule is None else self.rule,
            written_by=field.written_by if self.written_by is None else self.written_by,
            scope=field.scope if isinstance(self.scope, Unchanged) else self.scope,
            required=field.required if self.required is None else self.required,
            asked_at=field.asked_at if isinstance(self.asked_at, Unchanged) else self.asked_at,
            position=field.position if self.position is None else self.position,
        )


NOTHING: Final = FieldWish()


class ProfileFields(Frozen):
    """`member` is None for a platform owner, who governs the fields of the installation. Every change of an organization's fields locks the
    organization and checks the caller's rights again.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: ProfileFieldStore
    system: System

    async def list(self, member: Member | None) -> Sequence[ProfileField]:
        """All fields, by position and key."""
        return await self.lookup.list(_organization(member))

    async def written_by(self, organization: OrganizationId, writer: FieldWriter) -> Sequence[ProfileField]:
        """The organization's fields that this writer may write, by position and key."""
        return [field for field in await self.lookup.list(organization) if field.is_written_by(writer)]

    async def create(self, member: Member | None, key: str, kind: FieldKind, wish: FieldWish, actor: Actor) -> ProfileField:
        """Declares a field. Without a position, the field comes last. Raises `BadRequest`, also for the fifty-first field, `Conflict` when
        the key is taken, and `Forbidden` when claims are made of such a field and the caller may not manage them.
        """
        now = self.system.clock.now()
        wanted = wish.applied(
            ProfileField(
                id=ProfileFieldId(self.system.ids.new()),
                organization=_organization(member),
                key=key,
                label="",
                kind=kind,
                rule=ANYTHING,
                written_by=frozenset({FieldWriter.ADMINISTRATOR}),
                created_at=now,
                updated_at=now,
            )
        )
        field = checked_field(wanted)
        async with self.unit_of_work() as uow:
            known, held = await _held(uow, member)
            if len(known) >= MOST_FIELDS:
                raise BadRequest(f"At most {MOST_FIELDS} fields: delete one first", words="limit_reached", values={"most": MOST_FIELDS})
            if wish.position is None:
                field = replace(field, position=max((one.position for one in known), default=-1) + 1)
                field = checked_field(field)
            # Claims outlive the fields that they are made of.
            await _require_writers(uow, field, field.written_by, held)
            if not await uow.profile_fields.add(field):
                raise Conflict("There is already a field with this key", words="short_name_taken")
            await uow.record(field_created(field, actor))
            await uow.commit()
        return field

    async def change(self, member: Member | None, key: str, wish: FieldWish, actor: Actor) -> ProfileField:
        """Values that the new bounds no longer allow stay until somebody writes them. Raises `BadRequest`, `NotFound`, and `Forbidden` when
        claims are made of the field, further writers are added, and the caller may not manage claims.
        """
        if wish == NOTHING:
            raise BadRequest(
                "Send at least one of label, rule, written_by, scope, required, asked_at and position", words="nothing_to_change"
            )
        async with self.unit_of_work() as uow:
            known, held = await _held(uow, member)
            before = _found(known, key)
            after = checked_field(wish.applied(before))
            if after == before:
                return before
            await _require_writers(uow, after, after.written_by - before.written_by, held)
            after = replace(after, updated_at=self.system.clock.now())
            await uow.profile_fields.save(after)
            await uow.record(field_updated(before, after, actor))
            await uow.commit()
        return after

    async def delete(self, member: Member | None, key: str, actor: Actor) -> None:
        """The field and its values are gone from every answer at once; a job removes the values. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            known, _ = await _held(uow, member)
            field = _found(known, key)
            await uow.profile_fields.delete(field.id, self.system.clock.now())
            await uow.jobs.add(purge_job(field.id))
            await uow.record(field_deleted(field, actor))
            await uow.commit()


def _organization(member: Member | None) -> OrganizationId | None:
    return None if member is None else member.organization


async def _held(uow: UnitOfWork, member: Member | None) -> tuple[Sequence[ProfileField], frozenset[Capability]]:
    """The fields, and what the caller may do in the organization."""
    held: frozenset[Capability] = frozenset() if member is None else await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
    return await uow.profile_fields.hold_all(_organization(member)), held


async def _require_writers(uow: UnitOfWork, field: ProfileField, added: frozenset[FieldWriter], held: frozenset[Capability]) -> None:
    """An application may draw rights from a claim. So whoever lets others write the claim's field must be able to manage the claim."""
    if added and field.organization is not None and await uow.service_claims.is_made_of(field.organization, field.key):
        require_grantable({Capability.SERVICES_MANAGE}, held)


def _found(known: Sequence[ProfileField], key: str) -> ProfileField:
    for field in known:
        if field.key == key:
            return field
    raise NotFound("There is no such field")


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
    """Implements `ports.identity.sign_in.ProvidedFields`."""

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
