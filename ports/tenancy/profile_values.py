"""The store of values: what an organization, or the installation, keeps of people by its fields."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ProfileFieldId, ServiceId, UserId
from core.domain.tenancy.profile_fields import FieldValue
from core.domain.tenancy.profile_values import AskedFields, HeldPerson, KeptBy


class ProfileValueStore(Protocol):
    """`organization` is None for what the installation keeps. Outside a unit of work, `read_tied`, `read_all` and `asked` are one statement
    and one round trip each. The other methods need a unit of work.
    """

    async def read_tied(self, user: UserId, organization: OrganizationId | None) -> HeldPerson | None:
        """Every declared field, with the values of a person who is tied to the organization: as a member, through its directory, or as a
        user of one of its services. Everybody who has an account is tied to the installation. None for anybody else.
        """

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
    ) -> None:
        """Saves all values of the person. After `hold`."""

    async def asked(self, user: UserId, slug: str | None, service: ServiceId | None) -> Sequence[AskedFields]:
        """The fields that a page has to ask the person for now: those of the installation, and those of the organization with this slug,
        whose service the flow leads to; without a slug, of every organization that the person is a member of by their own act.
        """

    async def enter(self, user: UserId, organization: OrganizationId, service: ServiceId, at: datetime) -> None:
        """Makes a person who has no tie to the organization a user of its service, if anybody may sign in there. The tie is no consent."""

    async def remember_asked(
        self, user: UserId, organization: OrganizationId | None, fields: Sequence[ProfileFieldId], at: datetime
    ) -> None:
        """No page asks the person for these fields again, unless they are required. After `hold`."""
