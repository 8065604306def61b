"""Mailboxes: everything that wakes an actor, in one place that the actor waits at."""

import math
from contextlib import suppress
from typing import Self

import trio

from ports.jobs import Doorbell


class Mailbox:
    """A memory channel with room for one message. A message only says "look": the actor then looks at everything that is its own. So one
    message stands for all that come while it waits, a full mailbox loses nothing, and no kind of work crowds out another.

    The actor's object holds it, and `run` begins anew after a failure: a message that comes between two lives is there for the next one.
    """

    def __init__(self) -> None:
        self._sender, self._receiver = trio.open_memory_channel[None](1)

    @classmethod
    def rung_by(cls, doorbell: Doorbell, *topics: str) -> Self:
        """A mailbox that gets a message whenever the doorbell rings for one of these topics."""
        mailbox = cls()
        doorbell.connect(mailbox.post, *topics)
        return mailbox

    def post(self) -> None:
        """Never waits and never fails, so that requests may call it, too."""
        with suppress(trio.WouldBlock):
            self._sender.send_nowait(None)

    def is_full(self) -> bool:
        """Whether a message waits that the actor has not taken yet."""
        return self._receiver.statistics().current_buffer_used > 0

    def empty(self) -> None:
        """For the actor, right before it looks: what the messages until now were about, this look finds."""
        with suppress(trio.WouldBlock):
            self._receiver.receive_nowait()

    async def wait(self, seconds: float = math.inf) -> bool:
        """For the actor: until there is a message, but no longer than so many seconds. Returns whether there was one."""
        with trio.move_on_after(seconds):
            await self._receiver.receive()
            return True
        return False
