"""Calls to destinations: those that tenants name, and those that the operator names."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from core.domain.outbound import OutboundDestination
from core.frozen import Frozen, field

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class Failure(StrEnum):
    """Why there was no answer. Tenants read the reason, so it tells nothing about what is behind an address that we do not call."""

    REFUSED = "address_not_allowed"
    UNRESOLVED = "name_not_found"
    UNREACHABLE = "connection_failed"
    TLS = "tls_failed"
    TIMEOUT = "timeout"
    MALFORMED = "malformed_answer"


class OutboundFailed(Exception):
    """`was_connected`: the destination has taken the connection, and failed later. Otherwise nobody has heard anything."""

    def __init__(self, failure: Failure, *, was_connected: bool = False) -> None:
        self.failure = failure
        self.was_connected = was_connected
        super().__init__(failure.value)


class OutboundRequest(Frozen):
    """A POST, unless the method that takes the request says otherwise."""

    destination: OutboundDestination
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class OutboundAnswer(Frozen):
    """An answer. The names of headers are in lower case. `body` is only the beginning of a long answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Outbound(Protocol):
    """A guarded HTTP client implements it. It refuses addresses that tenants must not reach."""

    def may_call(self, destination: OutboundDestination) -> bool:
        """False for an address that is never called. A host name that is permitted here may still lead to such an address later."""

    async def post(self, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - one deadline over all of it
        """Every answer of the receiver is returned, redirects too: they are not followed. The receiver may get the request twice, if it
        closes a kept connection while the request is on its way. Raises `OutboundFailed`.
        """

    async def get(
        self,
        destination: OutboundDestination,
        timeout: timedelta,  # noqa: ASYNC109 - as above
        *,
        most: int,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> OutboundAnswer:
        """Returns at most `most` bytes of the body, and one more byte if the body is longer. Raises `OutboundFailed`."""

    async def send(
        self,
        method: str,
        request: OutboundRequest,
        timeout: timedelta,  # noqa: ASYNC109 - as above
        *,
        most: int,
    ) -> OutboundAnswer:
        """By any method, and as long an answer as of `get`. A POST is sent once: where a kept connection is lost under it, nobody knows
        whether it arrived, and whoever makes something asks before the next try. Raises `OutboundFailed`.
        """


class TextRecords(Protocol):
    """The machine's name servers implement it; a test can."""

    async def texts(self, name: str) -> Sequence[str] | None:
        """The TXT records of this name. Empty when there is no such name. None when no name server answers."""


class OperatorsOutbound(Protocol):
    """A plain HTTP client implements it."""

    async def call(self, method: str, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - likewise
        """Calls a destination that the operator has named, which may be this very machine. Otherwise as `Outbound.post`."""
