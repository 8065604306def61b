"""Where flows are kept."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import FlowId, PreauthenticationId, SessionId, UserId
from core.domain.identity.flows import Flow


class FlowStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. The other methods need a unit of work. Only PostgreSQL implements
    it.
    """

    async def find(self, flow: FlowId, browser_digest: bytes) -> Flow | None:
        """With the branding of its organization. None when it has expired, or is another browser's, or there is none."""

    async def add(self, flow: Flow, browser_digest: bytes) -> None: ...

    async def name(self, flow: FlowId, email: str) -> None:
        """The address that the person gave last; an unfinished sign-in with another one is forgotten."""

    async def await_second_factor(self, flow: FlowId, user: UserId, preauthentication: PreauthenticationId) -> None: ...

    async def sign_in(
        self, flow: FlowId, user: UserId, proof_digest: bytes, session: SessionId, at: datetime, *, by: str, provider: str = ""
    ) -> None:
        """The person has signed in by this flow, in this way, to this session, and through this provider, if one vouched for them. The last
        look has found that nobody had. Needs no round trip of its own.
        """

    async def complete(self, flow: FlowId, at: datetime, *, refused: bool = False) -> bool:
        """The flow has led where it should, once. Of two at once, one gets True. `refused`: the person did not want to."""
