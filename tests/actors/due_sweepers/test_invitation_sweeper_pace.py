"""When the invitation sweeper looks."""

from typing import cast

import trio

from actors.sweepers import invitation_sweeper
from core.usecases.tenancy.invitations import Invitations
from tests.actors.due_sweepers.test_invitation_sweeper import DueInvitations
from tests.actors.observed import no_doubt, no_spread

ON_A_JUMPING_CLOCK = True


async def test_it_looks_when_one_is_due_and_asks_for_the_time_every_two_minutes() -> None:
    """Another process may have written an invitation that is due before the first that was known, and nobody rings."""
    due = DueInvitations(0)
    due.due_in_seconds = 1000.0
    async with trio.open_nursery() as nursery:
        await nursery.start(invitation_sweeper(cast("Invitations", due), doubt=no_doubt, spread=no_spread).run)
        await trio.sleep(200)
        assert len(due.asked) == 1
        due.rows, due.due_in_seconds = 3, 30.0
        began = trio.current_time()
        while due.rows:
            await trio.sleep(1)
        assert trio.current_time() - began <= 120 + 30 + 2
        nursery.cancel_scope.cancel()
