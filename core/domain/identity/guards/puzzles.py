"""Bot protection of public forms: proof-of-work challenges, or CAPTCHAs of other vendors in their place."""

import json
from collections.abc import Mapping
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
    """A proof of work that a browser computes before a request is accepted, where many requests come from. The challenge is sealed and
    travels with the page, so nothing is stored of one that nobody solves. A solution is accepted once.

    A puzzle of n bits has eight parts. A part is solved by a number whose hash, together with the challenge and the part, begins with n - 3
    zero bits. So the whole takes 2^n hashes on average, its time varies less than that of one search, and a page can show the progress.
    """

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


# A form of 8 KiB, sealed, as text.
LONGEST_KEPT: Final = 12 << 10
# No maker's answer is longer today.
LONGEST_WIDGET_ANSWER: Final = 8 << 10
# An answer is remembered for longer than any maker takes it: five minutes.
ANSWER_REMEMBERED: Final = 2 * LIFETIME
# How long a process asks for puzzles after it has found the maker away, and how long it believes that the maker is there.
AWAY_FOR: Final = timedelta(minutes=1)
THERE_FOR: Final = timedelta(seconds=10)

_WIDGET_BINDING: Final = slice(24, 40)
_FIELDS: Final = slice(40, None)
# The length of what is sealed would tell the length of a password. So much has the longest password, each of its letters escaped, with the
# longest address.
_ROUNDED_TO: Final = 2048


class WidgetPreset(Frozen, kw_only=True):
    """What a vendor publishes about its CAPTCHA, which a page may show in place of the proof of work."""

    name: str
    maker: str
    """As people know it."""
    script: str
    """The address of the script that shows the widget."""
    scripts: tuple[str, ...]
    frames: tuple[str, ...]
    connections: tuple[str, ...]
    styles: tuple[str, ...]
    """The sources that the page of the widget may use, and no other page."""
    element: str
    """The class of the element that the script fills."""
    action_attribute: str
    bound_attribute: str
    language_attribute: str
    """The attributes of that element, without `data-`; empty where a maker has none."""
    language_parameter: str
    """The parameter of the script's address for the language; empty where an attribute says it."""
    attributes: tuple[tuple[str, str], ...]
    """Further attributes, without `data-`."""
    field: str
    """The field of the form that the script fills in."""
    longest_answer: int
    verify: str
    """Where answers are verified."""
    names_site_key: bool
    """Whether the verification names the site key as well."""
    solved: str
    site: str
    action: str
    bound: str
    errors: str
    """The fields of the verdict; `action` and `bound` are empty where a maker has none."""
    broken: tuple[str, ...]
    """The errors that are no verdict on the answer: the maker has trouble, or does not know the secret."""


class WidgetVerdict(Frozen, kw_only=True):
    """What the maker says of an answer. None: this maker does not say it."""

    solved: bool
    site: str = ""
    action: str | None = None
    bound: str | None = None

    def objection(self, site: str, purpose: PuzzlePurpose, bound: str) -> str:
        """Why it does not count for this form, in a word for the log. Empty if it does."""
        if not self.solved:
            return "refused"
        if self.site.casefold() != site.casefold():
            return "site"
        if self.action is not None and self.action != purpose:
            return "action"
        return "" if self.bound is None or self.bound == bound else "flow"


class KeptForm(Frozen, kw_only=True):
    """A form that waits for the answer of a CAPTCHA. It is sealed into the page, so nothing is stored of one that nobody answers. It prints
    no field: one may be a password.
    """

    id: UUID
    expires_at: datetime
    binding: bytes
    """The digest of what names browser and flow."""
    purpose: PuzzlePurpose
    fields: Mapping[str, str]

    def __repr__(self) -> str:
        return f"KeptForm({self.id}, {self.purpose}, ***)"

    @classmethod
    def made(cls, id: UUID, purpose: PuzzlePurpose, binding: str, fields: Mapping[str, str], now: datetime) -> Self:  # noqa: A002 - the field's own name
        return cls(id=id, expires_at=now + LIFETIME, binding=_digest(binding), purpose=purpose, fields=fields)

    @property
    def bound(self) -> str:
        """What the widget's answer is bound to. The maker learns it, so it tells nothing."""
        return _digest(f"bound {self.id}").hex()

    def objection(self, purpose: PuzzlePurpose, binding: str, now: datetime) -> str:
        """Why it does not count for this request, in a word for the log. Empty if it does."""
        if self.purpose is not purpose:
            return "purpose"
        if self.binding != _digest(binding):
            return "flow"
        return "late" if now >= self.expires_at else ""

    def packed(self) -> bytes:
        until = ((self.expires_at - _EPOCH) // _MICROSECOND).to_bytes(8)
        told = json.dumps([self.purpose, dict(self.fields)], separators=(",", ":")).encode()
        packed = self.id.bytes + until + self.binding + told
        return packed + b" " * (-len(packed) % _ROUNDED_TO)

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Reads what `packed` wrote. Raises `ValueError` for a purpose that only a later release knows."""
        purpose, fields = json.loads(packed[_FIELDS])
        until = _EPOCH + int.from_bytes(packed[_UNTIL]) * _MICROSECOND
        return cls(
            id=UUID(bytes=packed[_ID]), expires_at=until, binding=packed[_WIDGET_BINDING], purpose=PuzzlePurpose(purpose), fields=fields
        )


class MakerSeen:
    """Whether a widget's maker is there, as far as this process remembers."""

    def __init__(self) -> None:
        self._away_until = _EPOCH
        self._there_until = _EPOCH
        self.is_looking = False

    def is_away(self, now: datetime) -> bool:
        return now < self._away_until

    def is_there(self, now: datetime) -> bool:
        return now < self._there_until

    def found(self, now: datetime, *, away: bool) -> None:
        if away:
            self._away_until = now + AWAY_FOR
        else:
            self._there_until = now + THERE_FOR


def answer_id(answer: str) -> UUID:
    """Names an answer, which counts once."""
    return UUID(bytes=_digest(f"widget {answer}"))
