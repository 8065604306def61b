"""The store of the looks that organizations choose."""

from typing import Protocol

from core.domain.identifiers import LogoId, OrganizationId
from core.domain.tenancy.branding import OrganizationLook
from core.domain.tenancy.look_pictures import Logo, LookPicture


class LookStore(Protocol):
    """Outside a unit of work, `find` and `logo` are one statement and one round trip each. The other methods need a unit of work in
    which the caller has already locked the organization. Only PostgreSQL implements `LookStore`.
    """

    async def find(self, organization: OrganizationId) -> OrganizationLook | None:
        """None when there is no such organization."""

    async def logo(self, digest: str) -> Logo | None:
        """A picture of an active organization's looks, of one of its services, or of a further provider. None when none of them has one
        with this digest.
        """

    async def save(self, organization: OrganizationId, look: OrganizationLook) -> None:
        """Saves everything but the logo itself."""

    async def replace_picture(
        self,
        organization: OrganizationId,
        kind: LookPicture,
        picture: Logo | None,
        id: LogoId,  # noqa: A002 - the noun's own word
    ) -> None:
        """With None, removes the picture. What names a picture other than the logo is saved with the looks."""
