"""Opens a `Postern` for a command, on a database that answers and has the schema of this program."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from entrypoints.bootstrap import Postern, open_postern
from entrypoints.installation import reachable_database, require_grants, require_known_schema
from entrypoints.settings import Settings


@asynccontextmanager
async def opened_postern(settings: Settings) -> AsyncIterator[Postern]:
    """Raises `StartFailed`, with a sentence for the operator."""
    async with reachable_database(settings):
        await require_schema(settings)
        async with open_postern(settings) as postern:
            yield postern


async def require_schema(settings: Settings) -> None:
    """Checks the schema and the role's rights. The database must answer. Raises `StartFailed`."""
    await require_known_schema(settings)
    await require_grants(settings)
