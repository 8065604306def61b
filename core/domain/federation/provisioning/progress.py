"""How far a full sync of an outbound connection has come."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from core.domain.federation.provisioning.listed import SeenThere, StrangersThere
from core.domain.federation.provisioning.people import WhyGone
from core.domain.federation.provisioning.runs import ProvisioningRun, ProvisioningTally, ProvisioningWork
from core.domain.identifiers import ProvisioningRunId, UserId
from core.frozen import Frozen

LONGEST_TURN: Final = timedelta(minutes=2)
"""So long one connection has its place before others have theirs."""
LONGEST_RUN: Final = timedelta(hours=1)
"""All turns of a run together. A system that needs longer fails."""
PART_BYTES: Final = 256 << 10
"""More at once would hold up the event loop."""
_FORM: Final = 2
"""Of what is kept. Another form is that of another release, and its run begins anew."""
_ID: Final = 16
_STRANGERS: Final = ("strangers_ids", "strangers_starts", "strangers_digests", "strangers_names", "strangers_external_ids")


class ProgressPart(Frozen):
    """A part of what is kept, of one name, in its place."""

    name: str
    place: int
    part: bytes


class RunProgress:
    """What a run knows, page by page. It holds identities, and no people.

    A run works in turns, so that other runs get theirs, and the next turn resumes here, in whichever process. If a process is killed during
    a turn, the run begins again.
    """

    def __init__(self) -> None:
        self.run: ProvisioningRunId | None = None
        """None while a connection ends everybody there."""
        self.whole_due_at: datetime | None = None
        self.agreed_run: ProvisioningRunId | None = None
        """As the connection was when the run began: what somebody has pressed since stays for the next one."""
        self.worked = timedelta(0)
        self.start = 1
        """The place in the list that is read next."""
        self.by_cursor: bool | None = None
        """The list is read by cursor. None: nobody has asked the other system yet."""
        self.cursor = ""
        """Where the next page begins."""
        self.restarts = 0
        """How often a cursor was refused, so that the list began anew."""
        self.empty_pages = 0
        self.has_list = False
        """The list was read to its end, or there is none."""
        self.asks_each = False
        """The other system has no list that goes on, and is asked for each person."""
        self.after: UserId | None = None
        self.done = set[UserId]()
        """Of the page behind `after`."""
        self.why = dict[UserId, WhyGone]()
        """Whoever has yet to end."""
        self.different = set[UserId]()
        """Whom the list has named otherwise than we have sent them."""
        self.seen = SeenThere()
        self.strangers = StrangersThere()
        self.tally = ProvisioningTally()

    def restart_list(self) -> None:
        """From its first page, because a cursor counts no more."""
        self.forget_list()
        self.cursor, self.restarts, self.empty_pages = "", self.restarts + 1, 0

    def forget_list(self) -> None:
        self.different.clear()
        self.seen, self.strangers = SeenThere(), StrangersThere()

    def is_of(self, run: ProvisioningRun, work: ProvisioningWork) -> bool:
        """Whether this connection may go on with the run: an owner has made other settings active otherwise."""
        return self.run == run.id and run.settings_digest == work.digest

    def parts(self) -> Iterator[ProgressPart]:
        said = {
            "form": _FORM,
            "run": None if self.run is None else str(self.run),
            "whole_due_at": None if self.whole_due_at is None else self.whole_due_at.isoformat(),
            "agreed_run": None if self.agreed_run is None else str(self.agreed_run),
            "worked": self.worked.total_seconds(),
            "start": self.start,
            "by_cursor": self.by_cursor,
            "cursor": self.cursor,
            "restarts": self.restarts,
            "empty_pages": self.empty_pages,
            "has_list": self.has_list,
            "asks_each": self.asks_each,
            "after": None if self.after is None else str(self.after),
            "done": [str(one) for one in self.done],
            "tally": self.tally.state(),
        }
        yield from _cut("said", json.dumps(said).encode())
        yield from _cut("different", b"".join(one.bytes for one in self.different))
        for reason in WhyGone:
            yield from _cut(f"why_{reason.value}", b"".join(user.bytes for user, why in self.why.items() if why is reason))
        yield from _cut("seen", self.seen.words)
        for name, blob in zip(_STRANGERS, self.strangers.blobs(), strict=True):
            yield from _cut(name, blob)


def gone_on(kept: Mapping[str, bytes]) -> RunProgress | None:
    """What `RunProgress.parts` has given, by name. None where nothing is kept, or by another release."""
    made = RunProgress()
    try:
        said: Mapping[str, Any] = json.loads(kept["said"])
        if said["form"] != _FORM:
            return None
        made.run = _id(said["run"])
        made.whole_due_at = None if said["whole_due_at"] is None else datetime.fromisoformat(said["whole_due_at"])
        made.agreed_run = _id(said["agreed_run"])
        made.worked = timedelta(seconds=said["worked"])
        made.start, made.has_list, made.asks_each = said["start"], said["has_list"], said["asks_each"]
        made.by_cursor, made.cursor = said["by_cursor"], said["cursor"]
        made.restarts, made.empty_pages = said["restarts"], said["empty_pages"]
        made.after = None if said["after"] is None else UserId(UUID(said["after"]))
        made.done = {UserId(UUID(one)) for one in said["done"]}
        made.tally = ProvisioningTally.of_state(said["tally"])
        made.different = set(_ids(kept.get("different", b"")))
        made.why = {user: reason for reason in WhyGone for user in _ids(kept.get(f"why_{reason.value}", b""))}
        made.seen = SeenThere(kept.get("seen", b""))
        made.strangers = StrangersThere([kept.get(name, b"") for name in _STRANGERS])
    except (KeyError, ValueError, TypeError):
        return None
    return made


def _cut(name: str, blob: Any) -> Iterator[ProgressPart]:
    whole = memoryview(blob).cast("B") if len(blob) else memoryview(b"")
    for place, start in enumerate(range(0, len(whole), PART_BYTES)):
        yield ProgressPart(name, place, whole[start : start + PART_BYTES].tobytes())


def _id(text: str | None) -> ProvisioningRunId | None:
    return None if text is None else ProvisioningRunId(UUID(text))


def _ids(blob: bytes) -> Sequence[UserId]:
    return [UserId(UUID(bytes=blob[at : at + _ID])) for at in range(0, len(blob), _ID)]
