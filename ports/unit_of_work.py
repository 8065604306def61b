"""One use case, one transaction. Leaving without `commit` rolls back. No mail, HTTP call or password hash happens while one is open."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.events import Event
from core.domain.identifiers import AuditEntryId
from ports.accounts import AccountStore
from ports.devices import DeviceStore
from ports.impersonations import ImpersonationStore
from ports.jobs import JobStore
from ports.login_events import LoginEventStore
from ports.mailed_tokens import MailedTokenStore
from ports.mfa import MfaStore
from ports.sessions import SessionStore
from ports.sign_in import SignInStore
from ports.signing_keys import SigningKeyStore


class UnitOfWork(Protocol):
    @property
    def accounts(self) -> AccountStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def sign_ins(self) -> SignInStore: ...
    @property
    def login_events(self) -> LoginEventStore: ...
    @property
    def devices(self) -> DeviceStore: ...
    @property
    def mfa(self) -> MfaStore: ...
    @property
    def mailed_tokens(self) -> MailedTokenStore: ...
    @property
    def impersonations(self) -> ImpersonationStore: ...
    @property
    def signing_keys(self) -> SigningKeyStore: ...
    @property
    def jobs(self) -> JobStore: ...

    async def record(self, event: Event) -> AuditEntryId | None:
        """Write the event, its audit entry, and the jobs that follow from it. What a use case changes and what it says about it stand or
        fall together. None when the event is not audited.
        """

    async def commit(self) -> None: ...


UnitOfWorkFactory = Callable[[], AbstractAsyncContextManager[UnitOfWork]]
