"""The store of the times of own notices."""

from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.tenancy.texts.notices import NoticeTimes


class NoticeStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. `save` needs a unit of work that holds the organization."""

    async def find(self, organization: OrganizationId) -> NoticeTimes | None:
        """None when there is no such organization."""

    async def save(self, organization: OrganizationId, times: NoticeTimes) -> None: ...
