"""A stream hears of itself: that its organization's suspension pauses it, and that signals were dropped."""

from typing import Any

import trio

from core.domain.federation import signals as domain
from tests.http.federation.signals.scene import CAEP, SSF, STATUS, Signalling
from tests.patience import PATIENCE
from tests.receiver import answering, receiving

UPDATED = f"{SSF}stream-updated"


async def suspend(signalling: Signalling, action: str = "suspend") -> None:
    keeper = await signalling.people.token(signalling.people.proved(platform_owner=True), is_platform_owner=True)
    path = f"/api/platform/organizations/{signalling.acme.id}/{action}"
    (await signalling.client.post(path, {"reason": "Unpaid"} if action == "suspend" else {}, token=keeper)).ok()


def updates(found: list[dict[str, Any]]) -> list[str]:
    return [one["events"][UPDATED]["status"] for one in found if UPDATED in one["events"]]


async def test_a_suspension_pauses_and_resumes_streams(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        stream = await signalling.listening(receiver)
        await signalling.leaves()
        assert signalling.waiting() == 1
        await suspend(signalling)
        async with signalling.dispatching():
            (told,) = await signalling.heard(receiver)
            assert told["sub_id"] == {"format": "opaque", "id": stream["stream_id"]}
            assert told["events"][UPDATED]["status"] == "paused"
            assert "suspended" in told["events"][UPDATED]["reason"]
            # What waited goes on waiting.
            with trio.fail_after(PATIENCE):
                while signalling.waiting() != 1:
                    await trio.sleep(0.01)
            await suspend(signalling, "activate")
            found = await signalling.heard(receiver, 3)
    assert updates(found) == ["paused", "enabled"]
    assert f"{CAEP}session-revoked" in [uri for one in found for uri in one["events"]]


async def test_nothing_is_queued_while_an_organization_is_suspended(signalling: Signalling) -> None:
    stream = await signalling.polled()
    await signalling.signed_in(signalling.shop)
    await suspend(signalling)
    waiting = signalling.waiting()
    token = await signalling.people.token(signalling.ada)
    (await signalling.client.post("/api/auth/logout", token=token)).ok()
    assert signalling.waiting() == waiting
    await suspend(signalling, "activate")
    assert updates(list((await signalling.fetched(stream)).values())) == ["paused", "enabled"]


async def test_streams_that_the_application_has_paused_hear_of_no_suspension(signalling: Signalling) -> None:
    stream = await signalling.polled()
    (await signalling.call("POST", STATUS, {"stream_id": stream, "status": "paused"})).ok()
    await suspend(signalling)
    await suspend(signalling, "activate")
    assert signalling.waiting() == 0


async def test_streams_of_others_hear_of_no_suspension(signalling: Signalling) -> None:
    stranger = signalling.resident(signalling.globex, "owner")
    path = "/api/organizations/globex/services/shop/signals"
    (await signalling.request("PUT", path, {"events": ["session-revoked"]}, by=stranger)).ok()
    await signalling.polled(by=signalling.theirs)
    await signalling.turned_on()
    await suspend(signalling)
    assert signalling.waiting() == 0


async def test_what_was_dropped_is_told_once(signalling: Signalling) -> None:
    stream = await signalling.polled()
    other = await signalling.polled(by=signalling.shop)
    await signalling.leaves()
    await signalling.leaves()
    jtis = list(await signalling.fetched(other))
    await signalling.fetched(other, ack=jtis)
    for _ in range(2):
        signalling.people.change("update logout_notices set created_at = now() - interval '8 days' where tell_at is not null")
        await signalling.swept("ForsakenSessionSignals")
        (told,) = (await signalling.fetched(stream)).values()
        assert told["sub_id"] == {"format": "opaque", "id": stream}
        assert (told["events"][UPDATED]["status"], "dropped" in told["events"][UPDATED]["reason"]) == ("enabled", True)
        await signalling.leaves()
        await signalling.fetched(other, ack=list(await signalling.fetched(other)))
    assert await signalling.fetched(other) == {}
    (event, *_) = signalling.people.rows("select details from events where name = 'signal_stream.dropped'")
    assert event["details"] == {"service_id": str(signalling.shop.service.id), "dropped": 2}


async def test_the_oldest_beyond_the_bound_are_dropped(signalling: Signalling) -> None:
    await signalling.polled()
    for _ in range(2):
        await signalling.leaves()
    # So many sign-outs would take minutes.
    copied = """
        insert into logout_notices (id, service_id, session_id, user_id, created_at, updated_at, stream_id, tell_at, ended_all, by_policy)
        select gen_random_uuid(), service_id, gen_random_uuid(), user_id, now() - interval '1 day' - number * interval '2 seconds', now(),
               stream_id, now(), true, false
          from (select * from logout_notices where stream_id is not null limit 1) as one
         cross join generate_series(1, %s) as number
    """
    signalling.people.change(copied, domain.MOST_WAITING)
    # A sweep takes 100 at most.
    assert await signalling.swept("ForsakenSessionSignals") == 2
    assert signalling.waiting() == domain.MOST_WAITING + 1
    assert await signalling.swept("ForsakenSignals") == 0
    kept = "select count(*) as n from logout_notices where tell_at is not null and created_at > now() - interval '1 hour'"
    assert signalling.people.rows(kept) == [{"n": 2}]
