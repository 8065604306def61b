"""An application fetches what waits for its stream, and says what it has received (RFC 8936)."""

from typing import Any
from uuid import uuid4

import pytest
import trio

from core.domain.federation.signals import MOST_POLLS_OF_ORGANIZATION
from tests.http.federation.signals.scene import CAEP, POLL, SSF, STATUS, STREAMS, VERIFY, Signalling, delivery
from tests.http.people import BASE_URL
from tests.patience import PATIENCE
from tests.receiver import answering, receiving


async def verification(signalling: Signalling, stream: str, state: str = "b3Blbg") -> None:
    signalling.people.change("update signal_streams set verified_at = null")
    assert (await signalling.call("POST", VERIFY, {"stream_id": stream, "state": state})).status == 204


async def waits(signalling: Signalling, number: int = 1) -> None:
    """So many polls wait."""
    polls: Any = signalling.postern.federation.signal_polls
    with trio.fail_after(PATIENCE):
        while len(polls._waits.streams()) < number:
            await trio.sleep(0.01)


async def test_both_queues_are_polled_and_acknowledged(signalling: Signalling) -> None:
    stream = await signalling.polled()
    person = await signalling.leaves()
    await verification(signalling, stream)
    found = await signalling.fetched(stream)
    assert [next(iter(one["events"])) for one in found.values()] == [f"{CAEP}session-revoked", f"{SSF}verification"]
    assert [one["jti"] for one in found.values()] == list(found)
    ended, verified = found.values()
    assert ended["sub_id"] == {"format": "iss_sub", "iss": BASE_URL, "sub": person}
    assert verified["sub_id"] == {"format": "opaque", "id": stream}
    # What is not acknowledged comes again.
    assert await signalling.fetched(stream) == found
    assert await signalling.fetched(stream, ack=[ended["jti"]]) == {verified["jti"]: verified}
    answer = (
        await signalling.poll(stream, returnImmediately=True, setErrs={verified["jti"]: {"err": "invalid_key", "description": "x"}})
    ).ok()
    assert answer == {"sets": {}, "moreAvailable": False}
    assert (signalling.waiting(), signalling.errors()) == (0, [None, "refused: invalid_key"])
    told = signalling.people.rows(
        "select delivered_at is not null as told from logout_notices where stream_id is not null"
        " union all select delivered_at is not null from webhook_deliveries where kind = 'signal'"
    )
    assert [row["told"] for row in told] == [True, False]


async def test_no_more_come_than_were_asked_for(signalling: Signalling) -> None:
    stream = await signalling.polled()
    for state in "abc":
        await verification(signalling, stream, state)
    answer = (await signalling.poll(stream, maxEvents=2, returnImmediately=True)).ok()
    assert (len(answer["sets"]), answer["moreAvailable"]) == (2, True)
    # With none, the application only acknowledges, and does not wait.
    answer = (await signalling.poll(stream, maxEvents=0, ack=list(answer["sets"]))).ok()
    assert answer == {"sets": {}, "moreAvailable": True}
    (last,) = (await signalling.fetched(stream, maxEvents=2)).values()
    assert last["events"] == {f"{SSF}verification": {"state": "c"}}
    assert (await signalling.poll(stream, maxEvents=0, ack=[last["jti"]])).ok() == {"sets": {}, "moreAvailable": False}
    assert (await signalling.poll(stream, maxEvents=-1)).status == 400


async def test_a_poll_waits_for_what_comes(signalling: Signalling) -> None:
    stream = await signalling.polled()
    answers: list[dict[str, Any]] = []
    async with signalling.waking(), trio.open_nursery() as nursery:

        async def poll() -> None:
            answers.append((await signalling.poll(stream)).ok())

        nursery.start_soon(poll)
        await waits(signalling)
        # It holds no connection meanwhile.
        with trio.fail_after(PATIENCE):
            while (state := signalling.postern.foundation.database.pool_state()).connections != state.idle:
                await trio.sleep(0.01)
        await signalling.leaves()
        with trio.fail_after(PATIENCE / 2):
            while not answers:
                await trio.sleep(0.01)
    assert len(answers[0]["sets"]) == 1


async def test_a_wait_ends(signalling: Signalling) -> None:
    stream = await signalling.polled()
    async with signalling.waking(0.05):
        assert (await signalling.poll(stream)).ok() == {"sets": {}, "moreAvailable": False}
    # Nobody looks any more, as while the process stops: nobody waits.
    assert (await signalling.poll(stream)).ok()["sets"] == {}


async def test_the_end_of_the_process_ends_waits(signalling: Signalling) -> None:
    stream = await signalling.polled()
    async with trio.open_nursery() as nursery:
        async with signalling.waking():
            nursery.start_soon(signalling.poll, stream)
            await waits(signalling)
        with trio.fail_after(PATIENCE / 2):
            while nursery.child_tasks:
                await trio.sleep(0.01)


async def test_one_poll_of_a_stream_waits(signalling: Signalling) -> None:
    stream = await signalling.polled()
    other = await signalling.polled(by=signalling.shop)
    async with signalling.waking(), trio.open_nursery() as nursery:
        nursery.start_soon(signalling.poll, stream)
        await waits(signalling)
        with trio.fail_after(PATIENCE / 2):
            assert (await signalling.poll(stream)).ok()["sets"] == {}
        # Another stream has a place of its own.
        nursery.start_soon(signalling.poll, other)
        await waits(signalling, 2)
        nursery.cancel_scope.cancel()


async def test_twenty_polls_of_an_organization_wait(signalling: Signalling) -> None:
    await signalling.turned_on()
    polls: Any = signalling.postern.federation.signal_polls
    async with signalling.waking(), trio.open_nursery() as nursery:
        stream = await signalling.polled()
        # Twenty streams need several applications. Their places are what counts.
        for _ in range(MOST_POLLS_OF_ORGANIZATION):
            nursery.start_soon(polls.wait, signalling.acme.id, uuid4())
        await waits(signalling, MOST_POLLS_OF_ORGANIZATION)
        with trio.fail_after(PATIENCE / 2):
            assert (await signalling.poll(stream)).ok()["sets"] == {}
            for number in range(200 - MOST_POLLS_OF_ORGANIZATION):
                nursery.start_soon(polls.wait, f"organization {number}", uuid4())
            await waits(signalling, 200)
            assert not await polls.wait(signalling.globex.id, uuid4())
        nursery.cancel_scope.cancel()


async def test_a_stream_of_others_is_not_polled(signalling: Signalling) -> None:
    stream = await signalling.polled()
    await signalling.leaves()
    stranger = signalling.resident(signalling.globex, "owner")
    path = "/api/organizations/globex/services/shop/signals"
    (await signalling.request("PUT", path, {"events": ["session-revoked"]}, by=stranger)).ok()
    await signalling.turned_on(signalling.page)
    (jti,) = await signalling.fetched(stream)
    mine = await signalling.polled(by=signalling.theirs)
    for target in (stream, str(uuid4())):
        answer = await signalling.poll(target, by=signalling.theirs, ack=[jti], returnImmediately=True)
        assert answer.status == 404
    # A `jti` of another stream's is no answer to a signal of one's own.
    (await signalling.poll(mine, by=signalling.theirs, ack=[jti, "x"], setErrs={jti: {"err": "x"}}, returnImmediately=True)).ok()
    assert set(await signalling.fetched(stream)) == {jti}
    assert (await signalling.client.post(f"/ssf/poll/{stream}", {})).status == 401


async def test_a_stream_that_is_pushed_is_not_polled(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        stream = (await signalling.listening(receiver))["stream_id"]
        assert (await signalling.poll(stream, returnImmediately=True)).status == 404
        await signalling.leaves()
        # Its application polls from now on, and gets what waits.
        changed = (await signalling.call("PATCH", STREAMS, {"stream_id": stream, "delivery": {"method": POLL}})).ok()
        assert changed["delivery"] == {"method": POLL, "endpoint_url": f"{BASE_URL}/ssf/poll/{stream}"}
        (await signalling.call("PATCH", STREAMS, changed)).ok()
        (jti,) = await signalling.fetched(stream)
        async with signalling.dispatching():
            await trio.sleep(0.3)
            assert receiver.calls == []
        # And back.
        (await signalling.call("PATCH", STREAMS, {"stream_id": stream, "delivery": delivery(receiver.port)})).ok()
        async with signalling.dispatching():
            (claims,) = await signalling.heard(receiver)
        assert claims["jti"] == jti


async def test_a_paused_stream_keeps_what_comes(signalling: Signalling) -> None:
    stream = await signalling.polled()
    (await signalling.call("POST", STATUS, {"stream_id": stream, "status": "paused"})).ok()
    await signalling.leaves()
    assert await signalling.fetched(stream) == {}
    (await signalling.call("POST", STATUS, {"stream_id": stream, "status": "enabled"})).ok()
    assert len(await signalling.fetched(stream)) == 1


async def test_two_sessions_that_end_at_once_are_polled_as_one(signalling: Signalling) -> None:
    stream = await signalling.polled()
    for _ in range(2):
        await signalling.signed_in(signalling.shop)
    (await signalling.client.post("/api/auth/logout", token=await signalling.people.token(signalling.ada))).ok()
    assert len(await signalling.fetched(stream)) == 1
    assert sorted(map(str, signalling.errors())) == ["None", "told_with_another"]


async def test_a_session_beside_others_is_not_polled(signalling: Signalling) -> None:
    stream = await signalling.polled()
    await signalling.signed_in(signalling.shop)
    await signalling.leaves()
    assert await signalling.fetched(stream) == {}
    assert signalling.errors() == ["no_longer_told"]


async def test_what_may_not_be_told_any_more_is_not_polled(signalling: Signalling) -> None:
    stream = await signalling.polled()
    signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
    token = await signalling.people.token(signalling.ada)
    (await signalling.client.post("/api/user/set-password", {"new_password": "thirteen plums in a row"}, token=token)).ok()
    assert len(await signalling.fetched(stream)) == 1
    removed = await signalling.request("POST", f"/api/organizations/acme/members/{signalling.ada.user}", by=signalling.owner)
    assert removed.status in {200, 204}
    found = await signalling.fetched(stream)
    assert f"{CAEP}credential-change" not in [uri for one in found.values() for uri in one["events"]]
    assert "no_longer_told" in signalling.errors()


@pytest.mark.parametrize("body", [{"ack": "x"}, {"maxEvents": "3"}, {"setErrs": {"x": "y"}}])
async def test_what_is_no_poll_is_refused(signalling: Signalling, body: dict[str, Any]) -> None:
    stream = await signalling.polled()
    assert (await signalling.poll(stream, **body)).status == 400
