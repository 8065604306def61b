"""What scopes of APIs ask of the sign-in, and which sign-ins are enough."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.federation.oauth.authorizations import AuthorizationRequest, Recipient
from core.domain.federation.oauth.resources import NO_DEMAND, SignInDemand, demanding, scope_demand, strongest
from core.domain.identifiers import ClientId
from core.domain.identity.flows import SignInRequirements
from core.domain.identity.proofs import SILENT, UNPROVED, Proved
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.frozen import replace

NOW = datetime(2026, 11, 26, tzinfo=UTC)
REQUEST = AuthorizationRequest(client_id=ClientId("shop"), recipient=Recipient("https://app.example.com/callback"), scopes=())
FACTOR, RECENT = SignInDemand(second_factor=True), SignInDemand(max_age=300)


def test_the_strongest_meets_each() -> None:
    assert strongest([]) == NO_DEMAND
    assert not NO_DEMAND.asks
    assert strongest([FACTOR, RECENT, NO_DEMAND, SignInDemand(max_age=600)]) == SignInDemand(second_factor=True, max_age=300)
    assert (scope_demand([TWO_FACTORS], None), scope_demand([], 300), scope_demand([], None)) == (FACTOR, RECENT, NO_DEMAND)
    assert FACTOR.asks
    assert RECENT.asks


def test_a_request_keeps_what_it_asks_for_beyond() -> None:
    assert demanding(REQUEST, NO_DEMAND) == REQUEST
    assert demanding(REQUEST, RECENT) == replace(REQUEST, max_age=300)
    assert demanding(replace(REQUEST, max_age=10, acr_values=("1",)), RECENT) == replace(REQUEST, max_age=10, acr_values=("1",))
    # A wish for either of two is no way around.
    either = replace(REQUEST, acr_values=(ONE_FACTOR, TWO_FACTORS), max_age=1000)
    assert demanding(either, SignInDemand(second_factor=True, max_age=300)) == replace(REQUEST, acr_values=(TWO_FACTORS,), max_age=300)


@pytest.mark.parametrize(
    ("demand", "methods", "proved", "is_met"),
    [
        (NO_DEMAND, (), UNPROVED, True),
        (FACTOR, ("pwd",), Proved(NOW), False),
        # A second factor that was shown for something else, in a session that began without it.
        (FACTOR, ("pwd",), Proved(NOW, second_factor_at=NOW), False),
        (FACTOR, ("pwd", "otp", "mfa"), Proved(NOW - timedelta(days=1)), True),
        (RECENT, ("pwd",), Proved(NOW - timedelta(seconds=300)), True),
        (RECENT, ("pwd",), Proved(NOW - timedelta(seconds=301)), False),
        (RECENT, ("pwd",), UNPROVED, False),
        (RECENT, ("fed",), Proved(NOW, stated_at=SILENT), False),
        (RECENT, ("fed",), Proved(NOW, stated_at=NOW - timedelta(seconds=200)), True),
    ],
)
def test_a_sign_in_is_enough(demand: SignInDemand, methods: tuple[str, ...], proved: Proved, is_met: bool) -> None:
    assert demand.is_met(methods, proved, NOW) is is_met


def test_a_flow_that_asks_already_is_not_begun_again() -> None:
    assert NO_DEMAND.is_asked_in(SignInRequirements())
    assert not FACTOR.is_asked_in(SignInRequirements(max_age=1))
    assert FACTOR.is_asked_in(SignInRequirements(second_factor=True))
    for age, is_asked in ((None, False), (301, False), (300, True), (0, True)):
        assert RECENT.is_asked_in(SignInRequirements(max_age=age)) is is_asked
