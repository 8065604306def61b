"""Changes that a directory makes: one of an organization's after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.domain.federation.scim.tokens import ScimHolder
from core.frozen import Frozen
from ports.turns import Turns
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Changes(Frozen):
    """Each holds its organization's row, so they wait for each other in any case. Here those of one process wait without a connection and
    without work for the database, which leaves both to everybody else while a directory imports its people.
    """

    unit_of_work: UnitOfWorkFactory
    turns: Turns

    @asynccontextmanager
    async def one(self, holder: ScimHolder) -> AsyncIterator[UnitOfWork]:
        """Raises `Overloaded` when too many wait, or for too long."""
        async with self.turns.take(holder.organization), self.unit_of_work() as uow:
            yield uow
