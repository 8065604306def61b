"""Nonces of proofs count in their minute and in the next one."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.key_proofs import NonceRule, nonce_at, nonce_counts

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
KEY = b"k" * 32


@pytest.mark.parametrize(
    ("seconds", "does_count"), [(0, True), (59, True), (60, True), (119, True), (120, False), (3600, False), (-1, False)]
)
def test_a_nonce_counts_for_this_minute_and_the_next(seconds: int, does_count: bool) -> None:
    assert nonce_counts(nonce_at(NOW, KEY), NOW + timedelta(seconds=seconds), KEY) is does_count


def test_a_nonce_of_another_key_counts_nothing() -> None:
    assert not nonce_counts(nonce_at(NOW, b"x" * 32), NOW, KEY)


@pytest.mark.parametrize(
    ("rule", "confidential", "public"),
    [(NonceRule.NOBODY, False, False), (NonceRule.CONFIDENTIAL, True, False), (NonceRule.EVERYBODY, True, True)],
)
def test_whose_proofs_need_a_nonce(rule: NonceRule, confidential: bool, public: bool) -> None:
    assert (rule.asks(is_confidential=True), rule.asks(is_confidential=False)) == (confidential, public)
