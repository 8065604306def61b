"""The one group of a directory: the organization, whose members it adds and removes."""

from collections.abc import Collection, Mapping, Sequence

from core.domain.changes import Unchanged
from core.domain.errors import NotFound
from core.domain.federation.scim.errors import InvalidValue
from core.domain.federation.scim.filters import Filter, FilterField, FilterValue, comparisons, holds
from core.domain.federation.scim.groups import GroupChange, compared_member, group_external_id_changed, moves, require_same
from core.domain.federation.scim.resources import group_version, require_version
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.federation.scim.users import ReasonForLeaving, listing_changed
from core.domain.identifiers import UserId
from core.domain.record.events import Actor, Event
from core.frozen import Frozen, replace
from core.usecases.federation.scim.changes import Changes
from core.usecases.federation.scim.enrolment import Enrolment
from ports.federation.scim.users import FoundGroup, ProvisionedUserStore, Touched
from ports.system import System
from ports.unit_of_work import UnitOfWork

_UNKNOWN = "There is no such group"


class ScimGroups(Frozen):
    changes: Changes
    lookup: ProvisionedUserStore
    members_address: str
    system: System

    async def get(self, holder: ScimHolder, *, with_members: bool) -> FoundGroup:
        """Raises `NotFound`."""
        return await self._found(holder, with_members=with_members)

    async def list(self, holder: ScimHolder, wanted: Filter | None, *, with_members: bool) -> Sequence[FoundGroup]:
        """The group, unless the filter leaves it out."""
        asked = [one for one in comparisons(wanted) if one.field is FilterField.MEMBER] if wanted is not None else []
        members = [user for one in asked if (user := compared_member(one)) is not None]
        found = await self._found(holder, members=members, with_members=with_members)
        if wanted is not None:
            values: Mapping[FilterField, Collection[FilterValue]] = {
                FilterField.ID: {str(found.group.id)},
                FilterField.DISPLAY_NAME: {found.group.name},
                FilterField.EXTERNAL_ID: {found.group.external_id} if found.group.external_id is not None else (),
                FilterField.MEMBER: {one.value for one in asked if compared_member(one) in found.included},
            }
            if not holds(wanted, values):
                return ()
        return (found,)

    async def change(self, holder: ScimHolder, asked: GroupChange, version: str | None, actor: Actor, *, with_members: bool) -> FoundGroup:
        """Applies the whole change or nothing. Raises `NotFound`, `PreconditionFailed`, `Forbidden` when the change would remove a person
        who may do more than a member, `InvalidValue` for people whom the directory does not know, `Mutability`, `TeamLimitExceeded`.
        """
        async with self.changes.one(holder) as uow:
            touched = await uow.provisioned_users.hold_group(holder.organization, asked)
            if touched is None:
                raise NotFound(_UNKNOWN)
            require_version(version, group_version(touched.group))
            require_same(asked, touched.group)
            if touched.known < len(asked.plus):
                raise InvalidValue("members: the organization has no user with one of these ids; create the user first")
            events = await self._carry_out(uow, holder, asked, touched, actor)
            if events:
                await uow.record_all(events)
                await uow.commit()
        return await self._found(holder, with_members=with_members)

    async def _carry_out(self, uow: UnitOfWork, holder: ScimHolder, change: GroupChange, touched: Touched, actor: Actor) -> Sequence[Event]:
        now = self.system.clock.now()
        move = moves(change, touched.users.values())
        for one in (*move.leaving, *move.entering, *move.listed, *move.unlisted):
            one.require_scims()
        enrolment = Enrolment(uow, self.system.ids, holder, actor, now)
        events: list[Event] = []
        if move.leaving:
            events += await enrolment.leave(move.leaving, ReasonForLeaving.LEFT_GROUP)
        if move.entering:
            capacity = replace(touched.capacity, members=touched.capacity.members - len(move.leaving))
            events += await enrolment.enter(capacity, move.entering)
        for people, is_listed in ((move.listed, True), (move.unlisted, False)):
            if people:
                await uow.provisioned_users.list_in_group(holder.organization, [one.user.id for one in people], now, listed=is_listed)
                events += [listing_changed(one.user.id, holder, actor) for one in people]
        written = [one.user.id for one in (*move.leaving, *move.entering, *move.listed, *move.unlisted)]
        if written:
            await uow.provisioned_users.list_by(holder.token, holder.organization, written)
        if not isinstance(change.external_id, Unchanged) and change.external_id != touched.group.external_id:
            await uow.provisioned_users.save_group(holder.organization, change.external_id, now)
            events.append(group_external_id_changed(holder.organization, actor))
        return events

    async def _found(self, holder: ScimHolder, *, members: Sequence[UserId] = (), with_members: bool) -> FoundGroup:
        found = await self.lookup.group(holder.organization, self.members_address if with_members else None, members)
        if found is None:
            raise NotFound(_UNKNOWN)
        return found
