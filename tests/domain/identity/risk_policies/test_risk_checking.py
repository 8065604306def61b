"""Rules for risk that can never fit, fit everybody, or contradict each other are refused in words."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.identity.risk_policies.checking import checked_exceptions, checked_policies, require_known_places
from core.domain.identity.risk_policies.policies import (
    MOST_EXCEPTIONS,
    MOST_NETWORKS,
    MOST_POLICIES,
    NO_POLICIES,
    Decided,
    ExceptionKind,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    SignInWay,
    kept_policy,
    restored_decision,
    restored_exception,
    restored_policy,
    risk_policies_updated,
    stored_exception,
    stored_policy,
)
from core.domain.record.events import SYSTEM
from core.frozen import replace

NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)


def rule(name: str = "A rule", action: RiskAction = RiskAction.REFUSE, *, id: UUID | None = None, **when: Any) -> RiskPolicy:  # noqa: A002
    return RiskPolicy(id=id or uuid4(), name=name, when=RiskConditions(**when), action=action)


def words(*policies: RiskPolicy) -> str:
    with pytest.raises(BadRequest) as refused:
        checked_policies(policies)
    return refused.value.words


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({}, "risk_fits_everybody"),
        ({"least_score": 0.0}, "risk_score"),
        ({"least_score": 1.1}, "risk_score"),
        ({"from_hour": 3}, "risk_hours"),
        ({"until_hour": 3}, "risk_hours"),
        ({"from_hour": 24, "until_hour": 3}, "risk_hours"),
        ({"from_hour": 0, "until_hour": 25}, "risk_hours"),
        ({"from_hour": 3, "until_hour": 3}, "risk_never_fits"),
        ({"from_hour": 0, "until_hour": 24}, "risk_all_hours"),
        ({"countries": ("XX",)}, "risk_country"),
        ({"except_countries": ("Germany",)}, "risk_country"),
        ({"countries": ("DE",), "except_countries": ("DE", "AT")}, "risk_never_fits"),
        ({"networks": ("example.org",)}, "risk_network"),
        ({"networks": ("192.0.2.1/24",)}, "risk_network"),
        ({"except_networks": ("0.0.0.0/0",)}, "risk_every_network"),
        ({"networks": ("192.0.2.0/25",), "except_networks": ("198.51.100.0/24", "192.0.2.0/24")}, "risk_never_fits"),
        ({"networks": ("2001:db8::/48",), "except_networks": ("192.0.2.0/24", "2001:db8::/32")}, "risk_never_fits"),
        ({"networks": tuple(f"10.0.{n}.0/24" for n in range(MOST_NETWORKS + 1))}, "risk_too_many"),
    ],
)
def test_conditions_that_say_nothing_are_refused(when: dict[str, Any], expected: str) -> None:
    assert words(rule(**when)) == expected


@pytest.mark.parametrize("when", [{"countries": ("DE",)}, {"except_countries": ("DE",)}, {"impossible_travel": True}])
def test_an_installation_without_places_keeps_what_stands_and_takes_nothing_new(when: dict[str, Any]) -> None:
    stands, office = rule("Stands", **when), rule("Office", networks=("192.0.2.0/24",))
    require_known_places([stands], [office, replace(stands, name="Renamed")])
    for after in (rule(**when), replace(stands, when=replace(stands.when, countries=("FR",))), replace(stands, id=uuid4())):
        with pytest.raises(BadRequest) as refused:
            require_known_places([stands], [office, after])
        assert refused.value.words == "risk_no_countries"
        assert refused.value.message.startswith("policies[1].when: ")


def test_names_and_numbers_are_bounded() -> None:
    assert words(rule(" ", new_device=True)) == "risk_name"
    assert words(rule("x" * 81, new_device=True)) == "risk_name"
    assert words(*(rule(least_score=n / 100) for n in range(1, MOST_POLICIES + 2))) == "risk_too_many"
    same = uuid4()
    assert words(rule(id=same, new_device=True), rule(id=same, new_device=False)) == "risk_same_id"


def test_of_two_that_contradict_the_first_wins_and_the_words_say_so() -> None:
    first, second = rule("First", new_device=True), rule("Second", RiskAction.PASSKEY, new_device=True)
    with pytest.raises(BadRequest, match="«First»") as refused:
        checked_policies([first, second])
    assert refused.value.values == {"rule": "Second", "winner": "First"}
    everybody = rule("Everybody", RiskAction.NOTHING)
    assert words(everybody, second) == "risk_contradiction"
    assert len(checked_policies([second, everybody])) == 2


def test_rules_are_kept_in_one_form() -> None:
    (kept,) = checked_policies(
        [
            rule(
                " A  rule ",
                least_score=0.333,
                ways=(SignInWay.PASSWORD, SignInWay.LINK, SignInWay.LINK),
                countries=("de", "AT"),
                except_countries=("AT",),
                networks=(" 192.0.2.1", "192.0.2.1", "2001:DB8::/32"),
                except_networks=("2001:db8::/48",),
                roles=("owner", "admin"),
                services=(UUID(int=2), UUID(int=1)),
            )
        ],
    )
    assert kept.name == "A rule"
    assert kept.when == RiskConditions(
        least_score=0.33,
        ways=(SignInWay.LINK, SignInWay.PASSWORD),
        countries=("DE",),
        networks=("192.0.2.1/32", "2001:db8::/32"),
        except_networks=("2001:db8::/48",),
        roles=("admin", "owner"),
        services=(UUID(int=1), UUID(int=2)),
    )
    assert restored_policy(stored_policy(kept)) == kept


def exception(kind: ExceptionKind, value: str, ends_at: datetime = NOW + timedelta(days=1)) -> RiskException:
    return RiskException(kind=kind, value=value, ends_at=ends_at)


def test_exceptions_are_checked() -> None:
    person = exception(ExceptionKind.PERSON, str(UUID(int=1)).upper())
    network = exception(ExceptionKind.NETWORK, "192.0.2.1")
    kept = checked_exceptions([person, network], [], NOW)
    assert [one.value for one in kept] == [str(UUID(int=1)), "192.0.2.1/32"]
    assert [restored_exception(stored_exception(one)) for one in kept] == list(kept)
    for wrong, expected in (
        (exception(ExceptionKind.TEAM, "writers"), "risk_not_an_id"),
        (exception(ExceptionKind.NETWORK, "::/0"), "risk_excepts_everybody"),
        (exception(ExceptionKind.NETWORK, "nowhere"), "risk_network"),
        (replace(person, ends_at=NOW), "risk_end_past"),
    ):
        with pytest.raises(BadRequest) as refused:
            checked_exceptions([wrong], [], NOW)
        assert refused.value.words == expected
    with pytest.raises(BadRequest):
        checked_exceptions([network] * (MOST_EXCEPTIONS + 1), [], NOW)


def test_an_exception_that_has_ended_meanwhile_may_stay() -> None:
    ended = exception(ExceptionKind.TEAM, str(UUID(int=1)), NOW - timedelta(days=1))
    assert checked_exceptions([ended], [ended], NOW) == (ended,)


def test_the_first_rule_that_counts_is_a_beginning_that_stays() -> None:
    one = replace(rule(new_device=True), counts=True)
    began = NO_POLICIES.applied([one], [], NOW)
    assert (began.count_since, began.counting) == (NOW, (replace(one, counts_since=NOW),))
    assert began.applied([one, rule(new_device=False)], [], NOW + timedelta(days=1)).count_since == NOW
    assert began.applied([replace(one, counts=False)], [], NOW).count_since is None


def test_a_rule_keeps_since_when_it_counts_while_it_says_the_same() -> None:
    """Wherever it stands, and whatever moment somebody sends with it. In shadow it has none."""
    one, two = (replace(rule(name, new_device=name == "One"), counts=True) for name in ("One", "Two"))
    began = NO_POLICIES.applied([one], [], NOW)
    later = NOW + timedelta(days=1)
    moved = began.applied([two, one], [], later)
    assert [(rule.name, rule.counts_since) for rule in moved.policies] == [("Two", later), ("One", NOW)]
    assert moved.applied([replace(one, counts_since=later), two], [], later + timedelta(days=1)).policies == moved.policies[::-1]
    assert began.applied([replace(one, action=RiskAction.PASSKEY)], [], later).policies[0].counts_since == later
    shadow = began.applied([replace(one, counts=False, counts_since=NOW)], [], later)
    assert shadow.policies[0].counts_since is None
    assert shadow.applied([one], [], later).policies[0].counts_since == later


def test_a_rule_is_kept_with_its_moment_and_said_without() -> None:
    (one,) = NO_POLICIES.applied([replace(rule(new_device=True), counts=True)], [], NOW).policies
    assert restored_policy(kept_policy(one)) == one
    assert restored_policy(stored_policy(one)) == replace(one, counts_since=None)


def test_the_event_names_rules_and_counts_exceptions() -> None:
    after = RiskPolicies(policies=(replace(rule("One", new_device=True), counts=True), rule("Two", RiskAction.PASSKEY)), exceptions=())
    event = risk_policies_updated(OrganizationId(UUID(int=1)), NO_POLICIES, after, SYSTEM)
    assert event.details == {"old_risk_policies": [], "new_risk_policies": ["One: refuse", "Two: passkey (shadow)"]}


def test_a_decision_is_kept_whole() -> None:
    decided = Decided(OrganizationId(UUID(int=1)), UUID(int=2), "A rule", RiskAction.REFUSE)
    assert restored_decision(decided.stored()) == decided


def test_all_rules_together_have_a_bound_of_networks() -> None:
    each = [tuple(f"10.{place}.{number}.0/24" for number in range(200)) for place in range(6)]
    assert len(checked_policies([rule(f"Rule {place}", networks=each[place]) for place in range(5)])) == 5
    assert words(*(rule(f"Rule {place}", networks=each[place]) for place in range(6))) == "risk_too_many"


def test_all_rules_together_have_a_bound_of_services() -> None:
    services = tuple(uuid4() for _ in range(26))
    assert checked_policies([rule("First", services=services), rule("Second", services=services[1:])])
    others = tuple(uuid4() for _ in range(25))
    assert words(rule("First", services=services), rule("Second", services=others)) == "risk_too_many"


def test_networks_that_all_lie_within_others_are_compared_in_a_moment() -> None:
    inner = (*(f"10.{number}.0.0/24" for number in range(199)), "192.0.2.0/24")
    outer = (*(f"172.16.{number}.0/24" for number in range(199)), "10.0.0.0/8")
    counted = 0

    def count(*_: Any) -> None:
        nonlocal counted
        counted += 1

    sys.setprofile(count)
    try:
        checked_policies([rule(f"Rule {place}", networks=inner, except_networks=(*outer[place:],)) for place in range(2)])
    finally:
        sys.setprofile(None)
    assert counted < 1_000_000
    assert words(rule(networks=inner[:-1], except_networks=outer)) == "risk_never_fits"


@pytest.mark.parametrize(("first", "end"), [(22, 6), (0, 23), (1, 24)])
def test_hours_of_a_day_or_of_a_night_are_a_rule(first: int, end: int) -> None:
    (kept,) = checked_policies([rule(from_hour=first, until_hour=end)])
    assert (kept.when.from_hour, kept.when.until_hour) == (first, end)
