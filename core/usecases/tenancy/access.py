"""Access: shows operators a person's rights in an organization, and the reasons."""

from core.domain.email import Email
from core.domain.errors import NotFound
from core.domain.tenancy.access import Accessor
from core.frozen import Frozen
from ports.tenancy.relations import RelationLookup


class AccessExplainer(Frozen):
    lookup: RelationLookup

    async def explain(self, email: Email, slug: str) -> Accessor:
        """Returns this person's rights in this organization. Raises `NotFound` when either does not exist."""
        found = await self.lookup.find(email, slug)
        if found is None:
            raise NotFound(f"There is no account {email}, or no organization {slug}")
        return found
