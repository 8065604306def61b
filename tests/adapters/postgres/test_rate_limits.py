"""The shared buckets: the domain's arithmetic, and no more tokens than there are, even when many are taken at once."""

import random
from datetime import datetime

import pytest
import trio

from adapters.postgres.driver.connection import Connection, TripCounter, round_trips
from adapters.postgres.rate_limits import PostgresBuckets, give_back
from adapters.postgres.statements import Transaction
from core.domain import rate_limits
from core.domain.errors import Unavailable
from core.domain.rate_limits import Bucket, Place, RateLimit
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE

SLOW = RateLimit("slow", burst=10, seconds_per_request=1000)


@pytest.fixture
def buckets(store: Store) -> PostgresBuckets:
    return PostgresBuckets(store.pool)


async def stored(store: Store, key: str = "192.0.2.7") -> Bucket | None:
    rows = await store.query("select tokens, at from rate_limit_buckets where key = %(key)s", {"key": key})
    if not rows:
        return None
    at: datetime = rows[0]["at"]
    return Bucket(rows[0]["tokens"], at.timestamp())


async def let_pass(store: Store, seconds: float) -> None:
    await store.query(
        """
        update rate_limit_buckets
           set at = at - %(seconds)s * interval '1 second', full_at = full_at - %(seconds)s * interval '1 second'
        """,
        {"seconds": seconds},
    )


async def test_a_new_bucket_holds_the_burst(buckets: PostgresBuckets) -> None:
    limit = RateLimit("test", burst=3, seconds_per_request=1000)
    waits = [await buckets.take(limit, "192.0.2.7") for _ in range(4)]
    assert waits[:3] == [0, 0, 0]
    assert waits[3] == pytest.approx(1000, abs=PATIENCE)


async def test_whole_paces_and_fractions_are_taken_together(buckets: PostgresBuckets) -> None:
    # A page of the console takes the limit of pages and that of its endpoint.
    assert await buckets.take_all([SLOW, RateLimit("quick", burst=10, seconds_per_request=0.2)], "192.0.2.7") == [0.0, 0.0]


async def test_it_computes_what_the_domain_computes(store: Store, buckets: PostgresBuckets) -> None:
    dice = random.Random(20)  # noqa: S311 - a repeatable sequence
    limit = RateLimit("test", burst=4, seconds_per_request=7)
    refused = 0
    for _ in range(60):
        before = await stored(store)
        wait = await buckets.take(limit, "192.0.2.7")
        after = await stored(store)
        assert after is not None
        expected, expected_wait = rate_limits.take(limit, before, after.at)
        assert after.tokens == pytest.approx(expected.tokens, abs=1e-4)
        assert wait == pytest.approx(expected_wait, abs=1e-3)
        refused += wait > 0
        await let_pass(store, dice.choice([0, 0, 1, 3, 7, 20]))
    assert 10 < refused < 50


async def test_of_fifty_takers_at_once_as_many_as_the_bucket_holds_get_one(buckets: PostgresBuckets) -> None:
    waits: list[float] = []

    async def take() -> None:
        waits.append(await buckets.take(SLOW, "192.0.2.7"))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(take)
    assert sum(wait == 0 for wait in waits) == 10
    assert min(wait for wait in waits if wait) > 900


async def test_each_limit_and_each_key_has_a_bucket_of_its_own(buckets: PostgresBuckets) -> None:
    one = RateLimit("one", burst=1, seconds_per_request=100)
    other = RateLimit("other", burst=1, seconds_per_request=100)
    for limit, key in ((one, "a"), (one, "b"), (other, "a"), (other, "b")):
        assert await buckets.take(limit, key) == 0
        assert await buckets.take(limit, key) > 0


async def test_a_clock_that_was_set_back_gives_nothing_and_takes_nothing(store: Store, buckets: PostgresBuckets) -> None:
    limit = RateLimit("test", burst=2, seconds_per_request=100)
    await buckets.take(limit, "192.0.2.7")
    await let_pass(store, -3600)
    future = await stored(store)
    assert await buckets.take(limit, "192.0.2.7") == 0
    assert await buckets.take(limit, "192.0.2.7") == pytest.approx(100)
    now = await stored(store)
    assert future is not None
    assert now == Bucket(0, future.at)


async def test_a_take_is_one_round_trip(buckets: PostgresBuckets) -> None:
    await buckets.take(SLOW, "192.0.2.7")
    round_trips.set(trips := TripCounter())
    await buckets.take(SLOW, "192.0.2.7")
    assert trips.count == 1


async def test_full_buckets_are_forgotten_and_the_others_are_not(store: Store, buckets: PostgresBuckets) -> None:
    for key in ("a", "b"):
        await buckets.take(SLOW, key)
    assert await buckets.forget_full() == 0
    await let_pass(store, 1000 - PATIENCE)
    assert await buckets.forget_full() == 0
    await let_pass(store, PATIENCE)
    await buckets.take(SLOW, "c")
    assert await buckets.forget_full() == 2
    assert await stored(store, "a") is None
    assert await stored(store, "c") is not None


async def test_a_row_is_full_when_the_domain_says_so(store: Store, buckets: PostgresBuckets) -> None:
    for _ in range(3):
        await buckets.take(SLOW, "a")
    (row,) = await store.query("select extract(epoch from full_at - at)::float8 as seconds from rate_limit_buckets")
    assert row["seconds"] == pytest.approx(3000, abs=PATIENCE)


async def test_without_the_database_it_says_so(store: Store, buckets: PostgresBuckets) -> None:
    await buckets.take(SLOW, "a")
    await store.pool.aclose()
    with pytest.raises(Unavailable):
        await buckets.take(SLOW, "a")


async def test_takes_update_within_the_page(fresh_store: Store) -> None:
    buckets = PostgresBuckets(fresh_store.pool)
    for _ in range(20):
        await buckets.take(SLOW, "a")
    await fresh_store.kill_backends()  # a backend that ends has reported its figures
    with trio.fail_after(PATIENCE):
        while True:
            (row,) = await fresh_store.query(
                "select n_tup_upd as all, n_tup_hot_upd as hot from pg_stat_user_tables where relname like 'rate%'"
            )
            # A backend that goes on for longer than a second tells a part of them earlier.
            if row["all"] >= 19:
                break
            await trio.sleep(0.02)
    assert row == {"all": 19, "hot": 19}


ONE, TWO = RateLimit("one", burst=1, seconds_per_request=1000), RateLimit("two", burst=2, seconds_per_request=2000)


async def test_several_buckets_are_drawn_from_in_one_round_trip_each_by_its_own_measure(store: Store) -> None:
    buckets = PostgresBuckets(store.pool)
    assert await buckets.take_all([TWO, ONE], "somebody") == [0, 0]
    round_trips.set(trips := TripCounter())
    assert list(await buckets.take_all([TWO, ONE], "somebody")) == pytest.approx([0, 1000], abs=PATIENCE)
    assert trips.count == 1
    assert list(await buckets.take_all([TWO, ONE], "somebody")) == pytest.approx([2000, 1000], abs=PATIENCE)
    assert await buckets.take_all([ONE], "somebody else") == [0]


async def test_limits_of_whole_seconds_and_of_parts_are_taken_together(buckets: PostgresBuckets) -> None:
    part = RateLimit("part", burst=1, seconds_per_request=499.5)
    whole = RateLimit("whole", burst=1, seconds_per_request=2000)
    assert await buckets.take_all([part, whole], "somebody") == [0, 0]
    assert list(await buckets.take_all([part, whole], "somebody")) == pytest.approx([499.5, 2000], abs=PATIENCE)


WIDER, WIDEST = Place("its network", 3), Place("its provider", 5)


async def test_the_places_around_give_a_token_too_in_the_same_round_trip(store: Store) -> None:
    buckets = PostgresBuckets(store.pool)
    round_trips.set(trips := TripCounter())
    for number in range(3):
        assert await buckets.take_all([ONE], f"client {number}", [WIDER, WIDEST]) == [0]
    assert trips.count == 3
    # Three times the burst, at three times the pace.
    assert list(await buckets.take_all([ONE], "client 3", [WIDER, WIDEST])) == pytest.approx([1000 / 3], abs=50)
    for number in range(2):
        assert await buckets.take_all([ONE], f"elsewhere {number}", [Place("another network", 3), WIDEST]) == [0]
    assert list(await buckets.take_all([ONE], "elsewhere 2", [Place("another network", 3), WIDEST])) == pytest.approx([1000 / 5], abs=50)


async def test_whoever_is_refused_takes_nothing_from_the_neighbours(store: Store) -> None:
    buckets = PostgresBuckets(store.pool)
    limits = [RateLimit("one", burst=1, seconds_per_request=10_000), RateLimit("two", burst=2, seconds_per_request=10_000)]
    for _ in range(20):
        await buckets.take_all(limits, "greedy", [WIDER, WIDEST])
    tokens = await store.query(
        "select key, limit_name, round(tokens) as tokens from rate_limit_buckets where key <> 'greedy' order by key, limit_name"
    )
    # What it was given itself, and not what it asked for.
    assert [(row["key"], row["limit_name"], row["tokens"]) for row in tokens] == [
        ("its network", "one", 2),
        ("its network", "two", 5),
        ("its provider", "one", 4),
        ("its provider", "two", 9),
    ]


async def test_neighbours_in_crowds_do_not_deadlock_and_get_no_more_than_their_network_has(store: Store) -> None:
    buckets = PostgresBuckets(store.pool)
    waits: list[float] = []

    async def take(number: int) -> None:
        limits = [ONE, TWO] if number % 2 else [TWO, ONE]
        waits.append(max(await buckets.take_all(limits, f"client {number % 8}", [WIDER, WIDEST])))

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(take, number)
    assert waits.count(0) == 3


async def test_crowds_under_the_same_limits_in_any_order_do_not_deadlock(store: Store) -> None:
    buckets = PostgresBuckets(store.pool)
    waits: list[float] = []

    async def take(limits: list[RateLimit]) -> None:
        waits.extend(await buckets.take_all(limits, "somebody"))

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(take, [ONE, TWO] if number % 2 else [TWO, ONE])
    assert waits.count(0) == 3


async def test_a_token_that_is_given_back_can_be_taken_again_and_fills_no_bucket_over(store: Store) -> None:
    buckets = PostgresBuckets(store.pool)
    for _ in range(3):
        assert await buckets.take(ONE, "somebody") == 0
        async with store.pool.connection() as connection, connection.pipelined_transaction() as pipelined:
            transaction = Transaction(connection, pipelined)
            for _ in range(2):
                await give_back(transaction, ONE, "somebody")
            await transaction.commit()
    assert await buckets.take(ONE, "somebody") == 0
    assert await buckets.take(ONE, "somebody") > 1000 - PATIENCE


async def test_tokens_that_are_given_back_at_once_are_all_there_again(store: Store, buckets: PostgresBuckets) -> None:
    around = [Place("2001:db8::/56", room=4), Place("2001:db8::/48", room=16)]
    for _ in range(SLOW.burst):
        await buckets.take_all([SLOW], "2001:db8::/64", around)
    async with await Connection.connect(store.url) as holder:
        await holder.execute(b"begin")
        await holder.execute(b"update rate_limit_buckets set wait = 0 where key = '2001:db8::/64'")
        async with trio.open_nursery() as nursery:
            for _ in range(SLOW.burst):
                nursery.start_soon(buckets.give_back, SLOW, "2001:db8::/64", around)
            await store.somebody_waits()
            await holder.execute(b"commit")
    for key, burst in [("2001:db8::/64", 10), ("2001:db8::/56", 40), ("2001:db8::/48", 160)]:
        bucket = await stored(store, key)
        assert bucket is not None
        assert bucket.tokens == pytest.approx(burst, abs=0.1), key
