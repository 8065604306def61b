"""What the database holds of an installation's configuration, and the marks that say which objects a document manages."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import ManagementKeyId, UserId
from core.domain.json import Json
from core.domain.platform.configuration.marks import ManagedMark
from core.domain.platform.configuration.object_places import ObjectPlace
from core.frozen import Frozen


class StoredObject(Frozen, kw_only=True):
    """One object as it is stored, without its secrets."""

    place: ObjectPlace
    id: str
    fields: Mapping[str, Json]
    people: int = 0
    is_directorys: bool = False


class ConfigurationReader(Protocol):
    """Each method is one statement."""

    async def slugs(self) -> Sequence[str]:
        """The slugs of all organizations, sorted."""

    async def objects(self, kind: str, organizations: Collection[str] | None) -> Sequence[StoredObject]:
        """The objects of one kind, in these organizations or in all. The installation's own objects ignore the organizations."""

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        """The ids of those services or teams of the organization that have these slugs."""

    async def lately(self, organization: str, service: str, since: datetime) -> int:
        """How many people have signed in to the service since then."""


class ManagedMarks(Protocol):
    """Which objects documents manage. Each method is one statement."""

    async def replace(
        self, organization: str, kinds: Sequence[str], marks: Sequence[ManagedMark], person: UserId | None, key: ManagementKeyId | None
    ) -> None:
        """Sets the marks of these kinds of one organization, or of the installation for an empty slug. Earlier marks of these kinds go.
        `person` or `key` has applied the document; an operator is neither. Nothing happens if the organization is gone.
        """

    async def find(self, organization: str, service: str, kind: str, id: str) -> ManagedMark | None:  # noqa: A002 - the noun's own word
        """The mark of the object that endpoints name by this id. None if no document manages the object."""

    async def list(self, organization: str) -> Sequence[ManagedMark]:
        """All marks of the organization, or of the installation for an empty slug, in the order of places."""
