"""The store of mailed tokens."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import FlowId, SessionId, UserId
from core.domain.identity.mailed_tokens import MailedToken, MailedTokenPurpose


class MailedTokenStore(Protocol):
    """All methods need a unit of work."""

    async def issue(self, token: MailedToken, asked_at: datetime | None = None) -> None:
        """Earlier unused tokens of the same person and purpose end. If there is no account of this id, no token is issued, by the same
        work. Nor is one for an account that is deactivated, unless somebody has asked for it after the deactivation.
        """

    async def find(self, digest: bytes, purposes: Collection[MailedTokenPurpose]) -> MailedToken | None:
        """Finds used and expired tokens too, as long as they are kept. None when no token with these purposes has the digest."""

    async def redeem(self, digest: bytes, purposes: Collection[MailedTokenPurpose], at: datetime) -> MailedToken | None:
        """None when the token is unknown, expired or used: of two callers, one gets None."""

    async def try_codes(self, flow: FlowId, purpose: MailedTokenPurpose, at: datetime) -> Sequence[MailedToken]:
        """Counts a try of each code that this flow was mailed for the purpose, and returns the links of those that had a try left. However
        many try at once, no code is returned more than `MOST_CODE_TRIES` times. A link that was used a moment ago comes along, so that a
        form that is sent twice is no error. The commit writes for every flow that there is, whether or not it was mailed a code.
        """

    async def try_proof(self, session: SessionId, user: UserId, at: datetime) -> MailedToken | None:
        """Counts a try of the code that was mailed to prove this session of the person's. None when there is no such code, when it has been
        used or had its tries, and when the account has another address by now, or none that is proved.
        """

    async def end(self, user: UserId, purpose: MailedTokenPurpose, at: datetime) -> None:
        """Links of this purpose that were mailed to this person stop working. May be repeated."""

    async def end_all(self, user: UserId, at: datetime) -> None:
        """As `end`, for every purpose."""
