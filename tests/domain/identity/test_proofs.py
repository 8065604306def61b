"""The proofs that are fresh enough for each request."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.errors import ReauthenticationRequired
from core.domain.identity.proofs import SILENT, AuthenticatorSnapshot, Proved, StepUp, require_fresh, stated

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
WINDOW = timedelta(minutes=10)
FRESH, STALE = NOW - WINDOW, NOW - WINDOW - timedelta(microseconds=1)
LONG_AGO = NOW - timedelta(days=300)


OF_ACCOUNTS = (StepUp.SECOND_FACTOR, StepUp.ACCOUNT)


def passes(proved: Proved, since: datetime | None, asked: StepUp) -> bool:
    try:
        require_fresh(AuthenticatorSnapshot(proved, since), asked, NOW, WINDOW)
    except ReauthenticationRequired:
        return False
    return True


@pytest.mark.parametrize("asked", StepUp)
@pytest.mark.parametrize(
    ("proved", "expected"),
    [
        (Proved(), False),
        (Proved(STALE), False),
        (Proved(FRESH), True),
        (Proved(FRESH, FRESH), True),
        (Proved(STALE, STALE), False),
    ],
)
def test_without_a_second_factor_the_first_proof_must_be_fresh(asked: StepUp, proved: Proved, expected: bool) -> None:
    assert passes(proved, None, asked) is expected


def test_a_second_factor_that_is_gone_proves_nothing_but_may_be_disabled_twice() -> None:
    """Otherwise a thief of the session could enable a second factor and disable it, to get a proof."""
    for proved in (Proved(STALE, FRESH), Proved(None, FRESH)):
        assert not passes(proved, None, StepUp.ACCOUNT)
        assert passes(proved, None, StepUp.SECOND_FACTOR)


@pytest.mark.parametrize("asked", OF_ACCOUNTS)
def test_what_was_shown_of_an_earlier_second_factor_proves_nothing_of_this_one(asked: StepUp) -> None:
    moment = timedelta(microseconds=1)
    assert not passes(Proved(FRESH, NOW - moment), NOW, asked)
    assert passes(Proved(FRESH, NOW), NOW, asked)


@pytest.mark.parametrize("asked", OF_ACCOUNTS)
@pytest.mark.parametrize(
    ("proved", "expected"),
    [
        (Proved(FRESH), False),
        (Proved(FRESH, STALE), False),
        (Proved(FRESH, FRESH), True),
        (Proved(STALE, FRESH), True),
        (Proved(None, None), False),
    ],
)
def test_with_one_it_is_the_second_factor_that_must_be_fresh(asked: StepUp, proved: Proved, expected: bool) -> None:
    assert passes(proved, LONG_AGO, asked) is expected


def test_the_refusal_says_what_would_do_and_how_old_it_may_be() -> None:
    for since, what in ((None, "password"), (LONG_AGO, "MFA code")):
        with pytest.raises(ReauthenticationRequired, match=what) as refused:
            require_fresh(AuthenticatorSnapshot(Proved(), since), StepUp.ACCOUNT, NOW, WINDOW)
        assert refused.value.max_age == WINDOW
        assert "/api/auth/reauthenticate" in refused.value.message


def test_enabling_a_second_factor_proves_it_for_itself_and_not_for_the_account() -> None:
    """A thief of the session could enable one of their own, which asks for no proof."""
    stolen = Proved(NOW - timedelta(hours=1), FRESH)
    enabled = NOW - timedelta(minutes=30)
    assert passes(stolen, enabled, StepUp.SECOND_FACTOR)
    assert not passes(stolen, enabled, StepUp.ACCOUNT)
    # Unless the person has proved themselves in another way, lately or since.
    assert passes(Proved(FRESH, FRESH), enabled, StepUp.ACCOUNT)
    assert passes(Proved(enabled, FRESH), enabled, StepUp.ACCOUNT)
    assert not passes(Proved(None, FRESH), enabled, StepUp.ACCOUNT)


# What a provider states, and whether a sign-in that came by it a moment ago is fresh.
STATED = ((NOW, True), (FRESH, True), (STALE, False), (NOW - timedelta(hours=9), False), (SILENT, False))


@pytest.mark.parametrize("asked", StepUp)
@pytest.mark.parametrize(("at", "expected"), STATED)
def test_a_proof_is_as_old_as_its_provider_says(asked: StepUp, at: datetime, expected: bool) -> None:
    assert passes(Proved(NOW, None, at), None, asked) is expected


def test_a_provider_speaks_of_no_future_and_its_silence_says_nothing() -> None:
    assert stated(NOW + timedelta(hours=1), NOW) == NOW
    assert stated(STALE, NOW) == STALE
    assert stated(None, NOW) == stated(datetime(1, 1, 1, tzinfo=UTC), NOW) == SILENT
    assert Proved(NOW, None, SILENT).is_silent
    assert not Proved(NOW, None, STALE).is_silent
    assert not Proved(NOW).is_silent


def test_a_second_factor_beside_a_silent_provider_is_a_proof_of_the_account() -> None:
    """The session began after the factor was enabled, so it is no thief's from before."""
    assert passes(Proved(FRESH, FRESH, SILENT), LONG_AGO, StepUp.ACCOUNT)
    assert not passes(Proved(FRESH, FRESH, SILENT), NOW, StepUp.ACCOUNT)
    assert not passes(Proved(FRESH, FRESH, SILENT), LONG_AGO, StepUp.SIGN_IN)


def test_a_sign_in_is_afresh_although_the_clock_of_a_provider_is_behind() -> None:
    began = NOW - timedelta(seconds=5)
    assert Proved(NOW, None, began - timedelta(seconds=59)).is_afresh(began)
    assert not Proved(NOW, None, began - timedelta(seconds=61)).is_afresh(began)
    assert not Proved(NOW, None, SILENT).is_afresh(began)
    # The session is from before: it came by no sign-in for this.
    assert not Proved(began - timedelta(seconds=1)).is_afresh(began)
    assert not Proved(began - timedelta(seconds=1), None, NOW).is_afresh(began)
