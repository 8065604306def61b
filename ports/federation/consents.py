"""Where consents are kept."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.oauth.consents import ApplicationAccess, Consent
from core.domain.identifiers import ConsentId, OrganizationId, ServiceId, UserId


class ConsentStore(Protocol):
    """Outside a unit of work, `list` is one statement and one round trip. The other methods need a unit of work. The account is held first:
    nobody takes anything back from the person's applications meanwhile. Only PostgreSQL implements it.
    """

    async def list(self, user: UserId) -> Sequence[ApplicationAccess]:
        """The applications that can act for this person, by the names of their organizations and their own."""

    async def give(self, id: ConsentId, consent: Consent) -> OrganizationId | None:  # noqa: A002 - the noun's own word
        """Adds to what the person has allowed the service before. Returns whose service it is; None when it is being deleted.
        When the account has ended, nothing is kept.
        """

    async def revoke(self, user: UserId, service: ServiceId) -> ApplicationAccess | None:
        """Ends the service's sessions for this person and the codes that it has not redeemed, too. Returns what there was. None when there
        was nothing.
        """

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else. Its sessions are ended by whoever does that."""
