"""The store of own texts."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId, OwnTextId
from core.domain.tenancy.texts.own_texts import KeptText


class OwnTextStore(Protocol):
    """None for the organization is the installation. Outside a unit of work, `list`, `hosts` and `languages` are one statement and one
    round trip each. The other methods need a unit of work. Those that change texts need one that holds the organization or, for the
    installation, the platform owners.
    """

    async def list(self, organization: OrganizationId | None) -> Sequence[KeptText]:
        """All of them, by language and key."""

    async def hosts(self, organization: OrganizationId) -> Sequence[str]:
        """The domains that the organization has proved, for people's pages or for their addresses."""

    async def put(self, texts: Sequence[KeptText]) -> None:
        """Each in place of the text of the same language and key."""

    async def remove(self, texts: Sequence[OwnTextId]) -> None: ...

    async def languages(self) -> Sequence[str]:
        """Those in which anybody has own texts."""

    async def claim_uncompared(self, language: str, version: str, limit: int) -> Sequence[KeptText]:
        """Own texts of the language, of anybody, that were not compared with this version of ours. Nobody else gets them meanwhile."""

    async def mark_compared(self, texts: Sequence[OwnTextId], outdated: Sequence[OwnTextId], version: str) -> None:
        """Beneath `outdated`, ours have changed; beneath the others of `texts`, they have not."""

    async def save_digest(self, organization: OrganizationId | None, digest: str | None) -> None:
        """What tells pages and mails that there are other texts now."""
