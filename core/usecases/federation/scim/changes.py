"""Changes that a directory makes. The changes of one organization run one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.domain.federation.scim.tokens import ScimHolder
from core.frozen import Frozen
from ports.turns import Turns
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Changes(Frozen):
    """Each change locks its organization's row, so the changes of an organization wait for each other in any case. Here the changes of one
    process wait without a database connection. So other requests have connections while a directory imports its people.
    """

    unit_of_work: UnitOfWorkFactory
    turns: Turns

    @asynccontextmanager
    async def one(self, holder: ScimHolder) -> AsyncIterator[UnitOfWork]:
        """Raises `Overloaded` when too many changes wait, or one waits too long."""
        async with self.turns.take(holder.organization), self.unit_of_work() as uow:
            yield uow
