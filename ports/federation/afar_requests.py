"""The store of requests from afar, until they expire, and of the applications that people want to hear no more of."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.audiences import TokenAudience
from core.domain.federation.afar.afar_requests import NewAfarRequest, OwnRequests, PolledRequest, WaitingRequest
from core.domain.identifiers import AfarRequestId, ServiceId, SessionId, UserId


class AfarRequestStore(Protocol):
    """Outside a unit of work, `poll`, `list_own`, `find_waiting` and `find_to_tell` are one statement and one
    round trip each. The other methods need a unit of work; `allow`, `refuse`, `consume`, `block` and `unblock` one in which the caller has
    already locked the account of the person. Only PostgreSQL implements `AfarRequestStore`.

    A request waits for its person while it has not expired, nobody has decided about it, its organization lets applications ask, the person
    is an own member of it, and has not blocked the application.
    """

    async def add(self, new: NewAfarRequest) -> bool:
        """Adds the request for the person whom its hint names, if this is an own member who may be asked, and for nobody otherwise: always
        one row, by one statement. False when the organization does not let its applications ask.
        """

    async def poll(self, digest: bytes, service: ServiceId, at: datetime) -> PolledRequest | None:
        """The request of this service. A poll of a pending one is recorded. If the poll came too soon, all further polls have to wait
        longer.
        """

    async def list_own(self, user: UserId) -> OwnRequests:
        """Those that wait for this person, and the applications that the person has blocked."""

    async def find_waiting(self, user: UserId, request: AfarRequestId) -> WaitingRequest | None: ...

    async def find_to_tell(self, request: AfarRequestId) -> WaitingRequest | None:
        """The request, if it waits for anybody."""

    async def allow(self, request: AfarRequestId, user: UserId, session: SessionId, granted: Sequence[TokenAudience], at: datetime) -> bool:
        """The person says yes, in this session. Of several callers at once, one gets True. False when the request waits no more, or the
        session has ended.
        """

    async def refuse(self, request: AfarRequestId, user: UserId, at: datetime) -> bool:
        """False when the request waits no more."""

    async def consume(self, request: AfarRequestId, at: datetime) -> bool:
        """Of many callers at once, one gets True, and only while everything stands that the yes rests on."""

    async def block(self, user: UserId, service: ServiceId, at: datetime) -> bool:
        """Refuses all requests of the service that wait for the person. False when the person has blocked it before."""

    async def unblock(self, user: UserId, service: ServiceId) -> bool:
        """False when the person has not blocked it."""
