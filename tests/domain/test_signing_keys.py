"""Signing keys: the signing ones, the verifying ones, and the missing ones."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.identifiers import KeyId
from core.domain.tokens import (
    KEY_OVERLAP,
    PUBLISHED_AHEAD,
    KeyPurpose,
    KeyState,
    Rotation,
    SigningKey,
    day_of_ring_key,
    in_state,
    key_set,
    missing,
)
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NEXT = SigningKey(
    id=KeyId("a"),
    purpose=KeyPurpose.ACCESS,
    state=KeyState.NEXT,
    public_jwk={"kid": "a"},
    sealed_private_key=b"",
    created_at=NOW - timedelta(days=3),
    activated_at=None,
    retires_at=None,
)
CURRENT = replace(NEXT, id=KeyId("b"), public_jwk={"kid": "b"}, state=KeyState.CURRENT, activated_at=NOW - timedelta(days=1))
OUTGOING = replace(CURRENT, id=KeyId("c"), public_jwk={"kid": "c"}, state=KeyState.OUTGOING, retires_at=NOW + timedelta(hours=1))


def test_each_purpose_has_its_algorithm() -> None:
    assert KeyPurpose.ACCESS.algorithm == "ES256"
    assert KeyPurpose.ID.algorithm == "RS256"
    assert KeyPurpose.ID_ES256.algorithm == "ES256"
    assert KeyPurpose.ACCESS_RS256.algorithm == "RS256"


def test_a_key_is_as_old_as_its_service_and_before_that_as_its_making() -> None:
    assert CURRENT.age(NOW) == timedelta(days=1)
    assert NEXT.age(NOW) == timedelta(days=3)


@pytest.mark.parametrize(("at", "believed"), [(timedelta(0), True), (timedelta(minutes=59), True), (timedelta(hours=1), False)])
def test_an_outgoing_key_verifies_until_its_time_is_over(at: timedelta, believed: bool) -> None:
    assert OUTGOING.verifies(NOW + at) is believed


def test_a_key_that_is_not_outgoing_verifies_always() -> None:
    assert NEXT.verifies(NOW + timedelta(days=9999))
    assert CURRENT.verifies(NOW + timedelta(days=9999))


def test_the_key_set_has_every_key_whose_tokens_may_be_believed() -> None:
    assert key_set([NEXT, CURRENT, OUTGOING], NOW) == {"keys": [{"kid": "a"}, {"kid": "b"}, {"kid": "c"}]}
    assert key_set([NEXT, CURRENT, OUTGOING], NOW + timedelta(days=1)) == {"keys": [{"kid": "a"}, {"kid": "b"}]}


def test_a_key_is_found_by_purpose_and_state() -> None:
    assert in_state([NEXT, CURRENT], KeyPurpose.ACCESS, KeyState.CURRENT) is CURRENT
    assert in_state([NEXT, CURRENT], KeyPurpose.ID, KeyState.CURRENT) is None


def test_what_is_missing_is_a_current_and_a_next_key_for_each_purpose() -> None:
    assert len(missing([])) == 8
    assert missing([NEXT, CURRENT, OUTGOING]) == [
        (purpose, state)
        for purpose in (KeyPurpose.ACCESS_RS256, KeyPurpose.ID, KeyPurpose.ID_ES256)
        for state in (KeyState.CURRENT, KeyState.NEXT)
    ]


def test_an_outgoing_key_outlives_every_token_that_it_signed() -> None:
    assert timedelta(seconds=86_400) < KEY_OVERLAP


def test_a_rotation_is_hasty_while_relying_parties_may_not_have_seen_the_new_key() -> None:
    rotation = Rotation(KeyPurpose.ID, KeyId("a"), KeyId("b"), KeyId("c"), published_for=PUBLISHED_AHEAD - timedelta(seconds=1))
    assert rotation.is_hasty
    assert not replace(rotation, published_for=PUBLISHED_AHEAD).is_hasty


@pytest.mark.parametrize(
    ("key", "day"),
    [
        ("2026-01-31.abc", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-02-30.abc", None),
        ("abc.2026-01-31", None),
        ("", None),
    ],
)
def test_an_encryption_key_tells_its_day_by_its_id(key: str, day: datetime | None) -> None:
    assert day_of_ring_key(key) == day
