"""The store of values: what an organization, or the installation, keeps of people by its fields."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ProfileFieldId, UserId
from core.domain.tenancy.profile_fields import FieldValue, KeptValues
from core.domain.tenancy.profile_values import AskedFields, HeldPerson, KeptBy


class ProfileValueStore(Protocol):
    """`organization` is None for what the installation keeps. Outside a unit of work, `read`, `read_tied`, `read_all` and `asked` are one
    statement and one round trip each. The other methods need a unit of work. Only PostgreSQL implements it.
    """

    async def read(self, user: UserId, organization: OrganizationId | None) -> KeptValues:
        """Every declared field, with the person's values. The caller has made sure that the person may be told, or is tied to the
        organization.
        """

    async def read_tied(self, user: UserId, organization: OrganizationId) -> HeldPerson | None:
        """The same, for a person who is a member of the organization or uses one of its services. None for anybody else."""

    async def read_all(self, user: UserId, slug: str | None, most: int) -> Sequence[KeptBy]:
        """What the installation keeps of the person, and then, by slug, every organization of theirs that has fields; with a slug, only
        this organization. Keepers without fields are left out.
        """

    async def hold(self, user: UserId, organization: OrganizationId | None) -> HeldPerson | None:
        """The account, the person's ties to the organization, the fields and the values stay as they are until the unit of work ends. None
        for a person who does not exist, was forgotten, or has no tie to the organization.
        """

    async def save(
        self, user: UserId, organization: OrganizationId | None, values: Mapping[ProfileFieldId, FieldValue], at: datetime
    ) -> int:
        """Saves all values of the person. Returns their size in bytes. After `hold`."""

    async def asked(self, user: UserId, slug: str | None) -> Sequence[AskedFields]:
        """The fields that a page has to ask the person for now: those of the installation, and those of the organization with this slug,
        which the flow leads to; without a slug, of every organization that the person is a member of.
        """

    async def remember_asked(
        self, user: UserId, organization: OrganizationId | None, fields: Sequence[ProfileFieldId], at: datetime
    ) -> None:
        """No page asks the person for these fields again, unless they are required. After `hold`."""
