"""What is kept about a person, to be shown and to be forgotten."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import LoginEventId, PrivacyRequestId, UserId
from core.domain.identity.privacy import Export, ExportedLogin, PrivacyRequest, PrivacyRequester, Scope, Subject


class PlaceholderTaken(Exception):
    """Another account has this address. The unit of work is over."""


class PrivacyStore(Protocol):
    """Outside a unit of work, `export`, `logins`, `request` and `user` are one statement and one round trip each. The other methods need a
    unit of work. Only PostgreSQL implements it.
    """

    async def export(
        self, user: UserId, asker: PrivacyRequester, at: datetime, most: int
    ) -> tuple[Subject, Export, Sequence[ExportedLogin]] | None:
        """The person, and what the asker may have of their data, if anything, with the newest sign-ins: one page of them, and at most this
        many. None when there is no such account.
        """

    async def logins(self, user: UserId, scope: Scope, before: LoginEventId, limit: int) -> Sequence[ExportedLogin]:
        """The sign-ins, and tries, before this one: newest first."""

    async def request(self, request: PrivacyRequestId) -> PrivacyRequest | None: ...

    async def user(self, email: Email) -> UserId | None:
        """Whose address it is."""

    async def hold(self, user: UserId, asker: PrivacyRequester, at: datetime) -> Subject | None:
        """Nobody signs in with the account, becomes a member or a platform owner with it, until the unit of work ends. None when there is
        no such account.
        """

    async def anonymize(self, request: PrivacyRequest, placeholder: Email) -> None:
        """After `hold`. The account can no longer sign in and has no address, its credentials and sessions are gone, and so is what the
        newest entries of each log say of it. What no read shows meanwhile is left to the job. Raises `PlaceholderTaken`, at the latest with
        the commit.
        """
