"""What sign-in rules ask of everybody or of those with a role, what they ask of whoever sets them, and requests from afar."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.errors import BadRequest, SecondFactorRequired
from core.domain.tenancy.sign_in_rules import (
    AdminFactor,
    AfarRule,
    AllFactor,
    SignInRules,
    SignInRulesChange,
    asked_of,
    require_of_oneself,
)

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(days=3)
ROLE = "billing/approver"
OF_ALL = SignInRules(all_factor=AllFactor.PASSKEY, all_required_since=EARLIER)
OF_ROLE = SignInRules(all_factor=AllFactor.ROLE_PASSKEY, all_factor_role=ROLE, all_required_since=EARLIER)
TO_ALL = SignInRulesChange(all_factor=AllFactor.PASSKEY)
TO_ROLE = SignInRulesChange(all_factor=AllFactor.ROLE_PASSKEY, all_factor_role=ROLE)
TO_NOBODY = SignInRulesChange(all_factor=AllFactor.OPTIONAL)


def test_a_demand_that_reaches_others_begins_anew() -> None:
    assert TO_ALL.applied(SignInRules(), NOW) == SignInRules(all_factor=AllFactor.PASSKEY, all_required_since=NOW)
    assert TO_ALL.applied(OF_ALL, NOW) == OF_ALL
    # A smaller one reaches nobody new.
    assert TO_ROLE.applied(OF_ALL, NOW) == OF_ROLE
    grown = TO_ALL.applied(OF_ROLE, NOW)
    assert (grown.all_factor, grown.all_factor_role, grown.all_required_since) == (AllFactor.PASSKEY, None, NOW)
    other = SignInRulesChange(all_factor_role="billing/owner").applied(OF_ROLE, NOW)
    assert (other.all_factor_role, other.all_required_since) == ("billing/owner", NOW)
    for before in (OF_ALL, OF_ROLE):
        assert TO_NOBODY.applied(before, NOW) == SignInRules()


def test_a_demand_names_a_role_exactly_where_it_needs_one() -> None:
    for change, before in ((TO_ALL, SignInRules()), (TO_ROLE, SignInRules()), (SignInRulesChange(mfa_grace_days=1), OF_ROLE)):
        change.applied(before, NOW).require_whole_demand(change)
    without = SignInRulesChange(all_factor=AllFactor.ROLE_PASSKEY)
    with pytest.raises(BadRequest, match="all_factor_role: specify the role"):
        without.applied(SignInRules(), NOW).require_whole_demand(without)
    more = SignInRulesChange(all_factor=AllFactor.PASSKEY, all_factor_role=ROLE)
    with pytest.raises(BadRequest, match="only with all_factor role_passkey"):
        more.applied(SignInRules(), NOW).require_whole_demand(more)
    # A document says that there is none.
    nobody = SignInRulesChange(all_factor=AllFactor.OPTIONAL, all_factor_role=None)
    nobody.applied(OF_ROLE, NOW).require_whole_demand(nobody)


def test_a_preview_asks_about_what_the_change_asks() -> None:
    assert asked_of(SignInRules(), OF_ROLE).all_factor is AllFactor.ROLE_PASSKEY
    assert asked_of(SignInRules(), OF_ROLE).all_factor_role == ROLE
    assert asked_of(OF_ALL, OF_ALL).all_factor is None
    assert asked_of(OF_ALL, SignInRulesChange(mfa_grace_days=0).applied(OF_ALL, NOW)).all_factor is AllFactor.PASSKEY
    assert asked_of(OF_ALL, SignInRules()).all_factor is None


def test_whoever_asks_for_a_passkey_has_one() -> None:
    for before, after in ((SignInRules(), SignInRules()), (OF_ALL, OF_ALL), (OF_ALL, SignInRules())):
        require_of_oneself(before, after, has_second_factor=False, has_passkey=False)
    require_of_oneself(SignInRules(), OF_ALL, has_second_factor=True, has_passkey=True)
    with pytest.raises(SecondFactorRequired, match="all_factor: set up a second factor"):
        require_of_oneself(SignInRules(), OF_ALL, has_second_factor=False, has_passkey=False)
    with pytest.raises(SecondFactorRequired, match="all_factor: add a passkey"):
        require_of_oneself(SignInRules(), OF_ALL, has_second_factor=True, has_passkey=False)
    administrators = SignInRules(admin_factor=AdminFactor.PASSKEY, admin_required_since=NOW)
    with pytest.raises(SecondFactorRequired, match="admin_factor: add a passkey"):
        require_of_oneself(SignInRules(), administrators, has_second_factor=True, has_passkey=False)


def test_requests_from_afar_of_before_are_over_when_they_are_on_again() -> None:
    on, off = SignInRulesChange(afar_requests=AfarRule.ON), SignInRulesChange(afar_requests=AfarRule.OFF)
    first = on.applied(SignInRules(), EARLIER)
    assert (first.afar_requests, first.afar_since) == (AfarRule.ON, EARLIER)
    assert on.applied(first, NOW) == first
    assert off.applied(SignInRules(), NOW) == off.applied(first, NOW) == SignInRules()
    assert on.applied(off.applied(first, NOW), NOW).afar_since == NOW
