"""The end of all access to an account: every way ends the same things, and no two of the ways deadlock."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import trio

from core.domain.identifiers import PrivacyRequestId, UserId
from core.domain.mail import Email
from core.usecases.identity.account_endings import end_access
from entrypoints.bootstrap import Postern
from tests.http.cast import all_at_once
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, SAFARI, Browser, enable_mfa, unlimited

ANOTHER = "the sun over the mountains"


@dataclass
class AccountAccessScene:
    """Ada, with a second factor, a trusted device, and another signed-in device."""

    postern: Postern
    people: People
    client: Client
    ada: Person
    trusted: Browser


async def trusting(postern: Postern, people: People, email: str = "ada@example.org") -> AccountAccessScene:
    client = unlimited(postern)
    ada = await people.with_password(PASSWORD, email)
    totp = await enable_mfa(client, people, ada)
    trusted = Browser(client)
    preauth = (await trusted.tokens(ada))["access_token"]
    assert (await trusted.verify(preauth, totp.now(), trust_device=True)).status == 200
    return AccountAccessScene(postern, people, client, ada, trusted)


@dataclass
class LockQueue:
    """Our statements that wait for a row's lock, in the order in which they came."""

    nursery: trio.Nursery
    people: People
    length: int = 0

    async def join(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Starts the statement, and returns once it waits, too."""
        self.nursery.start_soon(call)
        self.length += 1
        await self.people.all_wait(self.length)


@asynccontextmanager
async def queue_for(people: People, database_url: str, rows: str) -> AsyncIterator[LockQueue]:
    """Another transaction locks these rows until the queue has formed."""
    async with trio.open_nursery() as nursery:
        with psycopg.connect(database_url) as holder:
            holder.execute(f"{rows} for update".encode())
            yield LockQueue(nursery, people)


async def test_a_password_change_beside_the_revocation_of_a_trusted_device(postern: Postern, people: People, database_url: str) -> None:
    """Both lock the device and its sessions. In different orders, the first would hold the sessions and wait for the device, while the
    second held the device and waited for the sessions: a deadlock, which ends one of them with an error in the log, and fails the test.
    """
    scene = await trusting(postern, people)
    changing, revoking = people.session_of(scene.ada), people.session_of(scene.ada)
    (device,) = people.rows("select id from devices where trusted_until is not null")
    answers: list[Received] = []

    async def change() -> None:
        body = {"current_password": PASSWORD, "new_password": ANOTHER}
        answers.append(await scene.client.post("/api/user/change-password", body, token=await people.token(changing)))

    async def revoke() -> None:
        path = f"/api/user/devices/{device['id']}"
        answers.append(await scene.client.request("DELETE", path, token=await people.token(revoking)))

    on_it = f"select from sessions where device_id = '{device['id']}'"
    async with queue_for(people, database_url, on_it) as queue:
        await queue.join(change)
        await queue.join(revoke)
    assert [answer.status for answer in answers] == [200, 200]
    assert people.rows(f"{on_it} and revoked_at is null") == []


@pytest.mark.parametrize("by", ["deletion", "deactivation", "reset", "disowning"])
async def test_a_sign_in_with_a_trusted_device_beside_the_end_of_the_account(
    postern: Postern, people: People, database_url: str, by: str
) -> None:
    """Both lock the account and the device. In different orders, each could hold one and wait for the other."""
    scene = await trusting(postern, people)
    administration = postern.platform.account_administration
    user, email = UserId(scene.ada.user), Email(scene.ada.email)
    answers: list[Received] = []

    async def end() -> None:
        if by == "deactivation":
            await administration.deactivate(email, "test")
        elif by == "reset":
            await administration.reset_password(email, "test", by_mail=False)
        else:
            async with postern.foundation.unit_of_work() as uow:
                await uow.accounts.lock_for_update(user)
                if by == "deletion":
                    await uow.service_users.delete_account(user, PrivacyRequestId(uuid4()), datetime.now(UTC))
                else:
                    await end_access(uow, user, postern.foundation.clock.now())
                await uow.commit()

    async def sign_in() -> None:
        answers.append(await scene.trusted.login(scene.ada))

    async with queue_for(people, database_url, "select from users") as queue:
        await queue.join(end)
        await queue.join(sign_in)
        await queue.join(sign_in)
    # The credentials that they checked are no longer valid, or their device is no longer trusted.
    assert [answer.status for answer in answers] == [401, 401]


async def test_a_code_beside_the_end_of_the_account(postern: Postern, people: People) -> None:
    """Both lock the account before the half-done sign-in."""
    for turn in range(4):
        scene = await trusting(postern, people, f"ada{turn}@example.org")
        stranger = Browser(scene.client, SAFARI)
        preauths = [(await stranger.tokens(scene.ada))["access_token"] for _ in range(6)]
        calls = [partial(stranger.verify, one, "ABCD-EFGH") for one in preauths]
        end = partial(postern.platform.account_administration.reset_password, Email(scene.ada.email), "test", by_mail=False)
        await all_at_once(*calls[:3], end, *calls[3:])
        waiting = people.rows("select from preauthentications where consumed_at is null and user_id = %s", scene.ada.user)
        assert waiting == []
