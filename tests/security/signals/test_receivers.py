"""Receivers that lead inside, and receivers whose answers are meant to break the sender."""

import json
from ipaddress import ip_address
from typing import Any, Final

import pytest
import trio

from core.domain.outbound import unwrapped
from core.frozen import replace
from tests.adapters.outbound.test_client import calling
from tests.hostile_addresses import HOSTILE_ADDRESSES, HOSTILE_URLS
from tests.http.federation.signals.scene import PUSH, STREAMS, VERIFY, delivery
from tests.http.federation.signals.test_pushes import change_password
from tests.patience import PATIENCE
from tests.receiver import CRUMBS, answering, hanging_up, receiving
from tests.security.signals.world import ListeningApplication


async def test_a_redirect_inside_is_not_followed(listening: ListeningApplication) -> None:
    for status in (301, 302, 303, 307, 308):
        async with receiving(answering(202)) as inside:
            moved = answering(status, b"", f"location: http://127.0.0.1:{inside.port}/")
            async with receiving(moved) as receiver, listening.dispatching():
                stream = await listening.listening(receiver, delivery=delivery(receiver.port, authorization_header="Bearer fig"))
                await listening.leaves()
                await receiver.until(1)
                with trio.fail_after(PATIENCE):
                    while f"answered {status}" not in listening.errors():
                        await trio.sleep(0.01)
                assert inside.connections == 0
                assert (await listening.call("DELETE", f"{STREAMS}?stream_id={stream['stream_id']}")).status == 204


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_address_inside_is_no_place_for_a_stream(listening: ListeningApplication, scheme: str) -> None:
    """Not even if an owner names it: the owner is a stranger to the network that Postern stands in."""
    # Some lead to the one address that these tests allow.
    hosts = [one for one in HOSTILE_ADDRESSES if unwrapped(ip_address(one)) != ip_address("127.0.0.1")]
    for start in range(0, len(hosts), 20):
        await listening.turned_on(hosts=hosts[start : start + 20])
        for one in hosts[start : start + 20]:
            named = f"[{one}]" if ":" in one else one
            made = await listening.call("POST", STREAMS, {"delivery": {"method": PUSH, "endpoint_url": f"{scheme}://{named}/"}})
            assert made.status == 400, (one, made.body)


async def test_an_address_that_some_parser_reads_as_inside_is_refused(listening: ListeningApplication) -> None:
    await listening.turned_on(hosts=["127.0.0.1", "good.example"])
    for url in (*HOSTILE_URLS, "https://good.example@127.0.0.1/", "https://good.example:8443#@127.0.0.1/", "HTTPS://GOOD.example\n/"):
        answer = await listening.call("POST", STREAMS, {"delivery": {"method": PUSH, "endpoint_url": url}})
        assert answer.status == 400, (url, answer.body)
    assert listening.people.rows("select from signal_streams") == []


async def test_a_name_that_moves_inside_gets_nothing(listening: ListeningApplication) -> None:
    """It was public when the stream was made."""
    await listening.turned_on(hosts=["moves.example"])
    made = {"delivery": {"method": PUSH, "endpoint_url": "https://moves.example/set", "authorization_header": "Bearer fig"}}
    (await listening.call("POST", STREAMS, made)).ok(201)
    await listening.leaves()
    async with calling(allowed=(), moves_example=[["169.254.169.254"], ["127.0.0.1"], ["10.0.0.1"]]) as ours:
        for deliveries in listening.postern.federation.signal_deliveries:
            guarded = replace(deliveries, outbound=ours.client)
            for receiver in await guarded.claim(1, failing=False):
                for due in await guarded.due(receiver):
                    outcome = await guarded.attempt(receiver, due, lambda: 0.0)
                    assert (outcome.delivered, outcome.status_code) == (False, None)
        assert ours.names.asked == 1
    assert ours.network.connects == []


DEEP: Final = b"[" * 30_000
# Answers with 400, and what is kept of them. A signal is over if the answer names an error, and is tried again otherwise.
ANSWERS: Final[dict[str, tuple[bytes, str]]] = {
    "a deep list": (DEEP, "answered 400"),
    "a deep error": (b'{"err": ' + DEEP, "answered 400"),
    "a long number": (b'{"err": "x", "n": ' + b"9" * 9_000 + b"}", "answered 400"),
    "no object": (b'["err"]', "answered 400"),
    "an error that is no text": (b'{"err": {"err": "x"}}', "answered 400"),
    "no utf-8": (b'{"err": "\xff"}', "answered 400"),
    "nothing": (b"", "answered 400"),
    "half a pair": (b'{"err": "\\ud800"}', "refused"),
    "a nul": (b'{"err": "\\u0000"}', "refused"),
    "a line": (b'{"err": "x\\nlevel=error"}', "refused"),
    "the other way": (json.dumps({"err": "\u202egnp.exe"}).encode(), "refused"),
    "a long error": (b'{"err": "' + b"x" * 9_000 + b'"}', "refused"),
    "an error": (b'{"err": "invalid_request", "description": "no"}', "refused: invalid_request"),
}


@pytest.mark.parametrize("which", ANSWERS)
async def test_a_refusal_may_say_what_it_likes(listening: ListeningApplication, which: str) -> None:
    """The stream goes on, and what is kept of the answer is a name, or nothing."""
    body, kept = ANSWERS[which]
    async with receiving(answering(400, body)) as receiver, listening.dispatching():
        await listening.listening(receiver)
        await listening.leaves()
        await receiver.until(1)
        with trio.fail_after(PATIENCE):
            while listening.errors() == [None]:
                await trio.sleep(0.01)
        assert listening.errors() == [kept]
        assert listening.waiting() == (0 if kept.startswith("refused") else 1)
        assert listening.log.events("signal_stream_unreadable") == []
        # Nobody waits for the stream: the next signal goes out.
        receiver.answer = answering(202)
        listening.people.change("update signal_streams set rests_until = null")
        await listening.leaves()
        await receiver.until(2)


@pytest.mark.parametrize("which", CRUMBS)
async def test_an_endless_answer_delays_nobody(listening: ListeningApplication, which: str) -> None:
    async with receiving(CRUMBS[which]) as slow, receiving(answering(202)) as other, listening.dispatching():
        await listening.listening(slow)
        await listening.stream(other)
        await listening.leaves()
        with trio.fail_after(PATIENCE):
            await other.until(1)


async def test_a_receiver_that_hangs_up_is_tried_again_and_the_others_go_on(listening: ListeningApplication) -> None:
    async with receiving(hanging_up) as dead, receiving(answering(202)) as other, listening.dispatching():
        await listening.listening(dead)
        await listening.stream(other)
        listening.tenants.uses(listening.ada, listening.shop.service, first=listening.postern.foundation.clock.now())
        await change_password(listening)
        await listening.leaves()
        with trio.fail_after(PATIENCE):
            await other.until(2)
            while listening.waiting() != 2:
                await trio.sleep(0.01)


async def test_a_receiver_that_asks_for_an_age_of_rest_gets_hours(listening: ListeningApplication) -> None:
    async with receiving(answering(503, b"", "retry-after: 999999999")) as receiver, listening.dispatching():
        await listening.listening(receiver)
        await listening.leaves()
        with trio.fail_after(PATIENCE):
            while not listening.people.rows("select from signal_streams where rests_until is not null"):
                await trio.sleep(0.01)
    (row,) = listening.people.rows("select rests_until < now() + interval '6 hours 1 minute' as bounded from signal_streams")
    assert row["bounded"]


async def test_verifications_are_no_hammer(listening: ListeningApplication) -> None:
    """A hundred requests for one at once: one is sent."""
    async with receiving(answering(202)) as receiver, listening.dispatching():
        stream = await listening.listening(receiver)
        token = await listening.own_token()
        statuses: list[int] = []

        async def asks() -> None:
            body: Any = {"stream_id": stream["stream_id"]}
            statuses.append((await listening.client.request("POST", VERIFY, body=body, token=token)).status)

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(asks)
        await receiver.until(1)
        await listening.settled()
    assert (statuses.count(204), statuses.count(429), len(receiver.calls)) == (1, 99, 1)
