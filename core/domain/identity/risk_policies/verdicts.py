"""Evaluates risk policies for one sign-in."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import asin, cos, radians, sin, sqrt
from operator import attrgetter
from typing import Final
from uuid import UUID

from core.domain.errors import Forbidden
from core.domain.identifiers import DeviceId, OrganizationId, ServiceId, UserId
from core.domain.identity.devices import Spot
from core.domain.identity.guards.traffic import ListedNetworks
from core.domain.identity.risk import FAILED_ATTEMPTS, Circumstances, Knowledge, Sighting, assess, is_known_location, is_usual_hour
from core.domain.identity.risk_policies.policies import (
    NO_ROLE,
    Decided,
    ExceptionKind,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    SignInWay,
)
from core.frozen import Frozen, replace

# Who signs in from two countries within this time has not travelled.
TRAVEL: Final = timedelta(hours=2)
# Faster than airliners, with the way to them; and farther than databases of places are wrong.
_KILOMETRES_PER_HOUR: Final = 900
_LEAST_KILOMETRES: Final = 200
_RADIUS: Final = 6371
# Addresses whose answer a test keeps.
_MOST_KNOWN: Final = 1000


class SignInFacts(Frozen, kw_only=True):
    """What a risk policy can know of a sign-in. The sign-in and the report of report-only policies use the same."""

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


class SeenSignIn(Frozen):
    """A sign-in, or a try, that an organization has seen."""

    at: datetime
    country: str | None
    device: DeviceId | None
    failure: str | None
    spot: Spot | None = None

    @property
    def is_placed(self) -> bool:
        """Nobody knows where an application's sign-in was that went on from a session: it must not hide the one before."""
        return self.country is not None or self.spot is not None


class AskedRules(Frozen, kw_only=True):
    """The rules of an organization that the sign-in of a person has to be judged by."""

    organization: OrganizationId | None
    """None for the rules of the installation."""
    rules: RiskPolicies
    is_own: bool
    """The person is a member by their own act. True for the installation."""
    role: str = NO_ROLE
    teams: frozenset[UUID] = frozenset()
    seen: tuple[SeenSignIn, ...] = ()
    """The person's last sign-ins, the newest first: the last one of all whose place is known if the membership is own, and else those that
    led to the organization.
    """


class Came(Frozen, kw_only=True):
    """Who came, and how."""

    user: UserId
    sighting: Sighting
    way: SignInWay
    service: ServiceId | None
    shows_two_factors: bool
    shows_passkey: bool


class RiskVerdict(Frozen, kw_only=True):
    """The policies of the organization that the sign-in leads to may require more, or refuse. No other organization refuses a sign-in: it
    closes only itself to the session, and the user's other organizations, and the user's account, stay open. An organization with an
    unconfirmed tie to the user judges by what it has seen of them itself, and requires nothing outside itself.
    """

    decided: Decided | None = None
    """The rule of the organization that the sign-in leads to, if one fits."""
    by_installation: Decided | None = None
    """The rule of the installation, if one fits."""
    owes: RiskAction | None = None
    """What these rules ask for and the sign-in has not shown, the strictest of both; `REFUSE` for what nothing makes good."""
    is_installations: bool = False
    """Whether the rule of the installation asks for this."""
    insists: bool = False
    """An organization of the person's own asks for a second factor or passkey that the sign-in has not shown."""
    let_in_by: tuple[UUID, ...] = ()
    """Organizations, and services for which one has rules of their own."""
    kept_out_by: tuple[UUID, ...] = ()


NOTHING_ASKED: Final = RiskVerdict()


class RefusedByRule(Forbidden):
    """A rule for risk of the organization keeps this sign-in out of it, or a rule of the installation refuses it anywhere."""

    def __init__(self, verdict: RiskVerdict) -> None:
        message, words = _SAID[verdict.is_installations, verdict.owes or RiskAction.REFUSE]
        super().__init__(message, words=words)
        self.verdict = verdict


_SAID: Final = {
    (False, RiskAction.REFUSE): ("A risk policy of this organization denied this sign-in: its owners can see which", "risk_refused"),
    (False, RiskAction.SECOND_FACTOR): (
        "A risk policy of this organization requires MFA for this sign-in, and you have not set it up",
        "risk_second_factor",
    ),
    (False, RiskAction.PASSKEY): (
        "A risk policy of this organization requires a passkey for this sign-in: sign in with your passkey",
        "risk_passkey",
    ),
    (True, RiskAction.REFUSE): (
        "A risk policy of this installation denied this sign-in: its administrators can see which",
        "risk_refused_here",
    ),
    (True, RiskAction.SECOND_FACTOR): (
        "A risk policy of this installation requires MFA for this sign-in, and you have not set it up",
        "risk_second_factor_here",
    ),
    (True, RiskAction.PASSKEY): (
        "A risk policy of this installation requires a passkey for this sign-in: sign in with your passkey",
        "risk_passkey_here",
    ),
}


class KeptOut(Forbidden):
    """The session comes from a sign-in that the organization's rules do not let in."""

    text = "The sign-in rules of this organization do not accept this session: sign in again, with all your methods"

    def __init__(self, slug: str) -> None:
        self.slug = slug
        super().__init__(words="risk_kept_out")


def judge_sign_in(asked: Sequence[AskedRules], leads_to: OrganizationId | None, came: Came, now: datetime) -> RiskVerdict:
    """The rules of the installation come first. Both may ask for something, and the stricter wins."""
    let_in: list[UUID] = []
    kept_out: list[UUID] = []
    decided, by_installation, owes, is_installations, insists = None, None, None, False, False
    for one in sorted(asked, key=_is_of_organization):
        facts = facts_of(one, came, now)
        is_left_out, decide = leaves_out(one.rules.exceptions, now)(facts), deciding(one.rules.counting)
        policy = None if is_left_out else decide(facts)
        owed_here = None if policy is None else owed(policy.action, came)
        if one.organization is None:
            by_installation, owes, is_installations = _decided(one, policy), owed_here, owed_here is not None
            continue
        (let_in if owed_here is None else kept_out).append(one.organization)
        # The session may go on to services for which the organization has rules of their own.
        for service in sorted({service for rule in one.rules.counting for service in rule.when.services}):
            there = None if is_left_out else decide(replace(facts, service=service))
            (let_in if there is None or owed(there.action, came) is None else kept_out).append(service)
        if one.organization == leads_to:
            decided = _decided(one, policy)
            if owed_here is not None and (owes is None or owed_here.is_stricter_than(owes)):
                owes, is_installations = owed_here, False
        elif one.is_own and owed_here is not None and owed_here.asks_for_factor:
            insists = True
    return RiskVerdict(
        decided=decided,
        by_installation=by_installation,
        owes=owes,
        is_installations=is_installations,
        insists=insists,
        let_in_by=tuple(let_in),
        kept_out_by=tuple(kept_out),
    )


def _is_of_organization(asked: AskedRules) -> bool:
    return asked.organization is not None


def _decided(asked: AskedRules, policy: RiskPolicy | None) -> Decided | None:
    return None if policy is None else Decided(asked.organization, policy.id, policy.name, policy.action)


def owed(action: RiskAction, came: Came) -> RiskAction | None:
    """What the action asks for and the sign-in has not shown."""
    if action is RiskAction.REFUSE:
        return action
    if action is RiskAction.PASSKEY:
        return None if came.shows_passkey else action
    return action if action is RiskAction.SECOND_FACTOR and not came.shows_two_factors else None


def facts_of(asked: AskedRules, came: Came, now: datetime) -> SignInFacts:
    """What this organization may know of the sign-in."""
    sighting, approach = came.sighting, came.sighting.approach
    location = approach.location
    country, spot = (None, None) if location is None else (location.country, location.spot)
    last = next((one for one in asked.seen if one.failure is None and one.is_placed), None)
    new_device, score = sighting.device is None, sighting.risk.score
    if not asked.is_own:
        new_device, score = _as_seen(asked.seen, sighting, now)
    return SignInFacts(
        user=came.user,
        teams=asked.teams,
        role=asked.role,
        score=score,
        way=came.way,
        country=country,
        address=approach.client.address,
        new_device=new_device,
        impossible_travel=cannot_have_travelled(country, spot, None if last is None else LastSeen(last.country, last.spot, last.at), now),
        hour=now.astimezone(UTC).hour,
        service=came.service,
    )


def _as_seen(seen: Sequence[SeenSignIn], sighting: Sighting, now: datetime) -> tuple[bool, float]:
    """Whether the device is new to somebody who has seen no other sign-ins, and the score."""
    good = [one for one in seen if one.failure is None]
    failed = 0
    for one in seen:
        if one.failure is None:
            break
        failed += one.failure in _GUESSES
    known = Knowledge(
        sign_ins=len(good),
        hours=frozenset(one.at.astimezone(UTC).hour for one in good),
        countries=frozenset(one.country for one in good if one.country is not None),
    )
    is_known = sighting.device is not None and any(one.device == sighting.device for one in good)
    risk = assess(
        Circumstances(
            known_device=is_known,
            known_location=is_known_location(sighting.approach.location, known),
            usual_hour=is_usual_hour(now, known),
            through_proxy=sighting.approach.through_proxy,
            failed_attempts=failed,
        )
    )
    return not is_known, risk.score


_GUESSES: Final = frozenset(failure.value for failure in FAILED_ATTEMPTS)
