"""The unit of work: one use case, one transaction, one connection of the pool."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from adapters.postgres.accounts import AccountRows
from adapters.postgres.api_keys import ApiKeyRows
from adapters.postgres.client_secrets import ClientSecretRows
from adapters.postgres.devices import DeviceRows
from adapters.postgres.end_users import EndUserRows
from adapters.postgres.events import EventRows
from adapters.postgres.failures import translated
from adapters.postgres.impersonations import ImpersonationRows
from adapters.postgres.invitations import InvitationRows
from adapters.postgres.jobs import JobRows
from adapters.postgres.login_events import LoginEventRows
from adapters.postgres.mailed_tokens import MailedTokenRows
from adapters.postgres.members import MemberRows
from adapters.postgres.mfa import MfaRows
from adapters.postgres.organizations import OrganizationRows
from adapters.postgres.plans import PlanRows
from adapters.postgres.pool import Pool
from adapters.postgres.roles import RoleRows
from adapters.postgres.service_users import ServiceUserRows
from adapters.postgres.services import ServiceRows
from adapters.postgres.sessions import SessionRows
from adapters.postgres.sign_in import SignInRows
from adapters.postgres.signing_keys import SigningKeyRows
from adapters.postgres.subscriptions import SubscriptionRows
from adapters.postgres.transaction import Transaction
from core.domain.events import Event
from core.domain.identifiers import AuditEntryId
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.ids import Ids
from ports.jobs import Doorbell
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class PostgresUnitOfWork:
    """Implements `ports.unit_of_work.UnitOfWork`."""

    def __init__(self, transaction: Transaction, ids: Ids, clock: Clock, keyring: KeyRing, doorbell: Doorbell) -> None:
        self._transaction = transaction
        self._doorbell = doorbell
        self._events = EventRows(transaction, ids, clock)
        self.accounts = AccountRows(transaction)
        self.sessions = SessionRows(transaction)
        self.sign_ins = SignInRows(transaction)
        self.login_events = LoginEventRows(transaction)
        self.devices = DeviceRows(transaction)
        self.mfa = MfaRows(transaction, ids, clock)
        self.mailed_tokens = MailedTokenRows(transaction)
        self.impersonations = ImpersonationRows(transaction)
        self.organizations = OrganizationRows(transaction)
        self.members = MemberRows(transaction)
        self.roles = RoleRows(transaction)
        self.api_keys = ApiKeyRows(transaction)
        self.client_secrets = ClientSecretRows(transaction)
        self.plans = PlanRows(transaction)
        self.service_users = ServiceUserRows(transaction)
        self.services = ServiceRows(transaction)
        self.subscriptions = SubscriptionRows(transaction)
        self.invitations = InvitationRows(transaction)
        self.end_users = EndUserRows(transaction)
        self.signing_keys = SigningKeyRows(transaction)
        self.jobs = JobRows(transaction, ids, keyring)

    async def record(self, event: Event) -> AuditEntryId | None:
        return await self._events.record(event)

    async def record_all(self, events: Sequence[Event]) -> None:
        await self._events.record_all(events)

    async def commit(self) -> None:
        """Shielded from cancellation, within a deadline. Afterwards the unit of work takes no further statement."""
        for topic in await self._transaction.commit():
            # The notification comes back to this process too, a little later; a second ring costs one look that finds nothing.
            self._doorbell.ring(topic)


def unit_of_work(pool: Pool, ids: Ids, clock: Clock, keyring: KeyRing, doorbell: Doorbell) -> UnitOfWorkFactory:
    """Makes units of work on the pool's connections. Entering one raises `Overloaded` when no connection becomes free in time."""

    @asynccontextmanager
    async def open_one() -> AsyncIterator[UnitOfWork]:
        with translated():
            async with pool.connection() as connection, connection.pipelined_transaction() as pipelined:
                transaction = Transaction(connection, pipelined)
                try:
                    yield PostgresUnitOfWork(transaction, ids, clock, keyring, doorbell)
                finally:
                    transaction.close()

    def open_unit_of_work() -> AbstractAsyncContextManager[UnitOfWork]:
        return open_one()

    return open_unit_of_work
