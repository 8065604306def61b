"""One use case, one transaction. Leaving without `commit` rolls back. No mail, HTTP call or password hash happens while one is open."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.events import Event
from ports.accounts import AccountStore
from ports.jobs import JobStore
from ports.sessions import SessionStore
from ports.signing_keys import SigningKeyStore


class UnitOfWork(Protocol):
    @property
    def accounts(self) -> AccountStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def signing_keys(self) -> SigningKeyStore: ...
    @property
    def jobs(self) -> JobStore: ...

    async def record(self, event: Event) -> None:
        """Write the event, its audit entry, and the jobs that follow from it. What a use case changes and what it says about it stand or
        fall together.
        """

    async def commit(self) -> None: ...


UnitOfWorkFactory = Callable[[], AbstractAsyncContextManager[UnitOfWork]]
