"""Runs of connections outwards: the other system, what is due, the runs, and whom a connection has sent."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Protocol
from uuid import UUID

from core.domain.federation.provisioning.connections import ProvisioningDialect
from core.domain.federation.provisioning.people import OutwardPerson, PlaceThere, RemoteIdentity, SentPerson, Wanted
from core.domain.federation.provisioning.progress import ProgressPart
from core.domain.federation.provisioning.runs import ProvisioningRun, ProvisioningRunPerson, ProvisioningWork
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ProvisioningRunId, ServiceId, UserId
from core.domain.secrets import Secret
from core.frozen import Frozen
from ports.tenancy.receivers import Owner


class RemoteFault(StrEnum):
    """Why nothing more can be asked of the other system just now. Beside these, a run fails by `ports.outbound.Failure`, and by
    `status_…` where the list is refused.
    """

    CREDENTIALS = "credentials"
    """It does not take the token."""
    REDIRECT = "redirect"
    """It sends us elsewhere, where the token does not belong."""
    SERVER_ERROR = "server_error"
    MALFORMED = "malformed_answer"
    TOO_LONG = "answer_too_long"
    THROTTLED = "throttled"
    LIST_TOO_LONG = "list_too_long"
    """The list of its people does not end."""
    REPEATED_PAGE = "repeated_page"
    """The list begins anew with each page, and it takes no filters, so that nobody can be asked for either."""
    NOT_ENDED = "not_ended"
    """Somebody whom it should end is still active there."""
    TOO_SLOW = "too_long"
    """All turns of a run together have taken too long."""
    BROKEN = "broken"
    """Something that nobody has foreseen. The installation's log has it."""


INTERRUPTED: Final = "interrupted"
"""Of a run whose process was gone, or whose connection was stopped or changed meanwhile."""


class RemoteFailed(Exception):
    """There was no answer, or none that says anything. `fault` is a `RemoteFault`, or why there was no connection. `is_away`: nobody has
    heard the question, so it is no matter of the person about whom it was.
    """

    def __init__(self, fault: str, retry_after: timedelta | None = None, *, is_away: bool = False) -> None:
        self.fault = fault
        self.retry_after = retry_after
        self.is_away = is_away
        super().__init__(fault)


class RemoteRefused(Exception):
    """The other system has understood, and refuses."""

    def __init__(self, status: int, scim_type: str | None) -> None:
        self.status = status
        self.scim_type = scim_type
        super().__init__(f"{status} {scim_type}")

    @property
    def why(self) -> str:
        return self.scim_type or f"status_{self.status}"


class RemoteOtherId(Exception):
    """The answer is about another one than was asked for."""


class RemoteExchange(Frozen, kw_only=True):
    """One question and its answer, without values of people."""

    at: datetime
    method: str
    path: str
    """Its form: `/Users`, `/Users/{id}`, `/Users?filter=externalId`."""
    status: int | None
    scim_type: str | None
    said: str
    """The text of the other system, masked; or why there was no answer."""
    has_failed: bool


class RemoteSite(Frozen):
    """Where the other system is, and how it likes to be asked."""

    base_url: str
    token: Secret
    dialect: ProvisioningDialect
    note: Callable[[RemoteExchange], None]


class RemoteUser(Frozen):
    """One of theirs, as an answer has it."""

    identity: RemoteIdentity
    resource: Mapping[str, Any]


class RemotePage(Frozen):
    people: Sequence[RemoteUser]
    total: int
    next_cursor: str | None = None
    """Of a page by cursor: where the next one begins. None behind the last one, and for a system that has not taken the cursor."""
    says_total: bool = True
    """The answer itself says the total."""


class TurnOver(Exception):
    """The turn of this connection is over, and there is more to do. `again_after`: the other system wants a rest until then."""

    def __init__(self, again_after: timedelta | None = None) -> None:
        self.again_after = again_after
        super().__init__()


class RemoteSystem(Protocol):
    """A client over the guarded client implements it. Every method is one call if it does not say otherwise, raises `RemoteFailed` and
    `RemoteRefused`, and follows nobody elsewhere. What it returns is at most as long as a page of a hundred people.
    """

    async def page(self, site: RemoteSite, start: int, count: int) -> RemotePage:
        """From the place `start`, which begins with 1."""

    async def offers_cursors(self, site: RemoteSite) -> bool:
        """Whether the system says that it lists people by cursor (RFC 9865). One that says nothing does not."""

    async def page_at(self, site: RemoteSite, cursor: str, count: int) -> RemotePage:
        """By a cursor of the page before. The first page has the empty one."""

    async def find(self, site: RemoteSite, attribute: str, value: str) -> Sequence[RemoteUser]:
        """Those of whom the attribute has this value."""

    async def takes_filters(self, site: RemoteSite, known: RemoteIdentity, nobody: str) -> bool:
        """Whether a filter finds one of theirs, and nobody by a name that nobody has. Two calls."""

    async def read(self, site: RemoteSite, far_id: str) -> RemoteUser | None:
        """Raises `RemoteOtherId`."""

    async def make(self, site: RemoteSite, resource: Mapping[str, Any]) -> RemoteUser:
        """It is sent once: whoever hears nothing asks before the next try."""

    async def change(self, site: RemoteSite, theirs: RemoteUser, wanted: Wanted, names: Sequence[str]) -> None:
        """Writes these attributes, and leaves the others as they are. Raises `RemoteOtherId`."""

    async def delete(self, site: RemoteSite, far_id: str) -> bool:
        """False when the other system deletes nobody. Whoever is not there any more is deleted."""


class KnownThere(Frozen, kw_only=True):
    """Whom we have sent as one of theirs."""

    far_id: str
    user: UserId | None
    digest: bytes | None
    is_active: bool
    kept_there: Collection[str] = ()


class AdoptedThere(Frozen, kw_only=True):
    """An account there that an owner lets a person take over, with the `externalId` that the owner has seen."""

    user: UserId
    far_id: str
    external_id: str


class EndedThere(Frozen):
    """How many are active there, and how many have ended since some time. `active` are those who were there then, or came by an owner's
    word; `there` are all.
    """

    active: int
    there: int
    ended: int


class ProvisioningCounted(Frozen):
    waiting: int
    """Runs that wait for an owner."""
    failing: int
    """Connections that fail."""
    late: float
    """The seconds that the oldest mark waits."""


class ListedThere(Frozen, kw_only=True):
    """A person of a connection, for lists."""

    connection: ProvisioningConnectionId
    service: ServiceId
    service_slug: str
    service_name: str
    user: UserId
    named: str | None
    far_id: str | None
    place: PlaceThere
    is_active: bool
    why: str | None
    changed_at: datetime


class ProvisioningRunStore(Protocol):
    """Outside a unit of work, `claim_due`, `counted`, `work`, `list`, `find`, `under_way`, `people`, `adopted`, `exchanges` and `owners`
    are one statement and one round trip, and `progress` a few. The others need a unit of work.
    """

    async def claim_due(self, at: datetime, until: datetime, holder: UUID, limit: int) -> Sequence[ProvisioningWork]:
        """Takes what is due, until then. Of several that ask at once, one gets a connection. Nothing of an organization of which one is
        under way. Whoever's last turn has run out comes behind all others, and otherwise whoever had the last turn long ago comes first.
        """

    async def counted(self) -> ProvisioningCounted: ...

    async def work(self, organization: OrganizationId, service_slug: str) -> ProvisioningWork | None:
        """The connection of an application, whoever works for it."""

    async def find_work_for_update(self, organization: OrganizationId, service_slug: str) -> ProvisioningWork | None:
        """Likewise, held for an owner who decides about it."""

    async def renew_lease(self, work: ProvisioningWork, until: datetime) -> bool:
        """Goes on with the work until then. False when another has taken it over, when nobody wants it any more, and when the organization
        is suspended: then nothing may be written or sent.
        """

    async def begin(self, run: ProvisioningRun) -> None:
        """A run that was under way before was interrupted, and nobody goes on with it."""

    async def under_way(self, connection: ProvisioningConnectionId) -> ProvisioningRun | None:
        """The run that has begun and not ended."""

    async def progress(self, connection: ProvisioningConnectionId) -> Mapping[str, bytes]:
        """What was kept at the end of the last turn, by name."""

    async def keep_progress(self, connection: ProvisioningConnectionId, parts: Iterable[ProgressPart]) -> None:
        """In place of what was kept before."""

    async def end_turn(self, work: ProvisioningWork, at: datetime, again_at: datetime | None) -> None:
        """Gives the lease back. There is more to do, behind all others."""

    async def name(self, run: ProvisioningRun, people: Sequence[ProvisioningRunPerson], after: int) -> None:
        """Behind as many others."""

    async def save(self, run: ProvisioningRun) -> None:
        """One that waits takes the place of the one that waited."""

    async def settle(self, claimed: ProvisioningWork, work: ProvisioningWork, again_at: datetime | None) -> None:
        """Saves how far the connection has come, and gives the lease back. What others have pressed since it was claimed stays. Nothing is
        kept for another turn.
        """

    async def stop(self, work: ProvisioningWork, why: str, at: datetime) -> None:
        """Nothing goes there until somebody makes the connection active again."""

    async def finish_ending(self, work: ProvisioningWork) -> None:
        """The connection has ended everybody, and goes."""

    async def take_marks(self, work: ProvisioningWork, at: datetime, limit: int) -> Sequence[UserId]:
        """Takes marks, with those that a process has taken and not finished: it is gone."""

    async def finish_marks(self, work: ProvisioningWork, again: Mapping[UserId, datetime]) -> None:
        """The people of the marks that were taken are done. `again` are those to look at once more, and when."""

    async def start(self, organization: OrganizationId, service_slug: str, at: datetime) -> bool:
        """The next run looks at everybody. False when the application has no active connection."""

    async def list(self, organization: OrganizationId, service_slug: str, limit: int) -> Sequence[ProvisioningRun]:
        """Newest first."""

    async def find(self, organization: OrganizationId, service_slug: str, run: ProvisioningRunId) -> ProvisioningRun | None: ...

    async def people(self, run: ProvisioningRunId, what: str | None, after: int | None, limit: int) -> Sequence[ProvisioningRunPerson]: ...

    async def ends(self, run: ProvisioningRunId) -> Collection[UserId]:
        """Those whom the run would end."""

    async def adopted(self, run: ProvisioningRunId, users: Collection[UserId]) -> Mapping[UserId, AdoptedThere]:
        """The accounts that an owner lets these people take over, by their word about this run."""

    async def decide(self, run: ProvisioningRun, at: datetime) -> bool:
        """Saves an owner's word. False when the run does not wait any more."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...

    async def note_exchanges(self, connection: ProvisioningConnectionId, exchanges: Sequence[RemoteExchange]) -> None: ...

    async def exchanges(self, organization: OrganizationId, service_slug: str) -> Sequence[RemoteExchange]:
        """Newest first."""


class ProvisionedPeopleStore(Protocol):
    """Outside a unit of work, `page`, `people`, `known`, `ended_lately`, `to_delete`, `list` and `of_person` are one statement and one
    round trip.
    """

    async def page(self, work: ProvisioningWork, after: UserId | None, limit: int) -> Sequence[OutwardPerson]:
        """Members, and those whom the connection has sent, by their ids."""

    async def people(self, work: ProvisioningWork, users: Collection[UserId]) -> Sequence[OutwardPerson]: ...

    async def known(self, connection: ProvisioningConnectionId, far_ids: Collection[str]) -> Mapping[str, KnownThere]: ...

    async def save(
        self, connection: ProvisioningConnectionId, people: Sequence[SentPerson], at: datetime, *, by_word: bool
    ) -> Collection[UserId]:
        """`by_word`: an owner has let them come. Returns those who were saved. The others are another's there by now, or their account is
        gone.
        """

    async def gone(self, connection: ProvisioningConnectionId, far_ids: Collection[str]) -> None:
        """Nobody has these ids any more there."""

    async def ended_lately(self, connection: ProvisioningConnectionId, since: datetime) -> EndedThere: ...

    async def to_delete(self, connection: ProvisioningConnectionId, at: datetime, limit: int) -> Sequence[str]: ...

    async def delay(self, connection: ProvisioningConnectionId, far_ids: Collection[str], at: datetime) -> None: ...

    async def mark(self, organization: OrganizationId, service_slug: str, user: UserId, at: datetime) -> bool:
        """Looks at the person again. False when the connection knows nobody of this id."""

    async def list(
        self, organization: OrganizationId, service_slug: str, place: PlaceThere | None, after: UserId | None, limit: int
    ) -> Sequence[ListedThere]: ...

    async def of_person(self, organization: OrganizationId, user: UserId) -> Sequence[ListedThere]: ...


class ProvisioningPace(Protocol):
    """How much of this process the work takes. An actor implements it."""

    async def turn(self) -> None:
        """Before work of a tenth of a millisecond and more: requests go first."""

    async def rest(self, seconds: float) -> None: ...

    async def breathe(self) -> None:
        """After each page, for as long as it took: so a run never has more than its share."""

    async def together(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Some at once. Raises the first exception, after all have ended."""
