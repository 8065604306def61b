"""The store of logout notices. The statements that end sessions write them."""

from typing import Protocol

from core.domain.federation.logout.logout_notices import LogoutNotice
from core.domain.identifiers import ClientId, OrganizationId
from core.domain.pages import Listed, Page
from core.domain.signing_keys import TokenAlgorithm
from ports.record.deliveries import ClaimedReceiver


class ClaimedService(ClaimedReceiver, kw_only=True):
    client: ClientId
    algorithm: TokenAlgorithm


class LogoutNoticeLookup(Protocol):
    """Outside any unit of work."""

    async def list(self, organization: OrganizationId, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice] | None:
        """Newest first. The total is counted up to `MOST_COUNTED`. None when the organization has no such service."""
