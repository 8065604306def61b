"""Widgets of others, which a page may show in place of our puzzle: what their makers publish about them, what a person's form is kept in
meanwhile, and whether the maker's verdict counts for this form.

The form that somebody has sent is sealed into the page of the widget, so nothing is kept of one that nobody answers.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final, Self
from uuid import UUID

from core.domain.identity.guards.puzzles import LIFETIME, PuzzlePurpose
from core.frozen import Frozen

# A form of 8 KiB, sealed, as text.
LONGEST_KEPT: Final = 12 << 10
# No maker's answer is longer today.
LONGEST_WIDGET_ANSWER: Final = 8 << 10
# An answer is remembered for longer than any maker takes it: five minutes.
ANSWER_REMEMBERED: Final = 2 * LIFETIME
# How long a process asks for puzzles after it has found the maker away, and how long it believes that the maker is there.
AWAY_FOR: Final = timedelta(minutes=1)
THERE_FOR: Final = timedelta(seconds=10)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ID: Final = slice(0, 16)
_UNTIL: Final = slice(16, 24)
_BINDING: Final = slice(24, 40)
_FIELDS: Final = slice(40, None)
# The length of what is sealed would tell the length of a password. So much has the longest password, each of its letters escaped, with the
# longest address.
_ROUNDED_TO: Final = 2048


class WidgetPreset(Frozen, kw_only=True):
    """What a maker publishes about a widget."""

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
    """A form that waits for the answer of a widget, as the key ring seals it. It prints no field: one may be a password."""

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
        return cls(id=UUID(bytes=packed[_ID]), expires_at=until, binding=packed[_BINDING], purpose=PuzzlePurpose(purpose), fields=fields)


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


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
