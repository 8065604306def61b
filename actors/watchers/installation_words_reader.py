"""The reader of the installation's own texts and of the rules for approvals: each process reads them at its start, and again whenever
somebody has changed them, in whichever process.
"""

from collections.abc import Callable
from typing import Final

import trio

from actors.heartbeats import turned
from actors.mailbox import Mailbox
from actors.outages import Outage
from core.usecases.installation_words import KeptInstallationWords

# A process whose listener is away for a moment hears no ring.
_INTERVAL: Final = 10.0


class InstallationWordsReader:
    name = "installation_words_reader"

    def __init__(self, words: KeptInstallationWords, mailbox: Mailbox, *, spread: Callable[[], float], interval: float = _INTERVAL) -> None:
        self._words = words
        self._mailbox = mailbox
        self._interval = interval
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=self._interval)
            self._mailbox.empty()
            await self._outage.wait_out(self._words.read)
            await self._mailbox.wait(self._interval)
