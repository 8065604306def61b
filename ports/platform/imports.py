"""The import of people: where they come from, and where they go."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import AssignmentId, IdentityId, MembershipId, PasskeyId
from core.domain.platform.imports.decisions import Decision, Facts, ImportDestination, KnownProvider, Marks
from core.domain.platform.imports.people import Found, ImportedPerson
from core.frozen import Frozen


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
