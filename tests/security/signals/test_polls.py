"""Polls: of another stream, with what is no longer one's own, too many at once, and with answers that are made to break something."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import uuid4

import pytest
import trio

from tests.http.client import Received
from tests.http.federation.signals.scene import POLL, STREAMS
from tests.patience import PATIENCE
from tests.security.signals.test_callers import SECRETS
from tests.security.signals.world import ListeningApplication

AT_ONCE: Final = {"returnImmediately": True}


async def test_another_stream_s_token_neither_polls_nor_acknowledges(listening: ListeningApplication) -> None:
    """Of another organization, of another application of the same one, and by the stream of a neighbour."""
    stream = await listening.polled()
    till = listening.application(listening.acme, "till", secret=True)
    await listening.turned_on(till)
    own = await listening.polled(by=till)
    await listening.leaves()
    (jti,) = await listening.fetched(stream)
    for body in (AT_ONCE, {"ack": [jti], "maxEvents": 0}, {"setErrs": {jti: {"err": "invalid_key"}}, "maxEvents": 0}):
        assert (await listening.poll(stream, by=till, **body)).status == 404
        assert (await listening.poll(str(uuid4()), by=till, **body)).status == 404
        # Their own stream takes the word, and it is about nothing of ours.
        assert (await listening.poll(own, by=till, **{**AT_ONCE, **body})).ok()["sets"] == {}
    assert (await listening.poll(stream, by=listening.theirs, **AT_ONCE)).status == 403
    assert set(await listening.fetched(stream)) == {jti}


async def test_a_neighbour_of_the_same_application_acknowledges_its_own_alone(listening: ListeningApplication) -> None:
    first = await listening.polled()
    second = str((await listening.call("POST", STREAMS, {"delivery": {"method": POLL}})).ok(201)["stream_id"])
    await listening.leaves()
    (jti,) = await listening.fetched(first)
    assert (await listening.fetched(second, ack=[jti])).keys() != {jti}
    assert set(await listening.fetched(first)) == {jti}


async def turns_off(listening: ListeningApplication) -> None:
    await listening.turned_off()


async def is_suspended(listening: ListeningApplication) -> None:
    listening.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")


async def rotates(listening: ListeningApplication) -> None:
    (old,) = (await listening.request("GET", SECRETS, by=listening.owner)).json()
    made = (await listening.request("POST", SECRETS, by=listening.owner)).ok(201)
    listening.log.remember(made["client_secret"])
    assert (await listening.request("DELETE", f"{SECRETS}/{old['id']}", by=listening.owner)).status == 204
    # A token names the second of its issue, and the rotation may end in the same one.
    listening.people.change("update all_services set credential_removed_at = credential_removed_at + interval '1 second'")


ENDS: Final[Mapping[str, Callable[[ListeningApplication], Awaitable[None]]]] = {
    "an owner turns off": turns_off,
    "the organization is suspended": is_suspended,
    "the secret is rotated": rotates,
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_poll_that_waits_hears_nothing_of_what_came_after_the_end(listening: ListeningApplication, end: str) -> None:
    answers: list[Received] = []
    async with listening.waking(longest=2.0):
        stream = await listening.polled()
        token = await listening.own_token()
        await listening.signed_in(listening.shop)

        async def polls() -> None:
            answers.append(await listening.client.request("POST", f"/ssf/poll/{stream}", body={}, token=token))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(polls)
            with trio.fail_after(PATIENCE):
                while not listening.postern.federation.signal_polls._waits.streams():  # type: ignore[attr-defined]
                    await trio.sleep(0.01)
            await ENDS[end](listening)
            (await listening.client.post("/api/auth/logout", token=await listening.people.token(listening.ada))).ok()
    (answer,) = answers
    assert b"eyJ" not in answer.body
    assert (await listening.client.request("POST", f"/ssf/poll/{stream}", body=AT_ONCE, token=token)).status in {401, 403}


async def test_of_three_hundred_polls_at_once_one_waits(listening: ListeningApplication) -> None:
    """Meanwhile nobody else waits: the others are answered, and connections of PostgreSQL are free."""
    answered: list[int] = []
    async with listening.waking():
        stream = await listening.polled()
        token = await listening.own_token()
        own = await listening.people.token(listening.ada)

        async def polls() -> None:
            answered.append((await listening.client.request("POST", f"/ssf/poll/{stream}", body={}, token=token)).status)

        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(polls)
            with trio.fail_after(PATIENCE):
                while len(answered) < 299:
                    await trio.sleep(0.01)
            for _ in range(20):
                assert (await listening.client.get("/api/user", token=own)).status == 200
            # A busy process refuses some, as it refuses any crowd.
            assert set(answered) <= {200, 503}
            nursery.cancel_scope.cancel()


HOSTILE: Final[Mapping[str, tuple[dict[str, Any], int]]] = {
    "a thousand and one": ({"ack": [str(uuid4()) for _ in range(1_001)]}, 400),
    "a long one": ({"ack": ["x" * 101]}, 400),
    "no ids": ({"ack": ["x", "", "'; drop table x --", "%", "*"]}, 200),
    "a nul": ({"ack": ["\0"]}, 400),
    "the same again and again": ({"ack": [str(uuid4())] * 1_000}, 200),
    "less than none": ({"maxEvents": -1}, 400),
    "as many as there are": ({"maxEvents": 10**18}, 200),
    "an odd error": ({"setErrs": {str(uuid4()): {"err": "\u202ea\nb"}}}, 200),
    "an error of no signal": ({"setErrs": {"x": {"err": "invalid_key"}}}, 200),
    "no error": ({"setErrs": {str(uuid4()): None}}, 400),
}


@pytest.mark.parametrize("which", HOSTILE)
async def test_a_hostile_answer_acknowledges_nothing(listening: ListeningApplication, which: str) -> None:
    body, status = HOSTILE[which]
    stream = await listening.polled()
    await listening.leaves()
    answer = await listening.poll(stream, **{**AT_ONCE, **body})
    assert answer.status == status, answer.body
    assert len(await listening.fetched(stream)) == 1


async def test_what_an_application_says_of_a_refusal_is_kept_as_a_name(listening: ListeningApplication) -> None:
    stream = await listening.polled()
    for error in ("invalid_key", "\u202egnp.exe", "a\nlevel=error", "x" * 500):
        await listening.leaves()
        (jti,) = await listening.fetched(stream)
        (await listening.poll(stream, maxEvents=0, setErrs={jti: {"err": error}})).ok()
    assert listening.errors() == ["refused: invalid_key", *["refused"] * 3]
