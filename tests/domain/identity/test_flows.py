"""Flows: their demands on the sign-in, forms that count as sent twice, and the binding of forms."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.identifiers import FlowId
from core.domain.identity.browser_sessions import session_token
from core.domain.identity.flows import LIFETIME, Flow, FlowPurpose, Prompt, SignInRequirements, form_token, proof_digest
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.requests import REPEAT_MOMENT
from core.domain.secrets import Token
from core.frozen import replace

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FLOW = Flow(FlowId(UUID(int=1)), FlowPurpose.ACCOUNT, {}, SignInRequirements(), NOW, NOW + LIFETIME)


@pytest.mark.parametrize(
    ("wanted", "proved", "met"),
    [
        (SignInRequirements(), UNPROVED, True),
        (SignInRequirements(), Proved(NOW - 1000 * MINUTE), True),
        (SignInRequirements(second_factor=True), Proved(NOW), False),
        (SignInRequirements(second_factor=True), Proved(NOW - MINUTE, NOW - MINUTE), True),
        (SignInRequirements(prompt=Prompt.LOGIN), Proved(NOW - 2 * MINUTE, NOW), False),
        (SignInRequirements(prompt=Prompt.LOGIN), Proved(None, NOW), False),
        (SignInRequirements(prompt=Prompt.LOGIN), Proved(NOW), True),
        (SignInRequirements(prompt=Prompt.LOGIN, max_age=0), Proved(NOW), True),
        (SignInRequirements(max_age=60), Proved(NOW - 2 * MINUTE), False),
        (SignInRequirements(max_age=60), Proved(NOW - MINUTE / 2), True),
        (SignInRequirements(max_age=60), Proved(NOW - 9 * MINUTE, NOW - MINUTE / 2), True),
        (SignInRequirements(max_age=60), UNPROVED, False),
        (SignInRequirements(max_age=0), Proved(NOW - MINUTE / 2), False),
        (SignInRequirements(max_age=0), Proved(NOW), True),
    ],
)
def test_a_session_is_enough_for_what_is_wanted(wanted: SignInRequirements, proved: Proved, met: bool) -> None:
    """In a flow that began now. Signing in takes a while."""
    assert wanted.is_met(proved, NOW, NOW + MINUTE / 4) is met


@pytest.mark.parametrize(
    ("wanted", "since"),
    [
        (SignInRequirements(), None),
        (SignInRequirements(second_factor=True), None),
        (SignInRequirements(prompt=Prompt.CREATE), None),
        (SignInRequirements(prompt=Prompt.LOGIN), NOW),
        (SignInRequirements(prompt=Prompt.LOGIN, max_age=600), NOW),
        (SignInRequirements(max_age=600), NOW - 9 * MINUTE),
        # A sign-in for this flow may take any time.
        (SignInRequirements(max_age=0), NOW),
    ],
)
def test_when_somebody_must_have_signed_in_at_the_earliest(wanted: SignInRequirements, since: datetime | None) -> None:
    assert wanted.signed_in_since(NOW, NOW + MINUTE) == since
    assert wanted.wants_fresh_sign_in is (since is not None)


def test_a_form_counts_as_sent_twice_for_a_moment_and_only_with_the_same_proof() -> None:
    digest = proof_digest(Token("browser"), Token("proof"))
    signed_in = replace(FLOW, signed_in_at=NOW, proof_digest=digest)
    assert signed_in.is_repeat(digest, NOW + REPEAT_MOMENT)
    assert not signed_in.is_repeat(digest, NOW + REPEAT_MOMENT + timedelta(seconds=1))
    assert not FLOW.is_repeat(digest, NOW)
    assert not replace(FLOW, signed_in_at=NOW).is_repeat(digest, NOW)
    for other in (proof_digest(Token("browser"), Token("another")), proof_digest(Token("another"), Token("proof"))):
        assert not signed_in.is_repeat(other, NOW)


def test_a_form_is_bound_to_its_browser_and_its_flow() -> None:
    assert form_token(Token("a"), "flow 1") == form_token(Token("a"), "flow 1")
    assert len({form_token(Token(browser), bound) for browser in ("a", "b") for bound in ("flow 1", "flow 2", "session")}) == 6


def test_a_session_has_another_cookie_for_each_flow_browser_proof_and_installation() -> None:
    flows, texts = (FlowId(UUID(int=1)), FlowId(UUID(int=2))), ("a", "b\ud800")
    made = {
        session_token(flow, Token(browser), Token(proof), key).reveal()
        for flow in flows
        for browser in ("a", "b")
        for proof in texts
        for key in (b"k", b"l")
    }
    assert len(made) == 16
    assert {len(token) for token in made} == {43}
