"""Sign-in rules: the result of a change, the time when a second factor is due, and the addresses that may be invited."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.errors import BadRequest, SecondFactorRequired
from core.domain.mail import Email
from core.domain.tenancy.sign_in_rules import (
    MfaPolicy,
    SignInRules,
    SignInRulesChange,
    is_invitable,
    outlasted,
    require_second_factor,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(days=3)
REQUIRED = SignInRules(mfa_required_since=EARLIER, session_hours=12, invitation_domains=("acme.example",))


def test_a_rule_begins_once_and_begins_anew_after_it_was_lifted() -> None:
    require, lift = SignInRulesChange(mfa_policy=MfaPolicy.REQUIRED), SignInRulesChange(mfa_policy=MfaPolicy.OPTIONAL)
    assert require.applied(SignInRules(), NOW).mfa_required_since == NOW
    assert require.applied(REQUIRED, NOW) == REQUIRED
    lifted = lift.applied(REQUIRED, NOW)
    assert (lifted.mfa_policy, lifted.mfa_required_since) == (MfaPolicy.OPTIONAL, None)
    assert require.applied(lifted, NOW).mfa_required_since == NOW


def test_what_is_left_out_stays() -> None:
    assert SignInRulesChange(mfa_grace_days=1).applied(REQUIRED, NOW) == SignInRules(
        mfa_required_since=EARLIER, mfa_grace_days=1, session_hours=12, invitation_domains=("acme.example",)
    )
    assert SignInRulesChange(session_hours=None, invitation_domains=[]).applied(REQUIRED, NOW) == SignInRules(mfa_required_since=EARLIER)


def test_a_change_must_change_something() -> None:
    with pytest.raises(BadRequest, match="at least one"):
        SignInRulesChange().require_allowed()
    SignInRulesChange(session_hours=None).require_allowed()
    for change, named in (
        (SignInRulesChange(mfa_grace_days=91), "mfa_grace_days: 0 to 90"),
        (SignInRulesChange(device_trust_days=-1), "device_trust_days: 0 to 90"),
        (SignInRulesChange(session_hours=0), "session_lifetime_hours: 1 to 2160"),
        (SignInRulesChange(session_idle_minutes=4), "session_idle_minutes: 5 to 43200"),
        (SignInRulesChange(most_sessions=101), "most_sessions: 1 to 100"),
        (SignInRulesChange(invitation_domains=["acme.example"] * 51), "invitation_domains: at most 50"),
    ):
        with pytest.raises(BadRequest, match=named):
            change.require_allowed()
    SignInRulesChange(mfa_grace_days=0, device_trust_days=0).require_allowed()


def test_a_second_factor_is_owed_from_the_moment_on_at_which_it_is_due() -> None:
    require_second_factor(None, NOW)
    require_second_factor(NOW + timedelta(microseconds=1), NOW)
    with pytest.raises(SecondFactorRequired):
        require_second_factor(NOW, NOW)


def test_a_domain_stands_for_itself_alone() -> None:
    assert is_invitable(Email("ada@elsewhere.example"), ())
    assert is_invitable(Email("Ada@ACME.example"), ("acme.example",))
    for address in ("ada@elsewhere.example", "ada@sub.acme.example", "ada@xacme.example", '"ada@acme.example"@elsewhere.example'):
        assert not is_invitable(Email(address), ("acme.example",))


def test_whoever_signed_in_too_long_ago_is_told_how_long_it_may_be() -> None:
    assert outlasted(timedelta(hours=12)).max_age == timedelta(hours=12)
