"""Explains a failed fetch to the person who gave the address."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from core.domain.errors import BadRequest
from ports.outbound import Failure, OutboundFailed

_WHY: Final[Mapping[Failure, str]] = {
    Failure.REFUSED: "this IP address is not public, and the operator of this installation has not allowed it",
    Failure.UNRESOLVED: "there is no such host",
    Failure.UNREACHABLE: "the host could not be reached",
    Failure.TLS: "the host has no trusted certificate",
    Failure.MALFORMED: "the host sent no HTTP response",
}


def not_fetched(failed: OutboundFailed, field: str, what: str, patience: timedelta) -> BadRequest:
    """Returns the refusal of a request whose `field` has the address. `what` is the expected content, which had to arrive within
    `patience`.
    """
    late = f"{what} did not arrive within {patience.total_seconds():g} seconds"
    return BadRequest(f"{field}: {_WHY.get(failed.failure, late)}", words=f"fetch_{failed.failure.value}", detail=failed.failure.value)
