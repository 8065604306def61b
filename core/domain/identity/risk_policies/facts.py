"""What a rule for risk can know of a sign-in, and whether a rule fits it. The sign-in and the report of rules in shadow ask the same."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import asin, cos, radians, sin, sqrt
from operator import attrgetter
from typing import Final
from uuid import UUID

from core.domain.identifiers import UserId
from core.domain.identity.devices import Spot
from core.domain.identity.guards.networks import ListedNetworks
from core.domain.identity.risk_policies.policies import (
    ExceptionKind,
    RiskConditions,
    RiskException,
    RiskPolicy,
    SignInWay,
)
from core.frozen import Frozen

# Who signs in from two countries within this time has not travelled.
TRAVEL: Final = timedelta(hours=2)
# Faster than airliners, with the way to them; and farther than databases of places are wrong.
_KILOMETRES_PER_HOUR: Final = 900
_LEAST_KILOMETRES: Final = 200
_RADIUS: Final = 6371
# Addresses whose answer a test keeps.
_MOST_KNOWN: Final = 1000


class SignInFacts(Frozen, kw_only=True):
    user: UserId
    teams: frozenset[UUID] = frozenset()
    role: str
    score: float
    way: SignInWay
    country: str | None
    address: str | None
    new_device: bool
    impossible_travel: bool
    hour: int
    service: UUID | None = None


Test = Callable[[SignInFacts], bool]


class LastSeen(Frozen):
    """Where and when the person signed in before, the last time that somebody knew where."""

    country: str | None
    spot: Spot | None
    at: datetime


def cannot_have_travelled(country: str | None, spot: Spot | None, last: LastSeen | None, now: datetime) -> bool:
    """By the distance, where both spots are known: too far for the fastest way there. Otherwise by two countries within two hours; a
    country that nobody knows is no other country.
    """
    if last is None or now < last.at:
        return False
    passed = now - last.at
    if spot is not None and last.spot is not None:
        distance = kilometres(spot, last.spot)
        return distance >= _LEAST_KILOMETRES and distance > _KILOMETRES_PER_HOUR * (passed / timedelta(hours=1))
    return country is not None and last.country is not None and last.country != country and passed < TRAVEL


def kilometres(one: Spot, other: Spot) -> float:
    """Along the surface of the earth."""
    north, south = radians(one[0] / 10), radians(other[0] / 10)
    turned = radians((one[1] - other[1]) / 10)
    half = sin((north - south) / 2) ** 2 + cos(north) * cos(south) * sin(turned / 2) ** 2
    return 2 * _RADIUS * asin(min(1.0, sqrt(half)))


@lru_cache(maxsize=1024)
def _parsed(address: str) -> tuple[int, int] | None:
    """The version and number of an address. The rules of one sign-in all ask for the same address."""
    try:
        known = ip_address(address)
    except ValueError:
        return None
    return known.version, int(known)


@lru_cache(maxsize=256)
def _listed(networks: tuple[str, ...]) -> ListedNetworks:
    """Each sign-in reads the rules anew, and reading the networks of twenty rules would cost more than all else of them."""
    return ListedNetworks(map(ip_network, networks))


def within(networks: tuple[str, ...]) -> Callable[[str | None], bool]:
    """Tests whether an address is in one of these networks. An address that nobody knows is in none. The networks are read when the first
    address is asked about: most rules are decided before that.
    """
    known: dict[str | None, bool] = {}

    def holds(text: str | None) -> bool:
        # A report asks for the same addresses again and again.
        if text not in known:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            address = None if text is None else _parsed(text)
            known[text] = address is not None and _listed(networks).contain(address[0], address[1], address[1])
        return known[text]

    return holds


def are_parts(networks: Sequence[str], others: Sequence[str]) -> bool:
    """Whether each of these networks lies within the others."""
    listed = ListedNetworks(map(ip_network, others))
    return all(listed.contain(one.version, int(one.network_address), int(one.broadcast_address)) for one in map(ip_network, networks))


def tests_of(when: RiskConditions) -> list[Test]:
    """The conditions that are set. Those that cost least come first."""
    possible = (
        None if when.new_device is None else lambda facts: facts.new_device is when.new_device,
        None if when.impossible_travel is None else lambda facts: facts.impossible_travel is when.impossible_travel,
        _score(when.least_score),
        _among("way", when.ways),
        _among("country", when.countries),
        _not(_among("country", when.except_countries)),
        _among("role", when.roles),
        _among("service", when.services),
        _hours(when.from_hour, when.until_hour),
        _in_networks(when.networks),
        _not(_in_networks(when.except_networks)),
    )
    return [one for one in possible if one is not None]


def _score(least: float | None) -> Test | None:
    return None if least is None else lambda facts: facts.score >= least


def _among(name: str, values: Collection[object]) -> Test | None:
    known, get = frozenset(values), attrgetter(name)
    return (lambda facts: get(facts) in known) if known else None


def _in_networks(networks: tuple[str, ...]) -> Test | None:
    if not networks:
        return None
    inside = within(networks)
    return lambda facts: inside(facts.address)


def _not(test: Test | None) -> Test | None:
    return None if test is None else lambda facts: not test(facts)


def _hours(first: int | None, end: int | None) -> Test | None:
    if first is None or end is None:
        return None
    if first < end:
        return lambda facts: first <= facts.hour < end
    return lambda facts: facts.hour >= first or facts.hour < end


def leaves_out(exceptions: Sequence[RiskException], now: datetime) -> Test:
    """Tests whether an exception that has not ended leaves the sign-in out."""
    standing = [one for one in exceptions if now < one.ends_at]
    people = frozenset(one.value for one in standing if one.kind is ExceptionKind.PERSON)
    teams = frozenset(UUID(one.value) for one in standing if one.kind is ExceptionKind.TEAM)
    inside = within(tuple(one.value for one in standing if one.kind is ExceptionKind.NETWORK))
    return lambda facts: str(facts.user) in people or not teams.isdisjoint(facts.teams) or inside(facts.address)


def deciding(policies: Sequence[RiskPolicy]) -> Callable[[SignInFacts], RiskPolicy | None]:
    """Finds the first of these rules that fits."""
    tested = [(one, tests_of(one.when)) for one in policies]

    def decide(facts: SignInFacts) -> RiskPolicy | None:
        for policy, tests in tested:
            for test in tests:
                if not test(facts):
                    break
            else:
                return policy
        return None

    return decide
