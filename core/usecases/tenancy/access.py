"""Access: shows operators a person's rights in an organization, and the reasons."""

from core.domain.email import Email
from core.domain.errors import found
from core.domain.tenancy.access import Accessor
from core.frozen import Frozen
from ports.tenancy.relations import RelationLookup


class AccessExplainer(Frozen):
    lookup: RelationLookup

    async def explain(self, email: Email, slug: str) -> Accessor:
        """Returns this person's rights in this organization. Raises `NotFound` when either does not exist."""
        return found(await self.lookup.find(email, slug), f"There is no account {email}, or no organization {slug}")
