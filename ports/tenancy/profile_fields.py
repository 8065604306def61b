"""The store of the fields that an organization, or the installation, has declared."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ProfileFieldId
from core.domain.tenancy.profile_fields import ProfileField


class ProfileFieldStore(Protocol):
    """`organization` is None for the fields of the installation. Outside a unit of work, `list` is one statement and one round trip. The
    other methods need a unit of work.
    """

    async def list(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        """All fields, by position and key."""

    async def hold_all(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        """All fields, by position and key. They stay as they are until the unit of work ends. A change of the installation's fields waits
        here for another one; who changes an organization's fields holds the organization.
        """

    async def add(self, field: ProfileField) -> bool:
        """False when the key is taken: of two callers, one gets False."""

    async def save(self, field: ProfileField) -> None:
        """Saves everything except key and kind. After `hold_all`."""

    async def delete(self, field: ProfileFieldId, at: datetime) -> None:
        """The field is gone at once. The job of `purge_job` removes its values. After `hold_all`."""
