"""The store of terms, and of who has accepted them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, TermsId, UserId
from core.domain.identity.terms.terms import Acceptance, KeptTerms, OwnTerms, PendingTerms, TermsVersion


class TermsStore(Protocol):
    """Outside a unit of work, `list`, `in_force`, `own` and `pending` are one statement and one round trip each. The other methods need a
    unit of work.
    """

    async def list(self, organization: OrganizationId | None) -> Sequence[KeptTerms]:
        """All versions of one keeper, the newest first. None: the installation's."""

    async def in_force(self, organization: str) -> Sequence[PendingTerms]:
        """What somebody without an account would be asked for: the installation's, and those of the active organization with this slug."""

    async def own(self, user: UserId, named: str) -> OwnTerms:
        """What the person may accept and has not, and what they have accepted, the newest first. May accept: the terms of the installation,
        of active organizations to which they have a tie, and of the one with this slug, if one of its applications lets anybody in.
        """

    async def pending(self, user: UserId, organization: OrganizationId | None) -> Sequence[PendingTerms]:
        """What a sign-in that leads to this organization asks the person for."""

    async def due(self, user: UserId) -> datetime | None:
        """When the person must have accepted the installation's terms. None when nothing is missing."""

    async def hold(self, organization: OrganizationId | None) -> Sequence[TermsVersion]:
        """All versions of the keeper. Nobody else changes them until the unit of work ends, and for the installation, no organization is
        made meanwhile. For an organization, it is called after the organization is held.
        """

    async def set(self, terms: TermsVersion) -> None:
        """Puts the version in force, in place of the one before. Of the version in force, only the date changes."""

    async def withdraw(self, organization: OrganizationId | None, at: datetime) -> TermsVersion | None:
        """Ends the version in force, so that nobody is asked any more. None when there is none."""

    async def hold_version(self, user: UserId, organization: str) -> TermsVersion | None:
        """The version in force of this organization, or with an empty slug of the installation, which stays in force until the unit of work
        ends. None when nothing is in force, and when it is not the person's to accept.
        """

    async def hold_shown(self, terms: Sequence[TermsId]) -> Sequence[TermsVersion]:
        """Those that are in force, for somebody without an account. They stay so until the unit of work ends."""

    async def hold_own(self, user: UserId, terms: Sequence[TermsId], entered: OrganizationId | None) -> Sequence[TermsVersion]:
        """Those that are the person's to accept, or are of the organization that they enter. What is in force stays so until the unit of
        work ends.
        """

    async def accept(self, accepted: Sequence[Acceptance]) -> Sequence[TermsId]:
        """Returns the terms that the person had not accepted before."""

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else, who has accepted nothing."""
