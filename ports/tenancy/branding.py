"""The store of the looks that organizations choose."""

from typing import Protocol

from core.domain.identifiers import LogoId, OrganizationId
from core.domain.tenancy.branding import Logo, OrganizationLook


class LookStore(Protocol):
    """Outside a unit of work, `find` and `logo` are one statement and one round trip each. The other methods need a unit of work in
    which the caller has already locked the organization. Only PostgreSQL implements `LookStore`.
    """

    async def find(self, organization: OrganizationId) -> OrganizationLook | None:
        """None when there is no such organization."""

    async def logo(self, digest: str) -> Logo | None:
        """The logo of an active organization, or of a further provider. None when none of them has a logo with this digest."""

    async def save(self, organization: OrganizationId, look: OrganizationLook) -> None: ...

    async def replace_logo(self, organization: OrganizationId, logo: Logo | None, id: LogoId) -> None:  # noqa: A002 - the noun's own word
        """With None, removes the logo."""
