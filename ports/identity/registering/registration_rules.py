"""Where rules of registration are read, and the list of throw-away mail domains."""

from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId
from core.domain.identity.registering.registration_rules import RegistrationRule
from core.frozen import Frozen


class ArrivalAtRule(Frozen, kw_only=True):
    """What counts for somebody who comes from a provider with a proved address."""

    rule: RegistrationRule | None
    """The organization's. None without an organization."""
    invited: bool
    """An invitation of an active organization to this address waits."""
    invited_here: bool
    """One of this organization does."""


class RegistrationRules(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, organization: str) -> RegistrationRule | None:
        """The rule of the organization with this slug. None when there is none."""

    async def of_arrival(self, organization: OrganizationId | None, email: Email) -> ArrivalAtRule: ...


class ThrowawayDomains(Protocol):
    def knows(self, domain: str) -> bool:
        """Whether the domain, or one above it, lends mailboxes to anybody for a while. The domain is in ASCII, as name servers know it."""
