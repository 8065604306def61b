"""The unit of work: one use case, one transaction, one connection of the pool."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated
from adapters.postgres.identity.account_passwords import AccountPasswordRows
from adapters.postgres.identity.accounts import AccountRows
from adapters.postgres.identity.devices import DeviceRows
from adapters.postgres.identity.impersonation import ImpersonationRows
from adapters.postgres.identity.login_events import LoginEventRows
from adapters.postgres.identity.mailed_tokens import MailedTokenRows
from adapters.postgres.identity.mfa import MfaRows
from adapters.postgres.identity.sessions import SessionRows
from adapters.postgres.identity.sign_in import SignInRows
from adapters.postgres.jobs import JobRows
from adapters.postgres.platform.platform_owners import PlatformOwnerRows
from adapters.postgres.record.events import EventRows
from adapters.postgres.services.api_keys import ApiKeyRows
from adapters.postgres.services.client_secrets import ClientSecretRows
from adapters.postgres.services.end_users import EndUserRows
from adapters.postgres.services.plans import PlanRows
from adapters.postgres.services.service_users import ServiceUserRows
from adapters.postgres.services.services import ServiceRows
from adapters.postgres.services.subscriptions import SubscriptionRows
from adapters.postgres.signing_keys import SigningKeyRows
from adapters.postgres.tenancy.invitations import InvitationRows
from adapters.postgres.tenancy.members import MemberRows
from adapters.postgres.tenancy.organizations import OrganizationRows
from adapters.postgres.tenancy.roles import RoleRows
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import AuditEntryId, UserId
from core.domain.record.events import Event
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
        self.account_passwords = AccountPasswordRows(transaction)
        self.platform_owners = PlatformOwnerRows(transaction)
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

    async def record_in_every_log(self, event: Event, person: UserId) -> None:
        await self._events.record_in_every_log(event, person)

    async def commit(self) -> None:
        """Shielded from cancellation, within a deadline. Afterwards the unit of work takes no further statements."""
        for topic in await self._transaction.commit():
            # The notification also comes back to this process a little later. A second ring costs one look that finds nothing.
            self._doorbell.ring(topic)


def unit_of_work(pool: Pool, ids: Ids, clock: Clock, keyring: KeyRing, doorbell: Doorbell) -> UnitOfWorkFactory:
    """Makes units of work on the pool's connections. Entering one raises `Overloaded` when no connection becomes free in time."""

    def open_unit_of_work() -> AbstractAsyncContextManager[UnitOfWork]:
        return _Opened(pool, lambda transaction: PostgresUnitOfWork(transaction, ids, clock, keyring, doorbell))

    return open_unit_of_work


class _Opened:
    """One unit of work, for the length of an `async with` block."""

    __slots__ = ("_lease", "_make", "_pipelined", "_transaction")

    def __init__(self, pool: Pool, make: Callable[[Transaction], UnitOfWork]) -> None:
        self._lease = pool.connection()
        self._make = make

    async def __aenter__(self) -> UnitOfWork:
        with translated():
            connection = await self._lease.__aenter__()
            try:
                # Sends nothing yet, and waits for nobody.
                self._pipelined = await connection.pipelined_transaction().__aenter__()
            except BaseException as error:
                await self._lease.__aexit__(type(error), error, None)
                raise
        self._transaction = Transaction(connection, self._pipelined)
        return self._make(self._transaction)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._transaction.close()
        with translated():
            try:
                await self._pipelined.__aexit__(kind, error, trace)
            finally:
                await self._lease.__aexit__(kind, error, trace)
        # What the block itself ended with, in the words of the domain.
        translated().__exit__(kind, error, trace)
