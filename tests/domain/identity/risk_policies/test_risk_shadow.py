"""Whom rules for risk would have met, in a log of sign-ins."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.identifiers import DeviceId, OrganizationId, UserId
from core.domain.identity.risk_policies.owner_mails import WAY_BACK_LIFETIME, NotAWayBack, WayBack
from core.domain.identity.risk_policies.policies import (
    ExceptionKind,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    SignInWay,
)
from core.domain.identity.risk_policies.shadow import MOST_NAMED, PastPerson, PastSignIn, ShadowReport, own_outcome
from core.domain.identity.risk_policies.verdicts import SignInFacts
from core.domain.mail import Email
from core.frozen import replace

NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)
ADA, BOB = UserId(UUID(int=1)), UserId(UUID(int=2))
LAPTOP: Final = DeviceId(UUID(int=3))
OWN: Final = PastPerson("member", is_own=True, teams=frozenset())


def rule(**when: Any) -> RiskPolicy:
    return RiskPolicy(id=uuid4(), name="A rule", when=RiskConditions(**when), action=RiskAction.REFUSE)


def signed_in(user: UserId = ADA, at: datetime = NOW, **more: Any) -> PastSignIn:
    values: dict[str, Any] = {
        "provider": "password",
        "country": "DE",
        "address": "192.0.2.1",
        "device": LAPTOP,
        "new_device": False,
        "score": 0.0,
        "service": None,
        **more,
    }
    return PastSignIn(id=uuid4(), user=user, at=at, **values)


def test_it_counts_by_day_and_names_the_latest_people_first() -> None:
    anywhere = rule(except_countries=("AT",))
    report = ShadowReport(RiskPolicies(policies=(anywhere,)), {ADA: OWN, BOB: OWN}, NOW)
    report.take(
        [signed_in(ADA, NOW - timedelta(days=1)), signed_in(BOB, NOW - timedelta(hours=2)), signed_in(ADA), signed_in(country="AT")]
    )
    (told,) = report.reports()
    assert (report.judged, told.met, told.people) == (4, 3, 2)
    assert told.days == ((NOW.date() - timedelta(days=1), 1), (NOW.date(), 2))
    assert [one.user for one in told.latest] == [ADA, BOB]


def test_it_names_no_more_than_it_says() -> None:
    report = ShadowReport(RiskPolicies(policies=(rule(except_countries=("AT",)),)), {}, NOW)
    report.take(signed_in(UserId(UUID(int=n))) for n in range(MOST_NAMED + 5))
    (told,) = report.reports()
    assert (told.people, len(told.latest)) == (MOST_NAMED + 5, MOST_NAMED)


def test_exceptions_are_left_out() -> None:
    exception = RiskException(kind=ExceptionKind.PERSON, value=str(ADA), ends_at=NOW + timedelta(days=1))
    report = ShadowReport(RiskPolicies(policies=(rule(except_countries=("AT",)),), exceptions=(exception,)), {}, NOW)
    report.take([signed_in(ADA), signed_in(BOB)])
    assert [one.user for one in report.reports()[0].latest] == [BOB]


def test_listed_people_are_judged_by_their_sign_ins_here() -> None:
    new, scored = rule(new_device=True), rule(least_score=0.2)
    report = ShadowReport(RiskPolicies(policies=(new, scored)), {}, NOW)
    # The log says that the device is known and the score high; both come from elsewhere.
    report.take([signed_in(score=0.9), signed_in(score=0.9), signed_in(country="US", score=0.9), signed_in(device=None, country=None)])
    assert [one.met for one in report.reports()] == [2, 1]


def test_own_members_are_judged_by_what_the_log_says() -> None:
    report = ShadowReport(RiskPolicies(policies=(rule(least_score=0.9), rule(impossible_travel=True))), {ADA: OWN}, NOW)
    report.take([signed_in(score=0.9, at=NOW - timedelta(hours=1)), signed_in(country="US")])
    assert [one.met for one in report.reports()] == [1, 1]


def test_what_a_rule_refused_is_met_and_makes_nothing_known() -> None:
    new, far = rule(new_device=True), rule(impossible_travel=True)
    report = ShadowReport(RiskPolicies(policies=(new, far)), {}, NOW)
    refused = signed_in(country="US", at=NOW - timedelta(minutes=5), is_refused=True)
    report.take([signed_in(device=None, at=NOW - timedelta(hours=1)), refused, refused, signed_in(device=None)])
    assert (report.judged, [one.met for one in report.reports()]) == (4, [4, 0])
    ours = ShadowReport(RiskPolicies(policies=(far,)), {ADA: OWN}, NOW)
    ours.take([signed_in(at=NOW - timedelta(hours=1)), refused, signed_in()])
    # From Germany to Germany: the place of the refused one is no place where the person was.
    assert [one.met for one in ours.reports()] == [1]


def test_what_goes_on_from_a_session_is_met_by_none_and_hides_no_travel() -> None:
    """The sign-in judges so, too: it asks for the last place that somebody knew."""
    rules = RiskPolicies(policies=(rule(impossible_travel=True), rule(except_countries=("AT",)), rule(services=(UUID(int=7),))))
    report = ShadowReport(rules, {ADA: OWN}, NOW)
    nowhere: dict[str, Any] = {"country": None, "address": None, "provider": "session", "goes_on": True}
    report.take([signed_in(at=NOW - timedelta(hours=1)), signed_in(at=NOW - timedelta(minutes=9), **nowhere), signed_in(country="US")])
    assert [(one.met, one.by_session) for one in report.reports()] == [(1, 1), (1, 1), (0, 0)]
    assert report.judged == 2


def test_a_device_that_went_on_from_a_session_is_known_to_whoever_lists_the_person() -> None:
    """As to the sign-in, which reads the same log."""
    report = ShadowReport(RiskPolicies(policies=(rule(new_device=True),)), {}, NOW)
    report.take([signed_in(country=None, address=None, goes_on=True), signed_in()])
    assert [(one.met, one.by_session) for one in report.reports()] == [(0, 1)]


def test_whoever_looks_sees_what_the_rules_would_do_with_them() -> None:
    facts = SignInFacts(
        user=ADA,
        role="owner",
        score=0.0,
        way=SignInWay.PASSWORD,
        country="DE",
        address="192.0.2.1",
        new_device=False,
        impossible_travel=False,
        hour=12,
    )
    one = rule(roles=("owner",))
    found = own_outcome(RiskPolicies(policies=(one,)), facts, NOW)
    assert found is not None
    assert (found.policy, found.action) == (one, RiskAction.REFUSE)
    assert own_outcome(RiskPolicies(policies=(one,)), replace(facts, role="member"), NOW) is None
    exception = RiskException(kind=ExceptionKind.PERSON, value=str(ADA), ends_at=NOW + timedelta(days=1))
    assert own_outcome(RiskPolicies(policies=(one,), exceptions=(exception,)), facts, NOW) is None


def test_a_way_back_is_bound_to_person_organization_and_time() -> None:
    way = WayBack.of(ADA, OrganizationId(UUID(int=9)), Email("ada@example.org"), NOW)
    assert WayBack.unpacked(way.packed()) == way
    everywhere = WayBack.of(ADA, None, Email("ada@example.org"), NOW)
    assert WayBack.unpacked(everywhere.packed()) == everywhere
    assert not way.is_over(NOW + WAY_BACK_LIFETIME - timedelta(seconds=1))
    assert way.is_over(NOW + WAY_BACK_LIFETIME)
    with pytest.raises(NotAWayBack):
        WayBack.unpacked(b"short")
