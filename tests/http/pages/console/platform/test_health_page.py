"""The page of the installation's health."""

import re

from core.domain.backups import BACKUP_CHECKED
from core.domain.record.events import SYSTEM, Event, Target
from tests.http.pages.console.platform.conftest import PlatformScene


async def test_it_shows_when_a_backup_was_last_verified(platform: PlatformScene) -> None:
    fact = re.compile(rb"Last verified backup(.*?)</div>", re.DOTALL)
    assert fact.findall((await platform.at("/health")).shown.body) == []
    async with platform.postern.foundation.unit_of_work() as uow:
        await uow.record(Event(BACKUP_CHECKED, SYSTEM, Target("backup", "a backup"), details={"proved": True}))
        await uow.commit()
    (now,) = fact.findall((await platform.at("/health")).shown.body)
    assert f'datetime="{platform.postern.foundation.clock.now():%Y-%m-%d}'.encode() in now
