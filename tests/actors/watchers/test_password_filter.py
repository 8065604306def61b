"""The watcher of the filter of breached passwords: looks at once, and every ten seconds."""

import trio

from actors.sweepers.password_filter_watcher import PasswordFilterWatcher

ON_A_JUMPING_CLOCK = True


class LookedAt:
    def __init__(self) -> None:
        self.looks: list[float] = []

    async def look(self) -> None:
        await trio.lowlevel.checkpoint()
        self.looks.append(trio.current_time())


async def test_it_looks_at_once_and_every_ten_seconds() -> None:
    file, began = LookedAt(), trio.current_time()
    with trio.move_on_after(25):
        await PasswordFilterWatcher(file).run()
    assert [round(one - began) for one in file.looks] == [0, 10, 20]
