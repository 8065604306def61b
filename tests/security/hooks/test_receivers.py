"""Hooks that hang, drip, fail, flood, redirect inside and hang up: the outcome is the one that their owner has chosen, within their time,
and nobody else waits.
"""

from typing import Final

import pytest
import trio

from adapters.outbound.hook_places import FairHookPlaces
from tests.http.federation.arriving import Arriving
from tests.http.people import Person
from tests.http.tenants import Tenant
from tests.receiver import Answer, Call, answering, endlessly, hanging_up, trickling
from tests.security.hooks.hooked import GO_ON, Hooks, saying, until


async def hanging(_stream: trio.abc.Stream, _call: Call) -> bool:
    while True:
        await trio.sleep(60)


async def half(stream: trio.abc.Stream, _call: Call) -> bool:
    await stream.send_all(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"decision": "go')
    return False


GIGABYTE: Final = endlessly(
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000000\r\n\r\n", b'{"decision": "go_on"}' * 50_000
)
JSON: Final = "content-type: application/json"
BAD_DAYS: Final[dict[str, tuple[Answer, str]]] = {
    "hangs": (hanging, "timeout"),
    "drips": (trickling, "timeout"),
    "fails": (answering(500), "status"),
    "sends a gigabyte": (GIGABYTE, "answer_too_long"),
    "redirects inside": (answering(302, b"", "location: http://169.254.169.254/latest/meta-data/"), "status"),
    "closes in the middle": (half, "malformed_answer"),
    "hangs up": (hanging_up, "connection_failed"),
}
LIES: Final = {
    "no JSON": (b"go on", JSON),
    "another type": (b'{"decision": "go_on"}', "content-type: text/plain"),
    "another word": (b'{"decision": "allow"}', JSON),
    "a word too much": (b'{"decision": "go_on", "let_in": true}', JSON),
    "twice": (b'{"decision": "no", "reason": "hour", "decision": "go_on"}', JSON),
    "no reason": (b'{"decision": "no"}', JSON),
    "a reason of its own": (b'{"decision": "no", "reason": "<b>Call 0900</b>"}', JSON),
    "a list": (b'["go_on"]', JSON),
    "deep": (b"[" * 60_000, JSON),
    "UTF-16": ('{"decision": "go_on"}'.encode("utf-16"), JSON),
    "UTF-16 without a mark": ('{"decision": "go_on"}'.encode("utf-16-le"), JSON),
    "UTF-32": ('{"decision": "go_on"}'.encode("utf-32-be"), JSON),
    "a byte order mark": (b'\xef\xbb\xbf{"decision": "go_on"}', JSON),
    "not a number": (b'{"decision": "go_on", "x": NaN}', JSON),
}


def member(arriving: Arriving, tenant: Tenant | None = None) -> Person:
    return arriving.tenants.join(arriving.people.proved(), tenant or arriving.acme)


def waiting(arriving: Arriving) -> int:
    """How many questions wait for a place."""
    places = arriving.postern.identity.hook_asking.places
    assert isinstance(places, FairHookPlaces)
    return sum(len(own) for line in places._line.values() for own in line.values())


async def select(arriving: Arriving, person: Person, slug: str = "acme") -> int:
    return (await arriving.request("POST", f"/api/organizations/{slug}/select", by=person)).status


@pytest.mark.parametrize("silence", ["go_on", "refuse"])
@pytest.mark.parametrize("day", BAD_DAYS)
async def test_the_declared_silence_each_time(arriving: Arriving, hooks: Hooks, day: str, silence: str) -> None:
    answer, why = BAD_DAYS[day]
    grace = member(arriving)
    async with hooks.of(arriving.acme, answer, silence=silence) as hooked:
        began = trio.current_time()
        assert await select(arriving, grace) == (200 if silence == "go_on" else 403)
        assert trio.current_time() - began < 5
        (exchange,) = await hooked.exchanges()
        assert exchange.outcome == "silent"
        assert exchange.why in {why, "connection_failed", "malformed_answer"} if day in {"closes in the middle", "hangs up"} else why
        # One of several services: a silence never stands as a no.
        hooked.say(GO_ON)
        assert await select(arriving, grace) == 200


@pytest.mark.parametrize("lie", LIES)
async def test_what_is_not_said_exactly_is_no_answer(arriving: Arriving, hooks: Hooks, lie: str) -> None:
    body, kind = LIES[lie]
    grace = member(arriving)
    async with hooks.of(arriving.acme, answering(200, body, kind)) as hooked:
        refused = await arriving.request("POST", "/api/organizations/acme/select", by=grace)
        assert refused.status == 403
        assert "0900" not in refused.body.decode()
        (exchange,) = await hooked.exchanges()
        assert (exchange.outcome, exchange.why) == ("silent", "invalid_answer")
        assert "0900" not in exchange.answered


async def test_a_hook_that_fails_five_times_rests_and_tries_once_a_minute(arriving: Arriving, hooks: Hooks) -> None:
    crowd = [member(arriving) for _ in range(7)]
    grace = crowd[0]
    async with hooks.of(arriving.acme, answering(500)) as hooked:
        for person in crowd:
            assert await select(arriving, person) == 403
        assert len(hooked.heard) == 5
        assert [one.why for one in (await hooked.exchanges())[:2]] == ["resting", "resting"]
        # A changed hook is another to the breaker, and begins anew.
        hooked.say(GO_ON)
        await hooked.change()
        await hooked.count()
        assert await select(arriving, grace) == 200


async def test_no_connection_is_held_while_hooks_are_asked(arriving: Arriving, hooks: Hooks) -> None:
    """More people wait for the hook than the pool has connections, and a person elsewhere does not wait."""
    crowd = [member(arriving) for _ in range(18)]
    globex = arriving.tenants.add("globex")
    elsewhere = arriving.tenants.join(arriving.people.proved(), globex)
    ended: list[int] = []

    async def one(person: Person) -> None:
        ended.append(await select(arriving, person))

    async with hooks.of(arriving.acme, hanging, seconds=5) as hooked, trio.open_nursery() as nursery:
        for person in crowd:
            nursery.start_soon(one, person)
        await hooked.receiver.until(len(crowd))
        assert await select(arriving, elsewhere, "globex") == 200
        assert ended == []
        rows = arriving.people.rows(
            "select state from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"
        )
        assert rows == []
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("silence", ["go_on", "refuse"])
async def test_more_than_twenty_of_an_organization_at_once_wait_for_a_place(arriving: Arriving, hooks: Hooks, silence: str) -> None:
    crowd = [member(arriving) for _ in range(25)]
    answered = trio.Event()

    async def slowly(stream: trio.abc.Stream, call: Call) -> bool:
        await answered.wait()
        return await saying(GO_ON)(stream, call)

    async with hooks.of(arriving.acme, slowly, silence=silence, seconds=5) as hooked:
        got: list[int] = []

        async def one(person: Person) -> None:
            got.append(await select(arriving, person))

        async with trio.open_nursery() as nursery:
            for person in crowd:
                nursery.start_soon(one, person)
            await until(lambda: waiting(arriving) == 5)
            assert len(hooked.heard) <= 20
            answered.set()
        assert got == [200] * 25
        assert len(hooked.heard) == 25
        assert {one.outcome for one in await hooked.exchanges()} == {"go_on"}


async def test_the_guarded_client_calls_no_address_inside(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    async with hooks.of(arriving.acme, GO_ON) as hooked:
        arriving.people.change("update hooks set address = 'https://169.254.169.254/hook' where id = %s", hooked.hook.id)
        assert await select(arriving, grace) == 403
        (exchange,) = await hooked.exchanges()
        assert exchange.why == "address_not_allowed"
        hooked.receiver.answer = saying(GO_ON)
        assert hooked.heard == []
