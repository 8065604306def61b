"""What the rules for risk of several organizations say of one sign-in, and what an organization that merely lists somebody may know."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.identifiers import DeviceId, OrganizationId, UserId
from core.domain.identity.devices import Client, DeviceType, Location, UserAgent
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.risk import Approach, Recognition, Risk, RiskFactor, Sighting
from core.domain.identity.risk_policies.policies import RiskAction, RiskConditions, RiskPolicies, RiskPolicy, SignInWay
from core.domain.identity.risk_policies.verdicts import (
    NOTHING_ASKED,
    AskedRules,
    Came,
    KeptOut,
    RefusedByRule,
    RiskVerdict,
    SeenSignIn,
    facts_of,
    judge_sign_in,
)
from core.frozen import replace

NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)
ACME, GLOBEX = OrganizationId(UUID(int=1)), OrganizationId(UUID(int=2))
LAPTOP: Final = DeviceId(UUID(int=3))
APPROACH: Final = Approach(
    Client("192.0.2.1", ""), UserAgent(DeviceType.BROWSER, "Firefox", None, "Linux", None), Location("DE", "Bonn"), through_proxy=True
)
SIGHTING: Final = Sighting(APPROACH, Recognition.TOKEN, LAPTOP, trusted=True, needs_token=False, risk=Risk(0.9, (RiskFactor.PROXY,)))
CAME: Final = Came(
    user=UserId(UUID(int=4)), sighting=SIGHTING, way=SignInWay.PASSWORD, service=None, shows_two_factors=False, shows_passkey=False
)


def asked(organization: OrganizationId, action: RiskAction, *, is_own: bool = True, counts: bool = True, **when: Any) -> AskedRules:
    conditions = RiskConditions(**when) if when else RiskConditions(ways=(SignInWay.PASSWORD,))
    policy = RiskPolicy(id=uuid4(), name="A rule", when=conditions, action=action, counts=counts)
    return AskedRules(organization=organization, rules=RiskPolicies(policies=(policy,)), is_own=is_own)


def test_nobody_asks_nothing() -> None:
    assert judge_sign_in([], ACME, CAME, NOW) == NOTHING_ASKED


@pytest.mark.parametrize(
    ("action", "two", "passkey", "owes"),
    [
        (RiskAction.NOTHING, False, False, None),
        (RiskAction.TELL_PERSON, False, False, None),
        (RiskAction.REFUSE, True, True, RiskAction.REFUSE),
        (RiskAction.SECOND_FACTOR, False, False, RiskAction.SECOND_FACTOR),
        (RiskAction.SECOND_FACTOR, True, False, None),
        (RiskAction.PASSKEY, True, False, RiskAction.PASSKEY),
        (RiskAction.PASSKEY, True, True, None),
    ],
)
def test_the_organization_that_it_leads_to_asks(action: RiskAction, owes: RiskAction | None, *, two: bool, passkey: bool) -> None:
    verdict = judge_sign_in([asked(ACME, action)], ACME, replace(CAME, shows_two_factors=two, shows_passkey=passkey), NOW)
    assert verdict.owes is owes
    assert verdict.decided is not None
    assert verdict.decided.action is action
    assert (verdict.let_in_by, verdict.kept_out_by) == (((ACME,), ()) if owes is None else ((), (ACME,)))


def test_others_keep_their_own_door_shut_and_refuse_nothing() -> None:
    verdict = judge_sign_in([asked(ACME, RiskAction.NOTHING), asked(GLOBEX, RiskAction.REFUSE)], ACME, CAME, NOW)
    assert (verdict.owes, verdict.insists) == (None, False)
    assert (verdict.let_in_by, verdict.kept_out_by) == ((ACME,), (GLOBEX,))


def test_a_factor_is_asked_for_outside_by_own_memberships_alone() -> None:
    assert judge_sign_in([asked(GLOBEX, RiskAction.SECOND_FACTOR)], None, CAME, NOW).insists
    listed = judge_sign_in([asked(GLOBEX, RiskAction.SECOND_FACTOR, is_own=False)], None, CAME, NOW)
    assert (listed.insists, listed.kept_out_by) == (False, (GLOBEX,))


def test_a_rule_in_shadow_decides_nothing() -> None:
    verdict = judge_sign_in([asked(ACME, RiskAction.REFUSE, counts=False)], ACME, CAME, NOW)
    assert (verdict.decided, verdict.owes, verdict.let_in_by) == (None, None, (ACME,))


def test_an_own_membership_is_judged_by_all_that_is_known() -> None:
    facts = facts_of(replace(asked(ACME, RiskAction.REFUSE), seen=(SeenSignIn(NOW - timedelta(hours=1), "US", None, None),)), CAME, NOW)
    assert (facts.score, facts.new_device, facts.country, facts.impossible_travel) == (0.9, False, "DE", True)


def test_one_travels_from_the_last_place_that_somebody_knew() -> None:
    """A visit that went on from a session has no place, and hides nothing."""
    seen = (SeenSignIn(NOW - timedelta(minutes=5), None, LAPTOP, None), SeenSignIn(NOW - timedelta(hours=1), "US", None, None))
    for is_own in (True, False):
        assert facts_of(replace(asked(ACME, RiskAction.REFUSE, is_own=is_own), seen=seen), CAME, NOW).impossible_travel


def test_a_listed_one_is_judged_by_what_the_organization_has_seen() -> None:
    wrong = LoginFailure.WRONG_PASSWORD.value
    seen = (
        SeenSignIn(NOW, "DE", None, wrong),
        SeenSignIn(NOW, "DE", None, LoginFailure.DEACTIVATED.value),
        SeenSignIn(NOW - timedelta(hours=3), "US", LAPTOP, None),
        SeenSignIn(NOW - timedelta(hours=4), None, None, wrong),
    )
    stranger = asked(ACME, RiskAction.REFUSE, is_own=False)
    facts = facts_of(replace(stranger, seen=seen), CAME, NOW)
    # Another country 0.2, a proxy 0.1, one wrong password 0.2; the device is known there.
    assert (facts.score, facts.new_device, facts.impossible_travel) == (0.5, False, False)
    never = facts_of(stranger, replace(CAME, sighting=replace(SIGHTING, device=None)), NOW)
    assert (never.score, never.new_device) == (0.4, True)


def test_an_address_without_a_place_has_no_country() -> None:
    nowhere = replace(CAME, sighting=replace(SIGHTING, approach=replace(APPROACH, location=None)))
    assert facts_of(asked(ACME, RiskAction.REFUSE), nowhere, NOW).country is None


@pytest.mark.parametrize("is_installations", [False, True])
def test_refusals_say_what_is_asked_for(is_installations: bool) -> None:
    asks = (RiskAction.REFUSE, RiskAction.SECOND_FACTOR, RiskAction.PASSKEY)
    said = [RefusedByRule(RiskVerdict(owes=one, is_installations=is_installations)).words for one in asks]
    here = "_here" if is_installations else ""
    assert said == [f"risk_refused{here}", f"risk_second_factor{here}", f"risk_passkey{here}"]
    assert (KeptOut("acme").words, KeptOut("acme").slug) == ("risk_kept_out", "acme")


@pytest.mark.parametrize(
    ("installation", "organization", "owes", "is_installations"),
    [
        (RiskAction.REFUSE, RiskAction.REFUSE, RiskAction.REFUSE, True),
        (RiskAction.PASSKEY, RiskAction.REFUSE, RiskAction.REFUSE, False),
        (RiskAction.PASSKEY, RiskAction.SECOND_FACTOR, RiskAction.PASSKEY, True),
        (RiskAction.TELL_OWNERS, RiskAction.PASSKEY, RiskAction.PASSKEY, False),
        (RiskAction.SECOND_FACTOR, RiskAction.NOTHING, RiskAction.SECOND_FACTOR, True),
        (RiskAction.NOTHING, RiskAction.TELL_PERSON, None, False),
    ],
)
def test_the_installations_rule_comes_first_and_the_stricter_wins(
    installation: RiskAction, organization: RiskAction, owes: RiskAction | None, is_installations: bool
) -> None:
    of_installation = replace(asked(ACME, installation), organization=None)
    verdict = judge_sign_in([asked(ACME, organization), of_installation], ACME, CAME, NOW)
    assert (verdict.owes, verdict.is_installations) == (owes, is_installations)
    assert verdict.by_installation is not None
    assert verdict.decided is not None
    assert (verdict.by_installation.organization, verdict.by_installation.action) == (None, installation)
    assert (verdict.decided.organization, verdict.decided.action) == (ACME, organization)


def test_the_installations_rule_opens_and_shuts_no_organization() -> None:
    verdict = judge_sign_in([replace(asked(ACME, RiskAction.REFUSE), organization=None)], None, CAME, NOW)
    assert (verdict.owes, verdict.let_in_by, verdict.kept_out_by, verdict.insists) == (RiskAction.REFUSE, (), (), False)
