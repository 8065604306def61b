from core.domain.identity.guards.traffic import BusyPlaces, Crossing, Traffic, network_of

HERE = Crossing("192.0.2.7", "acme")
NOW = 1_000_000.0


def made(places: BusyPlaces, times: int, crossing: Crossing = HERE, traffic: Traffic = Traffic.MAILS, now: float = NOW) -> int:
    for _ in range(times):
        places.count(traffic, crossing, now)
    return places.bits(traffic, crossing, now)


def test_quiet_times_ask_for_nothing_and_each_doubling_for_two_bits_more() -> None:
    places = BusyPlaces()
    assert made(places, 0) == 0
    assert made(places, 20) == 0
    assert made(places, 1) == 14
    assert made(places, 19) == 16
    assert made(places, 40) == 18
    assert made(places, 80) == 20
    assert made(places, 5000) == 22


def test_what_is_counted_together_stands_apart_from_the_other() -> None:
    places = BusyPlaces()
    made(places, 100)
    assert places.bits(Traffic.FAILURES, HERE, NOW) == 0


def test_a_network_pays_for_its_neighbours_and_an_organization_for_strangers_less() -> None:
    places = BusyPlaces()
    for host in range(100):
        made(places, 20, Crossing(f"192.0.2.{host}", "acme"))
    neighbour = Crossing("192.0.2.200", "other")
    far = Crossing("203.0.113.1", "acme")
    assert places.bits(Traffic.MAILS, neighbour, NOW) == 20
    assert places.bits(Traffic.MAILS, far, NOW) == 18
    assert places.bits(Traffic.MAILS, Crossing("203.0.113.1", "other"), NOW) == 0


def test_whoever_has_a_48_has_not_256_networks() -> None:
    places = BusyPlaces()
    for number in range(240):
        assert made(places, 1, Crossing(f"2001:db8:1:{number << 8:x}::1", f"{number}")) == 0
    assert places.bits(Traffic.MAILS, Crossing("2001:db8:1::1", "other"), NOW) == 0
    assert made(places, 1, Crossing("2001:db8:1:ff00::1", "other")) == 14
    assert places.bits(Traffic.MAILS, Crossing("2001:db8:2::1", "other"), NOW) == 0


def test_an_hour_later_it_is_quiet_again() -> None:
    places = BusyPlaces()
    made(places, 400)
    assert places.bits(Traffic.MAILS, HERE, NOW + 600) == 19
    assert places.bits(Traffic.MAILS, HERE, NOW + 3600) == 0


def test_a_clock_that_goes_back_makes_nobody_busier() -> None:
    places = BusyPlaces()
    assert made(places, 21) == places.bits(Traffic.MAILS, HERE, NOW - 3600)


def test_a_flood_of_forged_places_takes_no_more_room() -> None:
    places = BusyPlaces(most=9)
    for number in range(100):
        made(places, 1, Crossing(f"2001:db8:{number:x}::1", f"{number}" * 1000))
    assert len(places) == 9


def test_networks() -> None:
    assert network_of("192.0.2.7") == "192.0.2.0/24"
    assert network_of("::ffff:192.0.2.7") == "192.0.2.0/24"
    assert network_of("2001:db8:0:12ff::1%eth0") == "2001:db8:0:1200::/56"
    assert network_of("nonsense") == network_of(None) == "unknown"
