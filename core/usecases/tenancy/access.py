"""Access: who may do what in an organization, and why. For operators who have to explain it."""

from core.domain.email import Email
from core.domain.errors import NotFound
from core.domain.tenancy.access import Accessor
from core.frozen import Frozen
from ports.tenancy.relations import RelationLookup


class AccessExplainer(Frozen):
    lookup: RelationLookup

    async def explain(self, email: Email, slug: str) -> Accessor:
        """How this person stands to this organization. Raises `NotFound` when either does not exist."""
        found = await self.lookup.find(email, slug)
        if found is None:
            raise NotFound(f"There is no account {email}, or no organization {slug}")
        return found
