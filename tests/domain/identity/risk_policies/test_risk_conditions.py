"""Which sign-ins the conditions of a rule for risk fit, and which rule decides."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.identifiers import UserId
from core.domain.identity.devices import Spot
from core.domain.identity.risk_policies import verdicts
from core.domain.identity.risk_policies.policies import (
    ExceptionKind,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicy,
    SignInWay,
)
from core.domain.identity.risk_policies.shadow import way_of
from core.domain.identity.risk_policies.verdicts import LastSeen, SignInFacts, cannot_have_travelled, deciding, kilometres, leaves_out
from core.frozen import replace

FRANKFURT, MUNICH, STRASBOURG, NEW_YORK = (501, 87), (481, 116), (486, 77), (407, -740)
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
    impossible_travel=False,
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
        {"impossible_travel": False},
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
        {"impossible_travel": True},
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


def test_impossible_travel_within_two_hours() -> None:
    def travelled(country: str | None, before: str | None, ago: timedelta) -> bool:
        return not cannot_have_travelled(country, None, LastSeen(before, None, NOW - ago), NOW)

    assert not travelled("DE", "US", timedelta(minutes=119))
    assert travelled("DE", "US", timedelta(hours=2))
    assert travelled("DE", "US", timedelta(hours=-1))
    assert travelled("DE", "DE", timedelta(0))
    assert travelled(None, "US", timedelta(0))
    assert travelled("DE", None, timedelta(0))
    assert not cannot_have_travelled("DE", None, None, NOW)


@pytest.mark.parametrize(
    ("there", "before", "hours", "travelled"),
    [
        ("US", NEW_YORK, 2, False),
        ("US", NEW_YORK, 6, False),
        ("US", NEW_YORK, 8, True),
        # Within one country, or over a border that is near.
        ("DE", MUNICH, 0, False),
        ("DE", MUNICH, 1, True),
        ("FR", STRASBOURG, 0, True),
        # Over the pole and the date line.
        ("FJ", (-178, 1785), 17, False),
        ("FJ", (-178, -1785), 20, True),
    ],
)
def test_travel_is_judged_by_the_distance_where_it_is_known(there: str, before: Spot, hours: int, travelled: bool) -> None:
    last = LastSeen(there, before, NOW - timedelta(hours=hours))
    assert cannot_have_travelled("DE", FRANKFURT, last, NOW) is not travelled


def test_distances_are_those_of_the_earth() -> None:
    assert 6150 < kilometres(FRANKFURT, NEW_YORK) < 6250
    assert kilometres((0, 0), (0, 1800)) == pytest.approx(20015, abs=1)
    assert kilometres((-178, 1799), (-178, -1799)) < 30


def test_ways_have_names() -> None:
    assert [way_of(one) for one in ("password", "link", "passkey", "codehost")] == [
        SignInWay.PASSWORD,
        SignInWay.LINK,
        SignInWay.PASSKEY,
        SignInWay.PROVIDER,
    ]


def test_a_test_of_networks_forgets_addresses_and_answers_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "_MOST_KNOWN", 1)
    inside = verdicts.within(("192.0.2.0/24",))
    assert [inside(one) for one in ("192.0.2.1", "198.51.100.1", "192.0.2.1", None, "none")] == [True, False, True, False, False]
