"""Fields of the installation and of organizations: declared, changed and deleted."""

from collections.abc import Sequence
from typing import Final

from core.domain.changes import UNCHANGED, Unchanged
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import OrganizationId, ProfileFieldId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import (
    ANYTHING,
    MOST_FIELDS,
    FieldKind,
    FieldPrompt,
    FieldRule,
    FieldWriter,
    ProfileField,
    checked_field,
    field_created,
    field_deleted,
    field_updated,
    purge_job,
)
from core.domain.tenancy.roles import Capability, require_grantable
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_rights
from ports.system import System
from ports.tenancy.profile_fields import ProfileFieldStore
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
