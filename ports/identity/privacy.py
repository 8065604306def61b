"""The store of a person's data, for exports and for forgetting."""

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
    unit of work.
    """

    async def export(
        self, user: UserId, asker: PrivacyRequester, at: datetime, most: int
    ) -> tuple[Subject, Export, Sequence[ExportedLogin]] | None:
        """The person, and the part of their data that the asker may have, if any. The newest sign-ins come along: one page, `most` at most.
        None when there is no such account.
        """

    async def logins(self, user: UserId, scope: Scope, before: LoginEventId, limit: int) -> Sequence[ExportedLogin]:
        """The sign-ins and attempts before this one, newest first."""

    async def request(self, request: PrivacyRequestId) -> PrivacyRequest | None: ...

    async def user(self, email: Email) -> UserId | None:
        """The person who has this address."""

    async def hold(self, user: UserId, asker: PrivacyRequester, at: datetime) -> Subject | None:
        """Until the unit of work ends, nobody signs in with the account, or becomes a member or a platform owner with it. None when there
        is no such account.
        """

    async def anonymize(self, request: PrivacyRequest, placeholder: Email) -> None:
        """After `hold`. The account can no longer sign in and has no address. Its credentials and sessions are gone, and the newest entries
        of each log say nothing of it. The job does the rest, which no read shows meanwhile. Raises `PlaceholderTaken`, at the latest with
        the commit.
        """
