"""The invitation sweeper: closes the invitations whose time has passed."""

from collections.abc import Callable
from typing import Final

import structlog

from actors.due_sweeper import DueSweeper
from core.usecases.invitations import Invitations

log = structlog.get_logger()

_INTERVAL: Final = 60.0
# What a batch locks, whoever answers one of these invitations may have to wait for: some milliseconds.
_BATCH: Final = 50


class InvitationSweeper(DueSweeper):
    name = "invitation_sweeper"

    def __init__(self, invitations: Invitations, *, spread: Callable[[], float], interval: float = _INTERVAL, batch: int = _BATCH) -> None:
        super().__init__(invitations.expire_due, spread=spread, interval=interval, batch=batch)

    def _tell(self, total: int) -> None:
        log.info("invitations_expired", invitations=total)
