"""Calls to destinations: those that tenants have named, and those that the operator has."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from core.domain.outbound.destinations import OutboundDestination
from core.frozen import Frozen, field

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class Failure(StrEnum):
    """Why there was no answer. A tenant reads it, so it tells nothing about what is behind an address that we do not call."""

    REFUSED = "address_not_allowed"
    UNRESOLVED = "name_not_found"
    UNREACHABLE = "connection_failed"
    TLS = "tls_failed"
    TIMEOUT = "timeout"
    MALFORMED = "malformed_answer"


class OutboundFailed(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.value)


class OutboundRequest(Frozen):
    """A POST, unless something else is said."""

    destination: OutboundDestination
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class OutboundAnswer(Frozen):
    """The names of headers are in lower case. `body` is the beginning of the answer, if that is long."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Outbound(Protocol):
    def may_call(self, destination: OutboundDestination) -> bool:
        """False for an address that is never called. A name may still turn out to lead to one."""

    async def post(self, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - one deadline over all of it
        """Any answer is an answer, redirects too: they are not followed. The receiver may get the request twice, when it closes a kept
        connection while the request is on its way. Raises `OutboundFailed`.
        """

    async def get(
        self,
        destination: OutboundDestination,
        timeout: timedelta,  # noqa: ASYNC109 - as above
        *,
        most: int,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> OutboundAnswer:
        """Up to `most` bytes of it; one more tells that there are more. Raises `OutboundFailed`."""


class TextRecords(Protocol):
    async def texts(self, name: str) -> Sequence[str] | None:
        """What TXT records the DNS has under this name; empty when there is no such name. None when no name server says."""


class OperatorsOutbound(Protocol):
    async def call(self, method: str, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:  # noqa: ASYNC109 - likewise
        """To a destination that the operator has named, which may be this very machine. Otherwise as above."""
