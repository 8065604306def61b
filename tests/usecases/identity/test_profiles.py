"""Profiles of accounts that go to another person: nothing is left of what the earlier holder said of themselves."""

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import uuid4

import pytest

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.profiles import OwnProfileChange, StatedProfile
from core.domain.languages import Language
from core.domain.record.events import SYSTEM
from core.usecases.identity.account_endings import hand_over, leave_to_another
from entrypoints.bootstrap import Postern
from ports.unit_of_work import UnitOfWork
from tests.pictures import drawn_png
from tests.usecases.identity.test_accounts import ada, postern, rows

__all__ = ["ada", "postern"]

Going = Callable[[Postern, UnitOfWork, UserId], Awaitable[object]]
_COLUMNS: Final = "name, given_name, family_name, username, zoneinfo, picture_id, profile_updated_at"


async def _disowned(postern: Postern, uow: UnitOfWork, user: UserId) -> None:
    assert await postern.identity.accounts.disown_unverified(uow, user, SYSTEM)


async def _handed_over(postern: Postern, uow: UnitOfWork, user: UserId) -> None:
    await hand_over(uow, user, postern.foundation.clock.now())


async def _moved(_postern: Postern, uow: UnitOfWork, user: UserId) -> None:
    await uow.accounts.lock_for_email_change(user)
    await leave_to_another(uow, user, SYSTEM, OrganizationId(uuid4()))


@pytest.mark.parametrize("going", [_disowned, _handed_over, _moved])
async def test_an_account_that_goes_to_another_person_keeps_no_profile(going: Going, postern: Postern, ada: UserId) -> None:
    change = OwnProfileChange(name="Ada", given_name="A", family_name="L", username="ada", zoneinfo="UTC", language=Language.GERMAN)
    await postern.identity.profiles.change(ada, change, SYSTEM, username=None)
    await postern.identity.pictures.put(ada, drawn_png(), SYSTEM)
    async with postern.foundation.unit_of_work() as uow:
        await going(postern, uow, ada)
        await uow.commit()
    (left,) = await rows(postern, f"select {_COLUMNS} from users")
    assert set(left.values()) == {None}
    assert await rows(postern, "select from pictures") == []
    assert len(await rows(postern, "select from used_usernames")) == 1


async def test_a_provider_fills_the_profile_once(postern: Postern, ada: UserId) -> None:
    for told in (
        StatedProfile(given_name="Ada", zoneinfo="Mars/Base"),
        StatedProfile(name="Eve", given_name="Eve", zoneinfo="UTC"),
        StatedProfile(),
    ):
        async with postern.foundation.unit_of_work() as uow:
            await uow.accounts.lock_for_update(ada)
            await postern.identity.profiles.fill(uow, ada, told, SYSTEM, "websuite")
            await uow.commit()
    (filled,) = await rows(postern, f"select {_COLUMNS} from users")
    assert (filled["name"], filled["given_name"], filled["zoneinfo"]) == (None, "Ada", "UTC")
    told_events = await rows(postern, "select details from audit_log where action = 'user.profile.updated' order by id")
    assert [one["details"] for one in told_events] == [
        {"changed": ["given_name"], "provider": "websuite"},
        {"changed": ["zoneinfo"], "provider": "websuite"},
    ]
