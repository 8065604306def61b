"""The store of what an account has whose address only an organization's own provider has vouched for."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.upstream.vouching import AddedWay


class VouchedAccountStore(Protocol):
    """Outside a unit of work, `added` is one statement and one round trip."""

    async def added(self, user: UserId, session: SessionId) -> Sequence[AddedWay]:
        """The ways into the account and its second factor, except those that were made in this session, or that opened it."""
