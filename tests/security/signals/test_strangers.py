"""An organization lists Ada of the bank, or Ada only signed in at its application: what do its streams hear of her?"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from tests.http.client import Received
from tests.receiver import answering, receiving
from tests.security.signals.world import ADA, ListeningApplication

Way = Callable[[ListeningApplication], Awaitable[Received]]
WAYS: Final[Mapping[str, Way]] = {"a key": ListeningApplication.listed_by_key, "a directory": ListeningApplication.listed_by_directory}


@pytest.mark.parametrize("way", WAYS)
async def test_of_a_listed_stranger_nothing_is_told(listening: ListeningApplication, way: str) -> None:
    async with receiving(answering(202)) as receiver, listening.dispatching():
        await listening.spied(receiver)
        ada = await listening.banker()
        assert (await WAYS[way](listening)).status in {200, 201}
        await listening.lives(ada)
        await listening.locked(ada)
        await listening.silent(receiver)
    assert listening.queued() == []


async def test_a_listed_stranger_who_confirms_is_told_of(listening: ListeningApplication) -> None:
    """The other side: what was silent above can speak."""
    async with receiving(answering(202)) as receiver, listening.dispatching():
        await listening.spied(receiver)
        ada = await listening.banker()
        assert (await listening.listed_by_key()).status == 200
        listening.tenants.join(ada, listening.globex)
        listening.people.change("update service_users set own_since = now() where user_id = %s", ada.user)
        await listening.signed_in(listening.theirs, ada)
        await listening.lives(ada)
        await listening.locked(ada)
        await listening.settled()
        assert set(listening.queued()) == {
            "session-revoked",
            "security.password.changed",
            "security.passkeys.changed",
            "security.account.locked",
        }
        assert len(receiver.calls) >= 4


async def test_a_stream_tells_nobody_whether_an_address_is_known(listening: ListeningApplication) -> None:
    """Somebody who is listed and somebody who does not exist are one to a stream."""
    async with receiving(answering(202)) as receiver, listening.dispatching():
        await listening.spied(receiver)
        await listening.banker()
        for email in (ADA, "nobody@bank.example"):
            assert (await listening.listed_by_key(email)).status == 200
        await listening.silent(receiver)
    assert listening.queued() == []


async def test_of_somebody_who_only_signed_in_the_sign_out_alone_is_told(listening: ListeningApplication) -> None:
    async with receiving(answering(202)) as receiver, listening.dispatching():
        await listening.spied(receiver)
        ada = await listening.banker()
        await listening.signed_in(listening.theirs, ada)
        await listening.lives(ada)
        await listening.locked(ada)
        await receiver.until(1)
        await listening.settled()
    assert set(listening.queued()) == {"session-revoked"}
    assert not [call for call in receiver.calls if b"bank.example" in call.body]


async def test_who_was_removed_and_listed_again_is_listed(listening: ListeningApplication) -> None:
    """The organization cannot turn a tie that has ended into one of Ada's own."""
    async with receiving(answering(202)) as receiver:
        await listening.spied(receiver)
        ada = await listening.banker()
        listening.tenants.join(ada, listening.globex)
        await listening.signed_in(listening.theirs, ada)
        assert (await listening.by_key("DELETE", f"/{ada.user}")).status in {200, 204}
        assert (await listening.listed_by_key()).status == 200
        before = listening.queued()
        await listening.lives(ada)
        await listening.locked(ada)
    assert listening.queued() == before
