"""What a service may learn of a person besides the account."""

from typing import Protocol

from core.domain.claims import ServiceFacts
from core.domain.identifiers import ServiceId, UserId


class FactLookup(Protocol):
    """One round trip, outside any unit of work. Only PostgreSQL implements it, in the family `federation`, because the facts come from all
    families.
    """

    async def find(self, service: ServiceId, user: UserId) -> ServiceFacts:
        """The facts of a person or a service that is gone are empty."""
