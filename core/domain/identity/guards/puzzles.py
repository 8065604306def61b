"""Puzzles: what a browser computes before a request counts, where many requests come from. The challenge is sealed and goes with the page,
so nothing is kept of one that nobody solves. A solved one counts once.

A puzzle of n bits has eight parts. A part is solved by a number whose hash, together with the challenge and the part, begins with n - 3
zero bits. So the whole takes 2^n hashes on average, its time varies less than that of one search, and a page can show how far it is.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final, Self
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identity.guards.traffic import Traffic
from core.frozen import Frozen, replace

LIFETIME: Final = timedelta(minutes=5)
PARTS: Final = 8
_BITS_OF_PARTS: Final = 3
LEAST_BITS: Final = 8
MOST_BITS: Final = 22
# Traffic grows while somebody fills a form in. A challenge that asks for up to so much less than a page would ask for now still counts.
_GROWN_MEANWHILE: Final = 2
# For people whose browser runs no scripts: how long they wait, and until when they may send the form.
WAIT: Final = timedelta(hours=1)
WAITED_UNTIL: Final = timedelta(hours=2)
# Eight numbers of at most ten digits, and the dots between them. The key ring's header, and base64, are in the second.
LONGEST_SOLUTION: Final = 87
LONGEST_CHALLENGE: Final = 400

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ID: Final = slice(0, 16)
_UNTIL: Final = slice(16, 24)
_BITS: Final = 24
_BINDING: Final = slice(25, 41)
_PURPOSE: Final = slice(41, None)
_MOST: Final = 1 << 32


class PuzzlePurpose(StrEnum):
    """What the request is for. A puzzle for one purpose counts for no other."""

    REGISTRATION = "registration"
    VERIFICATION = "verification"
    RESET = "reset"
    LINK = "link"
    """A sign-in link, with the code beside it."""
    SIGN_IN = "sign_in"

    @property
    def traffic(self) -> Traffic:
        return Traffic.FAILURES if self is PuzzlePurpose.SIGN_IN else Traffic.MAILS


class PuzzleUnsolved(BadRequest):
    """The page asks for a puzzle, and the form brought none that counts. The page is shown again, with a new one."""

    text = "Solve the puzzle of the page first"

    def __init__(self, reason: str) -> None:
        super().__init__(words="puzzle_unsolved", detail=reason)
        self.reason = reason


class PuzzleDemand(Frozen):
    """How many bits a request has to solve. `busy` follows from the traffic; `least` is what somebody demands in any case."""

    purpose: PuzzlePurpose
    busy: int = 0
    least: int = 0

    @property
    def bits(self) -> int:
        bits = max(self.busy, self.least)
        return 0 if bits <= 0 else max(LEAST_BITS, min(bits, MOST_BITS))

    def at_least(self, bits: int) -> "PuzzleDemand":
        """The same, with so many bits in any case: for a budget that is over, or for stuffing that was noticed."""
        return replace(self, least=max(self.least, min(bits, MOST_BITS)))

    def nothing(self) -> "PuzzleDemand":
        """Nothing is asked for: of a device that the person is known by."""
        return PuzzleDemand(self.purpose)

    def is_met_by(self, bits: int) -> bool:
        return bits >= max(self.busy - _GROWN_MEANWHILE, self.least)


class PuzzleChallenge(Frozen):
    """A challenge as the key ring seals it."""

    id: UUID
    expires_at: datetime
    bits: int
    binding: bytes
    """The digest of what names browser and flow."""
    purpose: PuzzlePurpose

    @classmethod
    def made(cls, id: UUID, demand: PuzzleDemand, binding: str, now: datetime) -> Self:  # noqa: A002 - the field's own name
        return cls(id, now + LIFETIME, demand.bits, _digest(binding), demand.purpose)

    def objection(self, demand: PuzzleDemand, binding: str, now: datetime) -> str:
        """Why it does not count for this request, in a word for the log. Empty if it does."""
        if self.purpose is not demand.purpose:
            return "purpose"
        if self.binding != _digest(binding):
            return "flow"
        if now >= self.expires_at:
            return "late"
        return "" if demand.is_met_by(self.bits) else "bits"

    def packed(self) -> bytes:
        until = ((self.expires_at - _EPOCH) // _MICROSECOND).to_bytes(8)
        return self.id.bytes + until + bytes((self.bits,)) + self.binding + self.purpose.encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Reads what `packed` wrote. Raises `ValueError` for a purpose that only a later release knows."""
        purpose = PuzzlePurpose(packed[_PURPOSE].decode())
        until = _EPOCH + int.from_bytes(packed[_UNTIL]) * _MICROSECOND
        return cls(UUID(bytes=packed[_ID]), until, packed[_BITS], packed[_BINDING], purpose)


class Puzzle(Frozen):
    """A puzzle as the page has it."""

    challenge: str
    bits: int

    @property
    def prefix(self) -> str:
        """What the script hashes with each part and number, in hexadecimal digits."""
        return _prefix(self.challenge).hex()

    @property
    def part_bits(self) -> int:
        return part_bits(self.bits)

    @property
    def parts(self) -> int:
        return PARTS


class PuzzleAnswer(Frozen):
    """What a form brings."""

    challenge: str = ""
    solution: str = ""
    waited: str = ""
    """The browser's ticket for those who wait in place of computing."""


def part_bits(bits: int) -> int:
    return max(0, bits - _BITS_OF_PARTS)


def is_solved(challenge: str, bits: int, solution: str) -> bool:
    """Whether these numbers solve the puzzle of the challenge. A text that is too long or no list of numbers costs no hash."""
    numbers = solution.split(".", PARTS) if len(solution) <= LONGEST_SOLUTION else []
    if len(numbers) != PARTS or not all(number.isascii() and number.isdecimal() and int(number) < _MOST for number in numbers):
        return False
    prefix, zeros = _prefix(challenge), part_bits(bits)
    return all(zero_bits(prefix, part, int(number)) >= zeros for part, number in enumerate(numbers))


def zero_bits(prefix: bytes, part: int, number: int) -> int:
    """With how many zero bits the hash begins."""
    digest = sha256(prefix + part.to_bytes(4) + number.to_bytes(4)).digest()
    return 256 - int.from_bytes(digest).bit_length()


def hour_of_network(network: str, purpose: PuzzlePurpose, now: datetime) -> UUID:
    """Names an hour of a network: once in it, somebody who has waited may send a form unsolved."""
    return UUID(bytes=_digest(f"waited {purpose} {network} {int(now.timestamp()) // 3600}"))


def _prefix(challenge: str) -> bytes:
    return sha256(challenge.encode("utf-8", "surrogatepass")).digest()


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
