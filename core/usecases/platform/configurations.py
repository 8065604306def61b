"""Configurations: what is set in an installation, by the places of documents, and which objects documents manage."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from core.domain.identifiers import ManagementKeyId, OrganizationId, UserId
from core.domain.platform.configuration.marks import ManagedMark, digest_of
from core.domain.platform.configuration.object_places import ObjectPlace
from core.domain.platform.configuration.planning import Change, PlannedAction, Present, document_planned
from core.domain.record.events import Actor
from core.frozen import Frozen
from ports.clock import Clock
from ports.platform.configurations import ConfigurationReader, ManagedMarks, StoredObject
from ports.unit_of_work import UnitOfWorkFactory

LATELY: Final = timedelta(days=7)


class Loss(Frozen):
    """Something that a change ends."""

    place: ObjectPlace
    what: str
    """Empty for the object itself. Otherwise the value that goes: a redirect URI."""
    people: int
    """How many people use or hold it. Of a redirect URI: how many signed in to its service in the last seven days."""


class Configurations(Frozen):
    reader: ConfigurationReader
    marks: ManagedMarks
    unit_of_work: UnitOfWorkFactory
    clock: Clock

    async def slugs(self) -> Sequence[str]:
        return await self.reader.slugs()

    async def stored(self, kinds: Sequence[str], organizations: Collection[str] | None) -> Sequence[StoredObject]:
        """The objects of these kinds, in these organizations or in all."""
        return [one for kind in kinds for one in await self.reader.objects(kind, organizations)]

    def present(self, stored: Sequence[StoredObject]) -> Mapping[ObjectPlace, Present]:
        """The objects as a plan knows them."""
        return {
            one.place: Present(
                fields=one.fields,
                id=one.id,
                people=one.people,
                is_directorys=one.is_directorys,
            )
            for one in stored
        }

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        """The ids of those services or teams of the organization that have these slugs."""
        return await self.reader.ids(kind, organization, slugs) if slugs else {}

    async def losses(self, changes: Sequence[Change]) -> Sequence[Loss]:
        """What the changes would end, and for how many people."""
        found = []
        for change in changes:
            if change.act is PlannedAction.END:
                found.append(Loss(change.place, "", change.people))
            for gone in removed_addresses(change):
                since = self.clock.now() - LATELY
                found.append(Loss(change.place, gone, await self.reader.lately(change.place.organization, change.place.name, since)))
        return found

    async def note_plan(self, organization: OrganizationId, secrets: Sequence[str], actor: Actor) -> None:
        """Records that somebody planned a document with secrets, by the places of these in the document."""
        async with self.unit_of_work() as uow:
            await uow.record(document_planned(organization, secrets, actor))
            await uow.commit()

    async def mark(
        self,
        organization: str,
        kinds: Sequence[str],
        named: Mapping[ObjectPlace, Sequence[str]],
        present: Mapping[ObjectPlace, Present],
        document: str,
        *,
        person: UserId | None,
        key: ManagementKeyId | None,
    ) -> None:
        """From now on, the document manages these objects of the organization, and no others of these kinds there. `named` has the fields
        that it sets.
        """
        now = self.clock.now()
        marks = [
            ManagedMark(
                place=place,
                id=present[place].id,
                document=document,
                fields=digest_of({name: present[place].fields.get(name) for name in names}),
                named=tuple(names),
                at=now,
                by="",
            )
            for place, names in named.items()
            if place in present and place.kind in kinds
        ]
        await self.marks.replace(organization, kinds, marks, person, key)

    async def managed(self, organization: str, service: str, kind: str, id: str) -> ManagedMark | None:  # noqa: A002 - the noun's own word
        """None if no document manages the object."""
        return await self.marks.find(organization, service, kind, id)

    async def all_managed(self, organization: str) -> Sequence[ManagedMark]:
        """The marks of an organization, or of the installation for an empty slug."""
        return await self.marks.list(organization)


def removed_addresses(change: Change) -> Sequence[str]:
    """The redirect URIs that a change of a service takes away."""
    for one in change.fields if change.act is PlannedAction.CHANGE else ():
        if one.name == "redirect_uris" and isinstance(one.before, Sequence) and isinstance(one.after, Sequence):
            kept = set(map(str, one.after))
            return [str(uri) for uri in one.before if str(uri) not in kept]
    return ()
