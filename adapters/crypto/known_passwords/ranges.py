"""A range service: it gets the first five digits of a hash, and answers with the rest of all that it knows. It learns no password."""

import hashlib
from datetime import timedelta
from typing import Final

import structlog

from core.domain.outbound import NotADestination, destination
from core.domain.secrets import Password
from ports.outbound import Outbound, OutboundFailed

log = structlog.get_logger()

_PATIENCE: Final = timedelta(milliseconds=500)
_SENT: Final = 5
# A padded answer has some 1000 lines of 40 characters.
_LONGEST_ANSWER: Final = 1 << 18
# The service adds lines that count nothing, so that the length of an answer tells nobody on the way which one it is.
_PADDED: Final = {"add-padding": "true"}


class PasswordRanges:
    """Implements `ports.crypto.BreachedPasswords`. Silence, or an answer that is none, counts as "not known"."""

    def __init__(self, outbound: Outbound, address: str) -> None:
        """Raises `NotADestination`."""
        if "?" in address:
            raise NotADestination("must have no query: the digits come last")
        self._outbound = outbound
        self._address = address.rstrip("/")
        destination(f"{self._address}/00000")

    async def contains(self, password: Password) -> bool:
        text = password.reveal().encode("utf-8", "surrogatepass")
        digits = hashlib.sha1(text, usedforsecurity=False).hexdigest().upper()
        try:
            asked = destination(f"{self._address}/{digits[:_SENT]}")
            answer = await self._outbound.get(asked, _PATIENCE, most=_LONGEST_ANSWER, headers=_PADDED)
        except OutboundFailed as failure:
            log.warning("password_ranges_silent", reason=str(failure))
            return False
        if answer.status != 200:
            log.warning("password_ranges_silent", reason=f"status {answer.status}")
            return False
        return _stands_in(answer.body, digits[_SENT:].encode())


def _stands_in(body: bytes, rest: bytes) -> bool:
    for line in body.split(b"\n"):
        digits, _, seen = line.strip().partition(b":")
        if digits.upper() == rest:
            return seen.strip() != b"0"
    return False
