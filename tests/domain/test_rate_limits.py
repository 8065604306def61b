"""Token buckets, and the caller that a bucket belongs to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.rate_limits import Bucket, Place, RateLimit, client_key, client_places, take

LIMIT = RateLimit("test", burst=3, seconds_per_request=10)


def test_a_new_bucket_holds_the_burst() -> None:
    bucket: Bucket | None = None
    waits = []
    for _ in range(4):
        bucket, wait = take(LIMIT, bucket, now=0)
        waits.append(wait)
    assert waits == [0, 0, 0, 10]


def test_a_refused_request_takes_nothing() -> None:
    empty = Bucket(0, at=0)
    refused, wait = take(LIMIT, empty, now=4)
    assert wait == pytest.approx(6)
    assert take(LIMIT, refused, now=10)[1] == 0


def test_a_bucket_never_holds_more_than_the_burst() -> None:
    bucket, wait = take(LIMIT, Bucket(0, at=0), now=10**6)
    assert (bucket.tokens, wait) == (2, 0)


def test_a_clock_that_steps_back_gives_nothing_and_takes_nothing() -> None:
    bucket, wait = take(LIMIT, Bucket(0.5, at=100), now=0)
    assert (bucket.tokens, wait) == (0.5, 5)


@given(st.lists(st.floats(min_value=0, max_value=30), max_size=60))
def test_over_any_stretch_no_more_pass_than_burst_and_rate_allow(pauses: list[float]) -> None:
    bucket: Bucket | None = None
    now, passed = 0.0, 0
    for pause in pauses:
        now += pause
        bucket, wait = take(LIMIT, bucket, now)
        passed += wait == 0
    assert passed <= LIMIT.burst + now / LIMIT.seconds_per_request + 1e-6


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_customer_of_a_provider_has_one_bucket(address: str, key: str) -> None:
    assert client_key(address) == key


def test_around_a_customer_are_the_networks_that_may_be_theirs_with_room_for_more() -> None:
    around = (Place("2001:db8:1:200::/56", 4), Place("2001:db8:1::/48", 16))
    assert client_places("2001:db8:1:2f3::4") == (Place("2001:db8:1:2f3::/64"), *around)
    for address in ("192.0.2.7", "::ffff:192.0.2.7", "not an address"):
        assert client_places(address) == (Place(client_key(address)),)


def test_a_wider_place_has_the_same_limit_so_many_times() -> None:
    assert Place("network", 4).limit(LIMIT) == RateLimit("test", burst=12, seconds_per_request=2.5)
    assert Place("client").limit(LIMIT) is LIMIT
