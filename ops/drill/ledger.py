"""The ledger of a drill: what clients asked and were told, and when. Afterwards the database is asked whether that is true."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import msgspec
import trio

from core.domain.errors import OutcomeUnknown, Unavailable
from ops.bench.load import Answer

NO_ANSWER: Final = "no answer"


class Told(Enum):
    """What a client may believe after an answer."""

    DONE = auto()
    REFUSED = auto()
    """Nothing happened, or so the answer says."""
    UNKNOWN = auto()
    """It may have happened."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `code` is the status and, of an error, its code."""

    what: str
    began: float
    ended: float
    code: str

    @property
    def failed(self) -> bool:
        return self.code == NO_ANSWER or self.code.startswith("5")


@dataclass(slots=True)
class Ledger:
    asked: list[Asked] = field(default_factory=list)
    done: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By what was promised: the names of those things."""
    refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Things that were only ever refused. A thing that is done afterwards is in neither this set nor `unknown`."""
    unknown: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    refused_yet_done: Counter[str] = field(default_factory=Counter)

    def note(self, what: str, began: float, answer: Answer | None) -> Told:
        code = _code(answer)
        self.asked.append(Asked(what, began, trio.current_time(), code))
        if answer is not None and answer.status < 300:
            return Told.DONE
        return Told.UNKNOWN if answer is None or code.endswith(OutcomeUnknown.code) or answer.status == 500 else Told.REFUSED

    def promise(self, kind: str, name: str, told: Told) -> None:
        for known in (self.done, self.unknown, self.refused):
            known[kind].discard(name)
        {Told.DONE: self.done, Told.UNKNOWN: self.unknown, Told.REFUSED: self.refused}[told][kind].add(name)

    def promised(self) -> int:
        """How many things were answered as done so far."""
        return sum(map(len, self.done.values()))

    def failures(self, since: float) -> Sequence[Asked]:
        """Those that failed and ended at that time or later."""
        return [one for one in self.asked if one.failed and one.ended >= since]

    def codes(self, since: float) -> Mapping[str, int]:
        """Of each error, how many there were, the most frequent first. Errors that a client may expect of a right request are none."""
        return dict(Counter(one.code for one in self.failures(since)).most_common())

    def surprises(self) -> Mapping[str, int]:
        """Answers that are neither success nor failure: a valid session refused, for instance. A directory that repeats a request may be
        told that the person is there already; `refused_yet_done` tells whether it had been told otherwise.
        """
        expected = ("2", "409")
        return Counter(f"{one.what}: {one.code}" for one in self.asked if not one.failed and not one.code.startswith(expected))


class _Error(msgspec.Struct):
    error_code: str = ""
    detail: str = ""


def _code(answer: Answer | None) -> str:
    if answer is None:
        return NO_ANSWER
    if answer.status < 300:
        return str(answer.status)
    try:
        error = msgspec.json.decode(answer.body, type=_Error)
    except msgspec.DecodeError:
        return str(answer.status)
    # SCIM has no field for our codes.
    code = error.error_code or (OutcomeUnknown.code if error.detail == OutcomeUnknown.text else "")
    if not code and answer.status == 503:
        code = Unavailable.code
    return f"{answer.status} {code}".rstrip()
