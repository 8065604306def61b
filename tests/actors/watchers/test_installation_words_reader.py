"""The reader of the installation's words: at its start, and whenever somebody rings."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.foundation import Mailbox
from actors.watchers import InstallationWordsReader
from adapters.system import SystemClock
from core.domain.texts.own_texts import ApprovalRules, InstallationWords
from core.usecases.installation_words import KeptInstallationWords

pytestmark = pytest.mark.usefixtures("mock_clock")


class Lookup:
    def __init__(self) -> None:
        self.words = InstallationWords()
        self.asked = 0

    async def get(self) -> InstallationWords:
        self.asked += 1
        return self.words


async def test_words_are_read_at_the_start_and_after_each_ring() -> None:
    lookup, mailbox = Lookup(), Mailbox()
    words = KeptInstallationWords(lookup, SystemClock())
    reader = InstallationWordsReader(words, mailbox, spread=lambda: 0.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: reader.run(task_status=task_status))
        await wait_all_tasks_blocked()
        assert (lookup.asked, words.current.rules) == (1, ApprovalRules())
        lookup.words = InstallationWords(rules=ApprovalRules(mails=False))
        mailbox.post()
        await wait_all_tasks_blocked()
        assert (lookup.asked, words.current.rules.mails) == (2, False)
        nursery.cancel_scope.cancel()
