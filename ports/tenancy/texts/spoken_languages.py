"""The store of the languages that organizations choose."""

from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.tenancy.texts.spoken_languages import SpokenLanguages


class SpokenLanguageStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. `save` needs a unit of work in which the caller has already
    locked the organization. Only PostgreSQL implements `SpokenLanguageStore`.
    """

    async def find(self, organization: OrganizationId) -> SpokenLanguages | None:
        """None when there is no such organization."""

    async def save(self, organization: OrganizationId, spoken: SpokenLanguages) -> None: ...
