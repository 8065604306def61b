"""Which sign-ins the conditions of a rule for risk fit, and which rule decides."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.identifiers import UserId
from core.domain.identity.risk_policies.facts import SignInFacts, deciding, has_two_countries, leaves_out
from core.domain.identity.risk_policies.policies import (
    ExceptionKind,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicy,
    SignInWay,
)
from core.domain.identity.risk_policies.ways import way_of
from core.frozen import replace

NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)
SHOP, TEAM = UUID(int=7), UUID(int=8)
ADA: Final = UserId(UUID(int=1))
FACTS: Final = SignInFacts(
    user=ADA,
    teams=frozenset({TEAM}),
    role="member",
    score=0.5,
    way=SignInWay.PASSWORD,
    country="DE",
    address="192.0.2.1",
    new_device=True,
    two_countries=False,
    hour=23,
    service=SHOP,
)


def rule(action: RiskAction = RiskAction.REFUSE, **when: Any) -> RiskPolicy:
    return RiskPolicy(id=uuid4(), name="A rule", when=RiskConditions(**when), action=action, counts=True)


@pytest.mark.parametrize(
    "when",
    [
        {"least_score": 0.5},
        {"ways": (SignInWay.LINK, SignInWay.PASSWORD)},
        {"countries": ("AT", "DE")},
        {"except_countries": ("AT",)},
        {"networks": ("2001:db8::/32", "192.0.2.0/24")},
        {"except_networks": ("198.51.100.0/24",)},
        {"new_device": True},
        {"two_countries": False},
        {"from_hour": 22, "until_hour": 6},
        {"from_hour": 20, "until_hour": 24},
        {"services": (SHOP,)},
        {"roles": ("member",)},
    ],
)
def test_each_condition_fits(when: dict[str, Any]) -> None:
    assert deciding([rule(**when)])(FACTS) is not None


@pytest.mark.parametrize(
    "when",
    [
        {"least_score": 0.51},
        {"ways": (SignInWay.LINK,)},
        {"countries": ("AT",)},
        {"except_countries": ("DE",)},
        {"networks": ("198.51.100.0/24", "2001:db8::/32")},
        {"except_networks": ("192.0.2.0/24",)},
        {"new_device": False},
        {"two_countries": True},
        {"from_hour": 0, "until_hour": 6},
        {"from_hour": 4, "until_hour": 2},
        {"services": (UUID(int=9),)},
        {"roles": ("owner",)},
        {"new_device": True, "roles": ("owner",)},
    ],
)
def test_each_condition_does_not_fit(when: dict[str, Any]) -> None:
    facts = replace(FACTS, hour=3) if when.get("from_hour") == 4 else FACTS
    assert deciding([rule(**when)])(facts) is None


def test_what_nobody_knows_is_in_no_country_and_no_network() -> None:
    unknown = replace(FACTS, country=None, address=None)
    assert deciding([rule(countries=("DE",)), rule(networks=("192.0.2.0/24",))])(unknown) is None
    assert deciding([rule(except_countries=("DE",))])(unknown) is not None
    assert deciding([rule(except_networks=("192.0.2.0/24",))])(replace(unknown, address="unknown")) is not None


def test_the_first_that_fits_decides() -> None:
    let_in, refuse = rule(RiskAction.NOTHING, roles=("member",)), rule(new_device=True)
    assert deciding([let_in, refuse])(FACTS) == let_in
    assert deciding([let_in, refuse])(replace(FACTS, role="owner")) == refuse


@pytest.mark.parametrize(
    ("kind", "value", "left_out"),
    [
        (ExceptionKind.PERSON, str(ADA), True),
        (ExceptionKind.PERSON, str(TEAM), False),
        (ExceptionKind.TEAM, str(TEAM), True),
        (ExceptionKind.TEAM, str(ADA), False),
        (ExceptionKind.NETWORK, "192.0.2.0/24", True),
        (ExceptionKind.NETWORK, "198.51.100.0/24", False),
    ],
)
def test_an_exception_leaves_out_until_its_end(kind: ExceptionKind, value: str, *, left_out: bool) -> None:
    exception = RiskException(kind=kind, value=value, ends_at=NOW)
    assert leaves_out([exception], NOW - timedelta(seconds=1))(FACTS) is left_out
    assert leaves_out([exception], NOW)(FACTS) is False


def test_two_countries_within_two_hours() -> None:
    assert has_two_countries("DE", ("US", NOW - timedelta(minutes=119)), NOW)
    assert not has_two_countries("DE", ("US", NOW - timedelta(hours=2)), NOW)
    assert not has_two_countries("DE", ("DE", NOW), NOW)
    assert not has_two_countries(None, ("US", NOW), NOW)
    assert not has_two_countries("DE", (None, NOW), NOW)
    assert not has_two_countries("DE", None, NOW)


def test_ways_have_names() -> None:
    assert [way_of(one) for one in ("password", "link", "passkey", "codehost")] == [
        SignInWay.PASSWORD,
        SignInWay.LINK,
        SignInWay.PASSKEY,
        SignInWay.PROVIDER,
    ]
