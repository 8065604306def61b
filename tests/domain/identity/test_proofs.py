"""The proofs that are fresh enough for each request."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.errors import ReauthenticationRequired
from core.domain.identity.proofs import Proved, Standing, StepUp, require_fresh

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
WINDOW = timedelta(minutes=10)
FRESH, STALE = NOW - WINDOW, NOW - WINDOW - timedelta(microseconds=1)
LONG_AGO = NOW - timedelta(days=300)


def passes(proved: Proved, since: datetime | None, asked: StepUp) -> bool:
    try:
        require_fresh(Standing(proved, since), asked, NOW, WINDOW)
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


@pytest.mark.parametrize("asked", StepUp)
def test_what_was_shown_of_an_earlier_second_factor_proves_nothing_of_this_one(asked: StepUp) -> None:
    moment = timedelta(microseconds=1)
    assert not passes(Proved(FRESH, NOW - moment), NOW, asked)
    assert passes(Proved(FRESH, NOW), NOW, asked)


@pytest.mark.parametrize("asked", StepUp)
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
    for since, what in ((None, "password"), (LONG_AGO, "second factor")):
        with pytest.raises(ReauthenticationRequired, match=what) as refused:
            require_fresh(Standing(Proved(), since), StepUp.ACCOUNT, NOW, WINDOW)
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
