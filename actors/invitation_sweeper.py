"""The invitation sweeper: closes overdue invitations."""

from collections.abc import Callable
from typing import Final

import structlog

from actors.due_sweeper import DueSweeper
from core.usecases.tenancy.invitations import Invitations

log = structlog.get_logger()

_INTERVAL: Final = 60.0
# A person who answers one of these invitations may have to wait for the whole batch, so it is small.
_BATCH: Final = 50


class InvitationSweeper(DueSweeper):
    name = "invitation_sweeper"

    def __init__(self, invitations: Invitations, *, spread: Callable[[], float], interval: float = _INTERVAL, batch: int = _BATCH) -> None:
        super().__init__(invitations.expire_due, spread=spread, interval=interval, batch=batch)

    def _tell(self, total: int) -> None:
        log.info("invitations_expired", invitations=total)
