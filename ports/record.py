"""What is recorded: the audit log, changes that can be taken back, deliveries, spans and stories of requests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import datetime, timedelta
from enum import IntEnum
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar
from uuid import UUID

from core.domain.causes import causing_request
from core.domain.errors import Refusal, RetryLater
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.record.audit import AuditEntry, AuditFilter, ChainFinding, StoredLink
from core.domain.record.changed_settings import ChangedSetting
from core.domain.record.deliveries import DeliveryOutcome, DueDelivery, ReceiverKind
from core.domain.record.entry_receivers import LoggedAct, ReceiverFacts
from core.domain.record.stories import SoughtStory, Story, TraceContext
from core.domain.requests import Listed, Page
from core.frozen import Frozen
from ports.jobs import Advance, ignored


class AuditLog(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def newest(self, organization: OrganizationId, page: Page) -> Listed[AuditEntry]:
        """The newest first: entries that wait to be linked, then the chain from its end. A page far back costs no more than the first one.
        The total is exact.
        """

    async def matching(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        """The newest first. At most `MOST_COUNTED` entries are counted; a total of that size means "at least this many"."""

    async def last(self, action: str) -> datetime | None:
        """When the platform's log last recorded the action, with success. None if never."""

    async def find(self, organization: OrganizationId, entry: AuditEntryId) -> AuditEntry | None:
        """None when the organization's log has no such entry."""


class ActFacts(Frozen):
    """An entry, and what is known of its receivers. There is at most one more than `MOST_RECEIVERS`; those that have not accepted something
    come first.
    """

    act: LoggedAct
    receivers: Sequence[ReceiverFacts]


class EntryReceiverLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def of_entry(self, organization: OrganizationId, entry: AuditEntryId) -> ActFacts | None:
        """None when the organization's log has no such entry."""

    async def of_person(self, organization: OrganizationId, person: UserId) -> Sequence[ActFacts]:
        """The newest entries that end or weaken the person's access, at most `MOST_OFFBOARDING`. Empty when the log has none, whoever the
        person is.
        """

    async def open_of_entries(self, organization: OrganizationId, entries: Sequence[AuditEntryId]) -> Sequence[ActFacts]:
        """Like `of_entry`, of several entries, without the receivers that have accepted."""


class Backlog(Frozen):
    """Entries that wait to be linked. `pending` counts up to a limit."""

    pending: int
    oldest: datetime | None


class AuditChains(Protocol):
    """The chains of the whole installation."""

    async def link(self, key: bytes, most: int) -> int | None:
        """Links the oldest waiting entries, at most this many, in one transaction. Returns how many were linked; None when another process
        is linking. Any process may call it at any time.
        """

    async def backlog(self) -> Backlog: ...

    async def next_chains(self, after: OrganizationId | None, most: int) -> Sequence[OrganizationId]:
        """In a stable order. The first call passes None; none follow the last."""

    async def links(self, chain: OrganizationId, since: int, most: int) -> Sequence[StoredLink]:
        """The links of a chain in their order, from this number on. Each comes with every entry that stands in its place. Empty at the end
        of the chain.
        """

    async def parts(self, places: Sequence[tuple[OrganizationId, int]], most: int) -> Sequence[Sequence[StoredLink]]:
        """What `links` returns for each of the places. Reads them at once, each at a moment of its own."""

    async def about(self, chain: OrganizationId | None) -> int:
        """About how many links this chain has, or all chains together. Costs nothing: nobody counts."""

    async def unchained(self, chain: OrganizationId | None, most: int, advance: Advance = ignored) -> Sequence[ChainFinding]:
        """Entries that are in no chain and do not wait for one either, and entries that wait for a chain of somebody else. Tells `advance`
        how many entries it has looked at.
        """

    async def find(self, slug: str) -> OrganizationId | None:
        """None when no organization has this slug, or the one that had it is being deleted."""

    async def slugs(self) -> Mapping[OrganizationId, str]:
        """Of all organizations that still have one."""


class ChangedSettings(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def list(self, organization: OrganizationId | None, place: str, thing: str | None, since: datetime) -> Sequence[ChangedSetting]:
        """The changes of the settings on the page at this address, the newest first, and no more than `MOST_LISTED`. With an organization,
        only those of the organization; None for pages of the platform. With the id of the thing that is there now, none of a thing that was
        there before under the same name.
        """


class ClaimedReceiver(Frozen, kw_only=True):
    """A receiver under a lease. `is_failing`: its last attempt failed."""

    id: UUID
    organization: OrganizationId
    url: str
    is_failing: bool
    lease: UUID


class FailingReceivers(Frozen):
    """Of one kind: how many receivers fail, of how many organizations, and how many there are."""

    kind: ReceiverKind
    failing: int
    organizations: int
    all: int


class ReceiversInNeed(Protocol):
    async def count(self) -> Sequence[FailingReceivers]:
        """By kind, where an organization has receivers of it."""


To = TypeVar("To", bound=ClaimedReceiver)
Due = TypeVar("Due", bound=DueDelivery)
Due_co = TypeVar("Due_co", bound=DueDelivery, covariant=True)


class DeliveryQueue(Protocol[To, Due_co]):
    """Each call is one statement. If a process dies, its claims are free again when their leases have run out. PostgreSQL keeps one queue
    for each kind of delivery; a broker could keep them as well.
    """

    async def claim(self, limit: int, lease: timedelta, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[To]:
        """Up to `limit` receivers with something due, either those whose last attempt failed or all others. An organization that is named
        among the `busy` gets fewer of them: one fewer for every two times, rounded up.
        """

    async def due_in(self) -> float | None:
        """The seconds until a receiver can be claimed, if nothing happens before. Zero or less: one can be claimed, or is about to be given
        back. None when nothing waits.
        """

    async def due(self, claimed: To, limit: int) -> Sequence[Due_co]:
        """Longest due first. Empty when the lease is lost, or the receiver must no longer be called."""

    async def settle(self, claimed: To, outcomes: Sequence[DeliveryOutcome]) -> datetime | None:
        """Returns since when every attempt at the receiver has failed; None when the last one succeeded, or the lease was lost."""

    async def release(self, claimed: To, rest: timedelta | None = None) -> None:
        """Gives the lease back. The receiver can be claimed again after `rest`, and at once when `rest` is None."""


class Collected(Frozen):
    """The collector took the spans, except for so many."""

    rejected: int


class NotCollected(Exception):
    """`passes`: trying again may help. `retry_after` is the collector's header."""

    def __init__(self, reason: str, *, passes: bool, retry_after: str | None = None) -> None:
        self.reason = reason
        self.passes = passes
        self.retry_after = retry_after
        super().__init__(reason)


class SpanCollector(Protocol):
    """A client of OTLP/HTTP implements it."""

    async def collect(self, texts: Sequence[str], count: int) -> Collected:
        """`texts` has so many spans, in the collector's own form. Raises `NotCollected`. The collector may get the same spans twice; it
        knows them by their ids.
        """


Attributes = tuple[tuple[str, str | int], ...]
"""Names and values. They leave the house, so they tell neither secrets nor anything about a person. `adapters/traces.py` has all
names.
"""

MOST_SPANS: Final = 500
"""The most spans of one request or job. Spans beyond are left out, so that a long piece of work cannot fill the memory."""


class SpanKind(IntEnum):
    """The numbers are those of OpenTelemetry."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    CONSUMER = 5

    # The hash of an enumeration is a call of Python's own code, and every span is looked up by its kind.
    __hash__ = int.__hash__


_NUMBERS: Final = tuple(f"{number:04x}" for number in range(1, MOST_SPANS * 2 + 1))
_LAST: Final = len(_NUMBERS) - 1


class Trace:
    """A part of a trace: one request or job of this process. `id` has 32 hexadecimal digits, `prefix` has 12, and the spans of this part
    have ids that begin with it. `now` returns nanoseconds since 1970.
    """

    __slots__ = ("begun", "id", "left_out", "now", "prefix", "spans")

    def __init__(self, trace: str, prefix: str, now: Callable[[], int]) -> None:
        self.id = trace
        self.prefix = prefix
        self.now = now
        self.begun = 0
        self.spans: list[TraceSpan] = []
        self.left_out = 0


class TraceSpan:
    """A span, open for the length of a `with` block. Each request makes several, so this is a plain class, whose rarer values are set only
    where they differ.
    """

    own: Attributes = ()
    """Attributes that differ from span to span. `attributes` has those that many spans share."""
    link: TraceContext | None = None
    """The context of the work that caused this work, in a trace of its own."""
    error = ""
    """The kind of failure: the name of an exception's class, or a status."""
    ended = 0
    _token: "Token[TraceSpan | None]"

    def __init__(self, trace: Trace, kind: SpanKind, name: str, attributes: Attributes, parent: str) -> None:
        """`parent` is the parent's id, or an empty text."""
        number = trace.begun
        # Spans with a number beyond the last are left out, unless hundreds are open at once; then their children lack a parent.
        trace.begun = number + 1 if number < _LAST else number
        self.id = trace.prefix + _NUMBERS[number]
        self.trace = trace
        self.kind = kind
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.began = trace.now()

    def __enter__(self) -> Self:
        self._token = current_span.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        current_span.reset(self._token)
        if kind is not None and not self.error:
            self.error = failure_of(error)
        self.end()

    def end(self) -> None:
        trace = self.trace
        self.ended = trace.now()
        if len(trace.spans) < MOST_SPANS:
            trace.spans.append(self)
        else:
            trace.left_out += 1

    def child(self, kind: SpanKind, name: str, attributes: Attributes = ()) -> "TraceSpan":
        return TraceSpan(self.trace, kind, name, attributes, self.id)

    def travelled(self, kind: SpanKind, named: Sequence[tuple[str, Attributes]], began: int, error: BaseException | None = None) -> None:
        """Adds children that began and ended together, such as statements that share a round trip. A failure is that of the last."""
        made: TraceSpan | None = None
        for name, attributes in named:
            made = self.child(kind, name, attributes)
            made.began = began
            made.end()
        if made is not None and error is not None:
            made.error = failure_of(error)

    def context(self) -> TraceContext:
        return TraceContext(self.trace.id, self.id, sampled=True)


current_span: Final[ContextVar[TraceSpan | None]] = ContextVar("current_span", default=None)
"""The innermost open span of this task. Trio copies it into child tasks."""


class NoSpan:
    """Stands for a span while nothing is traced."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


NO_SPAN: Final = NoSpan()


class Traces(Protocol):
    """Decides which work is traced, and takes the spans of what has ended."""

    def begin(self, kind: SpanKind, name: str, *, work: str = "", parent: TraceContext | None = None) -> TraceSpan | None:
        """The first span of a request or job; the caller enters it. `work` is a UUID of ours, which becomes the id of the trace, if there
        is no parent. A parent's decision counts. None when the work is not traced.
        """

    def finish(self, span: TraceSpan) -> None:
        """Takes all spans of the part that this ended span began. Never waits and never fails."""


@contextmanager
def traced(
    traces: Traces | None, kind: SpanKind, name: str, attributes: Attributes = (), *, own: Attributes = (), link: TraceContext | None = None
) -> Iterator[None]:
    """Traces the block as a piece of work of its own, such as a job. The span names the request that left the work behind."""
    span = None if traces is None else traces.begin(kind, name)
    if traces is None or span is None:
        yield
        return
    request = causing_request()
    caused = () if request is None else (("postern.request_id", str(request)),)
    span.attributes, span.own, span.link = attributes, (*own, *caused), link
    try:
        with span:
            yield
    finally:
        traces.finish(span)


def failure_of(error: BaseException | None) -> str:
    """The class of the failure. Empty for a refusal, which is an answer and no failure. The text of an exception may quote a person's data,
    so it stays here.
    """
    if error is None or (isinstance(error, Refusal) and not isinstance(error, RetryLater)):
        return ""
    return type(error).__name__


class Stories(Protocol):
    """Outside any unit of work, and across all organizations: only an operator may ask."""

    async def find(self, sought: SoughtStory) -> Story:
        """At most `MOST_ROWS` rows, the earliest."""
