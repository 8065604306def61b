"""Stores and look-ups of the whole installation, for platform owners and operators."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import (
    AssignmentId,
    IdentityId,
    LoginEventId,
    ManagementKeyId,
    MembershipId,
    OrganizationId,
    PasskeyId,
    ProposalId,
    ServiceId,
    UserId,
)
from core.domain.identity.guards.guesses import Suspicions
from core.domain.jobs import QueueState
from core.domain.mail import Email
from core.domain.platform.analytics import (
    ActiveOrganization,
    AttemptsOfWays,
    FailuresOfDays,
    Growth,
    LoggedSignIn,
    LoginsOfDay,
    LoginsOfProvider,
    LoginsOfService,
    Overview,
    RecentLogin,
    SignInFilter,
    Span,
)
from core.domain.platform.configuration.objects import ManagedMark, ObjectPlace
from core.domain.platform.configuration.planning import Proposal
from core.domain.platform.governance import Belongings, GovernedOrganization, OrganizationFilter, OrganizationTexts
from core.domain.platform.imports.decisions import Decision, Facts, ImportDestination, KnownProvider, Marks
from core.domain.platform.imports.records import Found, ImportedPerson
from core.domain.platform.installation import FirstStepsDone, InstallationState, Storage
from core.domain.platform.platform_users import AccountOverview, FoundUser, FoundUsers, MfaMetrics, MfaOverview
from core.domain.platform.searches import FoundThing, FoundThings, NamedKind, NamedOne, NameTerm, ThingKind
from core.domain.platform.todos import Expiry, FrameFacts, Todos
from core.domain.requests import Listed
from core.domain.texts.own_texts import ApprovalRules
from core.frozen import Frozen
from ports.metrics import Population
from ports.record import Backlog
from ports.services.billing import WaitingBillingEvents


class AccountOverviews(Protocol):
    """Outside any unit of work."""

    async def find(self, who: Email | UserId) -> AccountOverview | None:
        """None when there is no such account."""


class AnalyticsLookup(Protocol):
    """The counts contain every committed sign-in exactly once. Outside any unit of work."""

    async def by_day(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfDay]:
        """In order, without days on which nobody signed in."""

    async def failures(self, organization: OrganizationId, since: date, most_read: int) -> FailuresOfDays:
        """From this day on, or from a later one if more than `most_read` attempts came since."""

    async def by_way(self, organization: OrganizationId, service: ServiceId, since: date, most_read: int) -> AttemptsOfWays:
        """The application's attempts among the newest `most_read` of the organization, from this day on or from a later one."""

    async def by_service(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfService]:
        """The most used first, deleted services included. Sign-ins to the organization itself are not among them."""

    async def by_provider(self, organization: OrganizationId, span: Span) -> Sequence[LoginsOfProvider]:
        """The most used first."""

    async def recent(self, organization: OrganizationId, before: LoginEventId | None, limit: int) -> Sequence[RecentLogin]:
        """Newest first; with `before`, only older ones."""

    async def sign_ins(
        self, organization: OrganizationId, wanted: SignInFilter, before: LoginEventId | None, limit: int
    ) -> Sequence[LoggedSignIn]:
        """Newest first, failures included; with `before`, only older ones."""

    async def overview(self, at: datetime) -> Overview: ...

    async def of_installation(self, since: date) -> Sequence[LoginsOfDay]:
        """Of all organizations together, in order, without days on which nobody signed in."""

    async def failures_of_installation(self, since: date, most_read: int) -> FailuresOfDays:
        """As `failures`, of everybody."""

    async def growth(self, since: date, most_read: int) -> Growth:
        """From this day on, or from a later one if more than `most_read` people or organizations came since."""

    async def most_active(self, since: date, most_read: int, limit: int) -> Sequence[ActiveOrganization]:
        """Among the newest `most_read` attempts since this day: the organizations with the most sign-ins first."""


class LoginCounter(Protocol):
    async def count(self, limit: int) -> int:
        """Add up to this many sign-ins to the counts, each exactly once. Returns how many: 0 also while another process counts."""


class StoredObject(Frozen, kw_only=True):
    """One object as it is stored, without its secrets."""

    place: ObjectPlace
    id: str
    fields: Mapping[str, Json]
    people: int = 0
    is_directorys: bool = False


class ConfigurationReader(Protocol):
    """Each method is one statement."""

    async def slugs(self) -> Sequence[str]:
        """The slugs of all organizations, sorted."""

    async def objects(self, kind: str, organizations: Collection[str] | None) -> Sequence[StoredObject]:
        """The objects of one kind, in these organizations or in all. The installation's own objects ignore the organizations."""

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        """The ids of those services or teams of the organization that have these slugs."""

    async def lately(self, organization: str, service: str, since: datetime) -> int:
        """How many people have signed in to the service since then."""


class ManagedMarks(Protocol):
    """Which objects documents manage. Each method is one statement."""

    async def replace(
        self, organization: str, kinds: Sequence[str], marks: Sequence[ManagedMark], person: UserId | None, key: ManagementKeyId | None
    ) -> None:
        """Sets the marks of these kinds of one organization, or of the installation for an empty slug. Earlier marks of these kinds go.
        `person` or `key` has applied the document; an operator is neither. Nothing happens if the organization is gone.
        """

    async def find(self, organization: str, service: str, kind: str, id: str) -> ManagedMark | None:  # noqa: A002 - the noun's own word
        """The mark of the object that endpoints name by this id. None if no document manages the object."""

    async def list(self, organization: str) -> Sequence[ManagedMark]:
        """All marks of the organization, or of the installation for an empty slug, in the order of places."""


class ExpiryLookup(Protocol):
    async def of(self, organization: OrganizationId, now: datetime) -> Sequence[Expiry]:
        """One round trip. What ends first comes first, and domains come before all."""

    async def everywhere(self, now: datetime) -> Sequence[Expiry]:
        """The same for active organizations and the platform's own keys."""


class FrameLookup(Protocol):
    """Each look-up takes one round trip, and its cost is bounded. Without a person, there are no places."""

    async def get_in_organization(self, person: UserId | None, organization: OrganizationId, now: datetime) -> FrameFacts: ...

    async def get_in_installation(self, person: UserId | None) -> FrameFacts: ...

    async def get_places(self, person: UserId | None) -> FrameFacts:
        """For whoever may not decide about todos."""


class OrganizationRegister(Protocol):
    """Outside any unit of work. Organizations that are being deleted do not exist here."""

    async def list(self, wanted: OrganizationFilter, limit: int, offset: int) -> Listed[GovernedOrganization]:
        """Newest first. The total is counted up to `core.domain.requests.MOST_COUNTED`."""

    async def find(self, organization: str | OrganizationId) -> GovernedOrganization | None:
        """By the slug, or by the id. None when there is no such organization."""

    async def belongings(self, organization: OrganizationId) -> Belongings:
        """Each number is counted up to `core.domain.requests.MOST_COUNTED`."""


class PeopleSource(Protocol):
    """Files of another system. Worker threads that read files implement it."""

    @property
    def name(self) -> str:
        """The kind of the source, and its own name. Ids count within it."""

    @property
    def digest(self) -> str:
        """SHA-256 of the files, one behind the other, in hexadecimal."""

    @property
    def count(self) -> int:
        """About how many records there are."""

    @property
    def relying_party(self) -> str | None:
        """What the passkeys belong to. None where the source does not say it."""

    async def next(self) -> Sequence[Found]:
        """The next records, in the order of the files, and as many as one transaction takes well; none at the end."""


class Candidate(Frozen):
    """A person whose address is well formed."""

    person: ImportedPerson
    email: Email
    marks: Marks


class Written(Frozen, kw_only=True):
    """A decision with everything that its rows need."""

    decision: Decision
    email: Email
    marks: Marks
    password: str | None = None
    """The stored text of the hash."""
    sealed_totp: bytes | None = None
    passkeys: tuple[PasskeyId, ...] = ()
    identities: tuple[IdentityId, ...] = ()
    membership: MembershipId | None = None
    assignments: tuple[AssignmentId, ...] = ()


class ImportStore(Protocol):
    """Outside a unit of work, `destination` and `facts` are a few statements, each a transaction of its own. The other methods need a unit
    of work.
    """

    async def destination(self, slug: str, shared: Sequence[KnownProvider]) -> ImportDestination | None:
        """The organization; without a slug, the installation. `shared` are the installation's providers. None when there is no such
        organization.
        """

    async def hold(self, to: ImportDestination, candidates: Sequence[Candidate]) -> None:
        """Until the transaction ends, nobody else changes the organization's members, teams and roles, and the accounts that are known of
        these people stay.
        """

    async def facts(self, to: ImportDestination, candidates: Sequence[Candidate]) -> Facts: ...

    async def write(self, to: ImportDestination, people: Sequence[Written], at: datetime) -> bool:
        """False when somebody else has taken an address, a user name, a passkey or an identity meanwhile. Then nothing of the transaction
        may be committed.
        """


class Notebook(Protocol):
    """Notes by key that need not stand in memory, of a plan. A file implements it."""

    def find(self, key: str) -> bytes | None: ...

    def note(self, entries: Sequence[tuple[str, bytes]]) -> None:
        """The first note under a key stays."""


class InstallationLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def state(self) -> InstallationState: ...

    async def first_steps(self) -> FirstStepsDone: ...


class PlatformOwnerStore(Protocol):
    """All methods need a unit of work."""

    async def exist(self) -> bool: ...

    async def exist_besides(self, user: UserId) -> bool:
        """Whether there is another active platform owner."""

    async def promote(self, email: Email) -> UserId | None:
        """Make an existing, active account with a verified address a platform owner. None when there is no such
        account. May be repeated.
        """

    async def put_in_office(self, user: UserId, at: datetime) -> bool:
        """Make an active account with a verified address a platform owner. False when the account is not active and verified, or is a
        platform owner already.
        """

    async def put_out_of_office(self, user: UserId, at: datetime) -> bool:
        """False when the account is not a platform owner. After `hold`."""

    async def hold(self) -> None:
        """Nobody else changes the set of platform owners until the transaction ends. Call it before any account is held."""

    async def hold_first(self) -> None:
        """Only one first start of the installation runs at a time, across all processes, until the transaction ends."""


class UserDirectory(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        """Accounts whose normalized address contains this text, by address; only the one whose address it is, if there is one. With `user`,
        at most that account. With neither text nor user, the newest accounts.
        """

    async def find(self, text: str, limit: int, most_read: int) -> FoundUsers:
        """Of the newest `most_read` accounts those whose normalized address, name or user name contains this text, newest first. Before
        them the account whose address it is, whatever its age.
        """

    async def owners(self, limit: int) -> Sequence[FoundUser]:
        """Platform owners, deactivated ones included."""

    async def mfa(self, user: UserId) -> MfaOverview | None:
        """None when there is no such user."""

    async def mfa_metrics(self, since: datetime) -> MfaMetrics: ...


class AlertLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def alerts(self, since: datetime) -> Suspicions:
        """Alerts by the rules of `core/domain/identity/login_events.py`."""


class SealedProposal(Frozen):
    proposal: Proposal
    sealed_document: bytes | None
    """None once the proposal is applied."""


class ProposalStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. They know no proposal whose day is over, none of
    a management key that has ended, has expired or may propose no more, and none of a person who is no member any more, is deactivated or
    may propose no more. The other methods need a unit of work in which the caller has locked the organization. Only PostgreSQL implements
    `ProposalStore`.
    """

    async def list(self, organization: OrganizationId, now: datetime) -> Sequence[Proposal]:
        """The newest first."""

    async def find(self, organization: OrganizationId, proposal: ProposalId, now: datetime) -> SealedProposal | None: ...

    async def waiting(self, organization: OrganizationId, now: datetime) -> int:
        """How many proposals wait, of those that `list` knows."""

    async def add(self, proposal: Proposal, sealed_document: bytes) -> None: ...

    async def take(self, organization: OrganizationId, proposal: ProposalId, at: datetime) -> bool:
        """Marks a waiting proposal as applied, and forgets its document. Of two callers, one gets False."""

    async def remove(self, organization: OrganizationId, proposal: ProposalId) -> bool:
        """False when there is none."""


class ThingLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def of(self, organization: OrganizationId, text: str, kinds: Collection[ThingKind]) -> Sequence[FoundThing]:
        """The organization's things of these kinds whose name, short name or id has the text, some of each kind, by kind and name."""

    async def named(
        self,
        organization: OrganizationId,
        terms: Sequence[NameTerm],
        addresses: Sequence[str],
        kinds: Collection[NamedKind],
        most: int,
    ) -> Sequence[NamedOne]:
        """Those of these kinds whose names have the terms, and the people with these addresses, the best first. It costs the same whether
        an address has an account or none.
        """

    async def everywhere(self, text: str, most_read: int) -> FoundThings:
        """Organizations and applications, `most_read` of each at most, and the installation's own tiers, fields and keys."""


class DirectoriesInNeed(Frozen):
    """Runs of directories that wait for an owner, and connections whose last run has failed."""

    waiting: int
    failing: int


class DatabaseGauges(Frozen):
    """What the metrics say about the rows of the installation."""

    population: Population
    queue: Sequence[QueueState]
    audit: Backlog
    """The entries that wait to be linked."""
    billing: WaitingBillingEvents
    backup_checked: datetime | None
    """When a backup was last proved."""
    directories: DirectoriesInNeed
    keys_since: Mapping[str, datetime]
    """By purpose, since when the current signing key has been in force."""


class GaugeReader(Protocol):
    async def read(self) -> DatabaseGauges:
        """One statement and one round trip. The cost is bounded: where an exact count would read a whole table, the number is an
        estimate.
        """


class StorageSamples(Protocol):
    async def look(self) -> Storage:
        """The tables, the largest first."""

    async def keep(self) -> bool:
        """Keeps a sample of today, if there is none. Returns whether it did."""


class TextApprovalStore(Protocol):
    """Outside a unit of work, `list` and `rules` are one statement and one round trip each. The other methods need a unit of work that
    holds the platform owners.
    """

    async def list(self, limit: int, most_texts: int) -> Sequence[OrganizationTexts]:
        """Active organizations that have texts of their own: those without an approval first, of these the ones that wait longest. Behind
        `most_texts` texts, no further organization is listed.
        """

    async def hold(self, organization: OrganizationId) -> OrganizationTexts | None:
        """Without the texts themselves, which stay as they are until the unit of work ends. None when the organization has none, and no
        yes to former ones.
        """

    async def approve(self, organization: OrganizationId, version: str | None) -> None:
        """After `hold`. None takes an approval back."""

    async def rules(self) -> ApprovalRules: ...

    async def set_rules(self, rules: ApprovalRules) -> None:
        """Every process learns of it at once."""


class TodoLookup(Protocol):
    async def of(self, organization: OrganizationId, now: datetime) -> Todos:
        """One round trip. Its cost is bounded, however large the organization is."""
