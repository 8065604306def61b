"""Mailboxes: an actor waits at its mailbox for every message that may wake the actor."""

import math
from contextlib import suppress
from typing import Self

import trio

from ports.jobs import Doorbell


class Mailbox:
    """A memory channel with room for one message. A message only says "look": the actor then looks for all of its work. So a waiting
    message stands for all messages that come after it, a full mailbox loses no work, and no kind of work crowds out another.

    The actor's object holds the mailbox, and the supervisor calls the actor's `run` again after a failure. So the next run finds a message
    that came between two runs.
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
        """Drops a waiting message. The actor calls `empty` right before a look, because that look finds the work of all messages so far."""
        with suppress(trio.WouldBlock):
            self._receiver.receive_nowait()

    async def wait(self, seconds: float = math.inf) -> bool:
        """Waits until there is a message, but no longer than so many seconds. Returns whether there was a message. Only the actor calls
        `wait`.
        """
        with trio.move_on_after(seconds):
            await self._receiver.receive()
            return True
        return False
