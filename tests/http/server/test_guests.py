"""The clients that are turned away when one client takes too much room, and the networks that count as one address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoints.http.server.limits import Guests

# A /48 has 65536 networks. Each may be another customer's, or all may be one customer's.
NETWORK = "2001:db8:0:{:x}::1"


def guests_of(*entering: tuple[int, str | None], most: int = 10) -> Guests[int]:
    guests: Guests[int] = Guests(most)
    for guest, address in entering:
        guests.enter(guest, address)
    return guests


def fill(guests: Guests[int], addresses: list[str]) -> int:
    """The number of clients that found room."""
    came = 0
    for address in addresses:
        if guests.has_room(address):
            guests.enter(len(guests), address)
            came += 1
    return came


def test_an_address_has_so_much_room_and_others_have_their_own() -> None:
    guests: Guests[int] = Guests(10)
    assert fill(guests, ["192.0.2.1"] * 30) == 10
    assert fill(guests, ["192.0.2.2"] * 30) == 10
    # The same host, as a socket for both address families names it.
    assert not guests.has_room("::ffff:192.0.2.1")


@pytest.mark.parametrize(
    ("addresses", "room"),
    [
        ([f"2001:db8::{number:x}" for number in range(100)], 10),
        ([NETWORK.format(number) for number in range(100)], 20),
        ([NETWORK.format(number << 8) for number in range(100)], 40),
        ([f"2001:db8:{number:x}::1" for number in range(100)], 100),
    ],
    ids=["a /64", "a /56", "a /48", "many /48"],
)
def test_a_network_has_more_room_than_an_address_and_less_than_all_its_addresses(addresses: list[str], room: int) -> None:
    assert fill(Guests(10), addresses) == room


def test_who_left_makes_room() -> None:
    guests = guests_of((1, "192.0.2.1"), (2, "192.0.2.1"), most=2)
    assert not guests.has_room("192.0.2.1")
    guests.leave(1)
    guests.leave(1)
    assert guests.has_room("192.0.2.1")
    assert list(guests) == [2]


def test_of_a_full_address_whoever_rests_for_longest_gives_way() -> None:
    guests = guests_of((1, "192.0.2.1"), (2, "192.0.2.1"), (3, "192.0.2.1"), (9, "192.0.2.2"), most=3)
    assert guests.longest_resting_of("192.0.2.1") == 1
    guests.busy(1)
    assert guests.longest_resting_of("192.0.2.1") == 2
    guests.rests(1)
    guests.busy(2)
    assert guests.longest_resting_of("192.0.2.1") == 3
    guests.busy(3)
    assert guests.longest_resting_of("192.0.2.1") == 1
    guests.busy(1)
    assert guests.longest_resting_of("192.0.2.1") is None


def test_the_greediest_gives_way_and_if_it_is_busy_the_next() -> None:
    guests = guests_of((1, "192.0.2.1"), (2, "192.0.2.2"), (3, "192.0.2.2"), (4, "192.0.2.3"))
    assert guests.longest_resting_of_greediest() == 2
    guests.busy(2)
    guests.busy(3)
    assert guests.longest_resting_of_greediest() == 1


def test_a_network_of_many_addresses_is_greedier_than_an_address_with_some() -> None:
    spread = [(number, NETWORK.format(number << 8)) for number in range(30)]
    guests = guests_of(*spread, (100, "192.0.2.1"), (101, "192.0.2.1"))
    assert guests.longest_resting_of_greediest() == 0


def test_nobody_with_an_unknown_address_gives_way_and_there_is_room_for_any_number() -> None:
    guests = guests_of(*((number, None) for number in range(100)), (100, "unknown"), most=1)
    assert guests.has_room(None)
    assert guests.longest_resting_of_greediest() is None
    assert not guests.overcrowded


def test_a_guest_that_left_does_not_come_back_by_resting() -> None:
    guests = guests_of((1, "192.0.2.1"))
    guests.leave(1)
    guests.rests(1)
    assert guests.longest_resting_of_greediest() is None


@given(st.lists(st.tuples(st.sampled_from(["enter", "leave", "busy", "rests"]), st.integers(0, 7), st.integers(0, 3)), max_size=60))
def test_the_greediest_is_who_has_most_whatever_happened_before(steps: list[tuple[str, int, int]]) -> None:
    guests: Guests[int] = Guests(3)
    home: dict[int, str] = {}
    resting: set[int] = set()
    for step, guest, number in steps:
        if step == "enter" and guest not in home:
            home[guest] = f"192.0.2.{number}"
            resting.add(guest)
            guests.enter(guest, home[guest])
        elif step == "leave":
            home.pop(guest, None)
            resting.discard(guest)
            guests.leave(guest)
        elif step == "busy":
            resting.discard(guest)
            guests.busy(guest)
        elif guest in home:
            resting.add(guest)
            guests.rests(guest)
        sizes = {address: list(home.values()).count(address) for address in home.values()}
        chosen = guests.longest_resting_of_greediest()
        expected = max((sizes[home[one]] for one in resting), default=0)
        assert (0 if chosen is None else sizes[home[chosen]]) == expected
        assert guests.overcrowded == (max(sizes.values(), default=0) > 3)
        assert len(guests) == len(home)
