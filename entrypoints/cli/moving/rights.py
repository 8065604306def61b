"""The right that moving an organization needs of the database role, beside those of serving."""

from adapters.postgres.grants import rights
from entrypoints.failures import StartFailed
from entrypoints.installation import conninfo
from entrypoints.settings import Settings


async def require_right_to_move(settings: Settings) -> None:
    """Raises `StartFailed`, before anything is read or written."""
    fault = (await rights(conninfo(settings))).fault_of_moving
    if fault is not None:
        raise StartFailed(fault)
