"""What follows from one request: its rows in the database, and its trace context."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.causes import given_tail, moment_of
from core.domain.errors import BadRequest
from core.frozen import Frozen

MOST_ROWS: Final = 1_000
SEARCHED: Final = ("audit entries", "events", "sign-ins", "deliveries", "jobs", "mails")

# The clocks of machines differ a little.
_APART: Final = timedelta(minutes=5)
_AFTER: Final = timedelta(hours=1)
# The texts that a request may bring as its id.
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


class SoughtStory(Frozen):
    """Rows of the time from `since` to `until` that name the `request`, or an id that ends with `tail`: that of a client's own text."""

    request: UUID | None
    tail: str
    since: datetime
    until: datetime


class StoryRow(Frozen, kw_only=True):
    """One row that follows from the request. It names people, objects and organizations by their ids, so that a story may leave the house;
    of mails, it names the domain of the recipient.
    """

    at: datetime
    noun: str
    id: UUID
    request: UUID
    organization: str | None
    """The organization's slug; its id if it is gone."""
    actor: UUID | None
    what: str
    state: str
    attempts: int | None = None
    next_at: datetime | None = None
    error: str | None = None
    recipient: str | None = None


class Story(Frozen):
    """Everything that the installation knows to have followed from one request, for an operator who investigates an incident. `rows` are in
    the order of time. A story of more than `MOST_ROWS` rows is not whole.
    """

    sought: SoughtStory
    rows: Sequence[StoryRow]
    is_whole: bool


def sought_story(text: str, since: datetime | None, until: datetime | None, now: datetime) -> SoughtStory:
    """Raises `BadRequest`."""
    if not _ID.fullmatch(text):
        raise BadRequest("The id of a request is up to 128 letters, digits, dots, hyphens and underscores")
    request = _own_id(text)
    moment = None if request is None else moment_of(request)
    if since is not None:
        first, last = since, until or now + _APART
    elif moment is not None:
        first, last = moment - _APART, until or moment + _AFTER
    else:
        raise BadRequest("This id does not tell when the request came: say since when to look (--since), and until when (--until)")
    if first >= last:
        raise BadRequest("The time to look at ends before it begins")
    return SoughtStory(request, given_tail(text), first, last)


def _own_id(text: str) -> UUID | None:
    """Only a canonical text: 32 digits without hyphens are the id that a proxy gave."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


_SAMPLED: Final = 1
# Version, trace id, span id, flags. A later version may add fields after a further dash; version 00 ends here, and ff is no version.
_TRACEPARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FIRST_VERSION: Final = "00"
# The header of version 00 has 55 characters. Nobody needs more of a later version than this.
_LONGEST: Final = 512


class TraceContext(Frozen):
    """The position of a caller in its trace, as the header `traceparent` states it (W3C Trace Context, level 1). `trace` and `span` are IDs
    in hexadecimal digits, 32 and 16 of them.
    """

    trace: str
    span: str
    sampled: bool

    def header(self) -> str:
        return f"{_FIRST_VERSION}-{self.trace}-{self.span}-{_SAMPLED if self.sampled else 0:02x}"


def read_traceparent(text: str) -> TraceContext | None:
    """None for a text that is no `traceparent`. The specification wants such a header ignored."""
    found = _TRACEPARENT.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (found[1] == _FIRST_VERSION and found[5] is not None):
        return None
    return TraceContext(found[2], found[3], bool(int(found[4], 16) & _SAMPLED))
