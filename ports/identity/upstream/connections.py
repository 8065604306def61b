"""What a sign-in by SAML, a test and a sign-out of a directory need from the database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, SessionId, UpstreamProviderId, UserId
from core.domain.identity.upstream.connection_tests import ConnectionTest, NewConnectionTest
from core.domain.identity.upstream.directories import AskedDirectory, AskedPassword, ConnectedDirectory, NewAnswer
from core.domain.identity.upstream.directory_visits import DirectoryVisit
from core.domain.identity.upstream.exchanges import ConnectionExchange


class ConnectionLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def directory(self, provider: UpstreamProviderId) -> ConnectedDirectory | None: ...

    async def asked(self, provider: UpstreamProviderId, state_digest: bytes) -> AskedDirectory | None:
        """The provider, and what is known of this state. None when there is no such provider."""

    async def asked_password(self, provider: UpstreamProviderId, state_digest: bytes, browser: bytes) -> AskedPassword | None:
        """A directory by LDAP, and what is known of this state in this browser. None when there is no such directory."""

    async def proved_domains(self, organization: OrganizationId) -> frozenset[str]:
        """The mail domains that the organization has proved."""

    async def keep(self, answer: NewAnswer) -> bool:
        """False when the assertion has come before: nothing is stored then."""

    async def redeem(self, provider: UpstreamProviderId, code_digest: bytes) -> tuple[bytes, str] | None:
        """The sealed answer that waits for this code, once, with the context that it is sealed for."""

    async def exchanges(self, organization: OrganizationId, provider: UpstreamProviderId) -> Sequence[ConnectionExchange] | None:
        """Newest first. None when the organization has no such provider."""

    async def test(self, digest: bytes) -> ConnectionTest | None:
        """The test with this state, until it expires."""

    async def begin_test(self, digest: bytes, browser: bytes, now: datetime) -> ConnectionTest | None:
        """Gives the test to the browser that opens it first. None when another browser has it, or when it is over."""


class ConnectionExchangeStore(Protocol):
    async def add(self, exchanges: Sequence[ConnectionExchange]) -> None:
        """Adds exchanges, and drops the oldest of each provider when there are too many. Those that are counted are added to the entry that
        counts them; a call has at most one for each such entry.
        """


class ConnectionRecorder(Protocol):
    """An actor implements it."""

    def record(self, exchange: ConnectionExchange) -> None:
        """Never waits and never fails."""


class ConnectionTestStore(Protocol):
    """In a unit of work."""

    async def add(self, test: NewConnectionTest) -> None:
        """The former tests of the provider that nobody has finished end."""

    async def finish(self, digest: bytes, *, succeeded: bool, sealed_result: bytes, now: datetime, expires_at: datetime) -> bool:
        """False when the test is over, or has a result already."""


class DirectorySessionStore(Protocol):
    """In a unit of work."""

    async def keep(self, session: SessionId, visit: DirectoryVisit, now: datetime) -> None:
        """The directory that has opened the session, or has proved its person again."""

    async def of_name(
        self, provider: UpstreamProviderId, name_digest: bytes, indexes: Sequence[str], asked_at: datetime
    ) -> Sequence[tuple[SessionId, UserId]]:
        """The living sessions of the person with this name at the directory, whose assertions it made before it asked; with indexes, those
        alone.
        """
