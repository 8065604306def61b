"""The store of platform owners' approvals of own texts."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.platform.text_approvals import OrganizationTexts
from core.domain.texts.own_texts import ApprovalRules


class TextApprovalStore(Protocol):
    """Outside a unit of work, `list` and `rules` are one statement and one round trip each. The other methods need a unit of work that
    holds the platform owners.
    """

    async def list(self, limit: int, most_texts: int) -> Sequence[OrganizationTexts]:
        """Active organizations that have texts of their own: those without an approval first, of these the ones that wait longest. Behind
        `most_texts` texts, no further organization is listed.
        """

    async def hold(self, organization: OrganizationId) -> OrganizationTexts | None:
        """Without the texts themselves, which stay as they are until the unit of work ends. None when the organization has none, and no
        yes to former ones.
        """

    async def approve(self, organization: OrganizationId, version: str | None) -> None:
        """After `hold`. None takes an approval back."""

    async def rules(self) -> ApprovalRules: ...

    async def set_rules(self, rules: ApprovalRules) -> None:
        """Every process learns of it at once."""
