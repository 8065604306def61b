"""Rate limits: both stages, several limits at once, and limits while the database is away."""

from collections.abc import Callable

import pytest
import trio

from core.domain.errors import NotFound, Overloaded, RateLimited
from core.domain.rate_limits import RateLimit
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication
from entrypoints.http.machinery import limits
from entrypoints.http.machinery.limits import TRIES_AT_ONCE, Limiter, ProcessBuckets
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.conftest import EXAMPLES, SETTINGS
from tests.patience import PATIENCE

Examples = Callable[..., Client]


def client_of(postern: Postern, address: str = "192.0.2.1") -> Client:
    """A client of another process at each call: with its own buckets, and the shared database."""
    return Client(PosternApplication(postern, SETTINGS, EXAMPLES), address)


async def times(count: int, client: Client, target: str = "/limited") -> list[int]:
    return [(await client.get(target)).status for _ in range(count)]


async def test_beyond_the_burst_the_answer_is_429_and_says_when_to_come_back(postern: Postern) -> None:
    client = client_of(postern)
    assert await times(3, client) == [200] * 3
    refused: Received = await client.get("/limited")
    assert (refused.status, refused.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert int(refused.header("retry-after") or 0) in range(8, 11)
    assert 'sso_rate_limited_total{limit="few",stage="process"} 1.0' in postern.foundation.metrics.render().decode()


async def test_the_limit_holds_over_several_processes(postern: Postern) -> None:
    assert await times(2, client_of(postern)) == [200, 200]
    assert await times(3, client_of(postern)) == [200, 429, 429]
    assert 'sso_rate_limited_total{limit="few",stage="shared"} 2.0' in postern.foundation.metrics.render().decode()


async def test_each_address_has_its_own_bucket_and_ipv6_one_for_each_network(postern: Postern) -> None:
    assert await times(4, client_of(postern, "2001:db8::1")) == [200, 200, 200, 429]
    assert await times(1, client_of(postern, "2001:db8::ffff")) == [429]
    assert await times(1, client_of(postern, "2001:db8:0:1::1")) == [200]
    assert await times(1, client_of(postern, "192.0.2.77")) == [200]


@pytest.mark.parametrize(("network", "room"), [("2001:db8:0:0{:02x}::1", 4), ("2001:db8:0:{:02x}00::1", 16)], ids=["a /56", "a /48"])
@pytest.mark.parametrize("processes", [1, 4])
async def test_who_has_many_networks_gets_no_more_than_a_few_clients_do(postern: Postern, network: str, room: int, processes: int) -> None:
    applications = [client_of(postern).application for _ in range(processes)]
    began = trio.current_time()
    statuses = [
        (await Client(applications[number % processes], network.format(number)).get("/limited")).status for number in range(5 * room)
    ]
    gained = (trio.current_time() - began) / (10 / room)
    assert statuses[: 3 * room] == [200] * 3 * room
    assert statuses[3 * room :].count(200) <= gained + 1
    assert 429 in statuses
    # Addresses in neighbouring networks have their own buckets.
    assert await times(1, client_of(postern, "2001:db8:1::1")) == [200]


async def test_one_that_asks_without_end_takes_nothing_from_its_neighbours(postern: Postern) -> None:
    assert await times(40, client_of(postern, "2001:db8::1")) == [200] * 3 + [429] * 37
    assert await times(3, client_of(postern, "2001:db8:0:1::1")) == [200] * 3


async def test_an_endpoint_may_stand_under_several_limits(postern: Postern) -> None:
    client = client_of(postern)
    assert await times(3, client, "/doubly-limited") == [200, 200, 429]
    # The refused request has still taken from the milder limit, so further requests are not free.
    assert await times(1, client, "/limited") == [429]


async def test_while_the_database_is_away_the_process_decides_alone(examples: Examples, log: CapturedLog) -> None:
    client = examples()
    assert await times(5, client) == [200, 200, 200, 429, 429]
    assert len(log.events("shared_rate_limits_away")) == 1


async def test_limits_can_be_switched_off(examples: Examples) -> None:
    assert await times(10, examples(rate_limits=False)) == [200] * 10


async def test_a_bucket_fills_again_with_time(examples: Examples, autojump_clock: trio.testing.MockClock) -> None:
    client = examples()
    # Only the refused connection is real waiting; the test moves the clock itself.
    autojump_clock.autojump_threshold = float("inf")
    assert await times(4, client) == [200, 200, 200, 429]
    autojump_clock.jump(10)
    assert await times(2, client) == [200, 429]


def test_the_buckets_of_a_process_are_bounded_and_the_oldest_goes_first() -> None:
    buckets = ProcessBuckets(most=3)
    once = RateLimit("once", burst=1, seconds_per_request=60)
    for key in "abc":
        assert buckets.take(once, key, 0.0) == 0
    assert buckets.take(once, "a", 1.0) == pytest.approx(59)
    assert buckets.take(once, "d", 1.0) == 0
    assert len(buckets) == 3
    assert buckets.take(once, "a", 2.0) == pytest.approx(58)
    assert buckets.take(once, "b", 2.0) == 0


@pytest.mark.parametrize(
    ("policy", "burst", "per_minute"),
    [
        (limits.AUTH, 20, 60),
        (limits.REGISTER, 10, 10),
        (limits.LOGIN, 10, 10),
        (limits.FORGOT_PASSWORD, 5, 5),
        (limits.RESEND_VERIFICATION, 3, 3),
        (limits.DEVICE_FLOW, 10, 12),
        (limits.MFA_SETUP, 5, 0.2),
        (limits.MFA_CHANGES, 5, 1),
        (limits.MFA_VERIFY, 3, 60),
        (limits.IMPERSONATION, 10, 10),
        (limits.BILLING_WEBHOOK, 100, 1000),
        # Ours, where the interface has none.
        (limits.PAGE_LOADS, 400, 300),
        (limits.INVITATION_ANSWERS, 100, 60),
        (limits.CREDENTIALS, 60, 60),
    ],
)
def test_the_policies_are_those_of_the_interface_and_of_the_decisions(policy: RateLimit, burst: int, per_minute: float) -> None:
    assert policy.burst == burst
    assert 60 / policy.seconds_per_request == pytest.approx(per_minute)


def test_no_two_policies_share_a_name() -> None:
    assert len({policy.name for policy in limits.POLICIES}) == len(limits.POLICIES)


LIMIT = RateLimit("tries", burst=2, seconds_per_request=60)


async def test_a_success_does_not_count_and_neither_does_what_could_not_be_tried(postern: Postern) -> None:
    limiter = Limiter(postern.foundation.shared_buckets, postern.foundation.metrics)
    for _ in range(5):
        async with limiter.attempt(LIMIT, "2001:db8::1") as succeed:
            succeed()
        with pytest.raises(Overloaded):
            async with limiter.attempt(LIMIT, "2001:db8::1"):
                raise Overloaded(retry_after=1)
    for _ in range(2):
        with pytest.raises(NotFound):
            async with limiter.attempt(LIMIT, "2001:db8::1"):
                raise NotFound
    with pytest.raises(RateLimited):
        async with limiter.attempt(LIMIT, "2001:db8::1"):
            pytest.fail("there was no token")


async def test_what_one_client_tries_at_once_waits_for_its_turn_and_others_do_not(postern: Postern) -> None:
    limiter = Limiter(postern.foundation.shared_buckets, postern.foundation.metrics)
    limit = RateLimit("tries", burst=TRIES_AT_ONCE, seconds_per_request=60)
    inside, most = 0, 0
    go_on = trio.Event()

    async def sign_in() -> None:
        nonlocal inside, most
        async with limiter.attempt(limit, "192.0.2.1") as succeed:
            inside += 1
            most = max(most, inside)
            await go_on.wait()
            inside -= 1
            succeed()

    async with trio.open_nursery() as nursery:
        for _ in range(3 * TRIES_AT_ONCE):
            nursery.start_soon(sign_in)
        with trio.fail_after(PATIENCE):
            while inside < TRIES_AT_ONCE:
                await trio.sleep(0.01)
            async with limiter.attempt(limit, "192.0.2.2") as succeed:
                succeed()
        go_on.set()
    assert most == TRIES_AT_ONCE
    assert limiter._queues == {}


async def test_without_a_database_the_process_alone_gives_back(lonely_postern: Postern) -> None:
    limiter = Limiter(lonely_postern.foundation.shared_buckets, lonely_postern.foundation.metrics)
    for _ in range(5):
        async with limiter.attempt(LIMIT, "192.0.2.1") as succeed:
            succeed()


def test_giving_back_to_a_bucket_that_was_forgotten_does_nothing() -> None:
    buckets = ProcessBuckets()
    buckets.give_back(LIMIT, "nobody")
    assert len(buckets) == 0
