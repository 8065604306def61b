"""What a command works with: the services, on a database that answers and has the schema of this program."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapters.postgres.migrate import SchemaMismatch, require_current
from entrypoints.bootstrap import Services, open_services
from entrypoints.failures import StartFailed
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings


@asynccontextmanager
async def opened_services(settings: Settings) -> AsyncIterator[Services]:
    """Raises `StartFailed`, with a sentence for the operator."""
    async with reachable_database(settings):
        await require_schema(settings)
        async with open_services(settings) as services:
            yield services


async def require_schema(settings: Settings) -> None:
    """Raises `StartFailed`. For whoever has a database that answers."""
    try:
        await require_current(conninfo(settings))
    except SchemaMismatch as error:
        raise StartFailed(str(error)) from error
