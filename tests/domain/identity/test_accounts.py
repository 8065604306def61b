"""Passwords that are refused before any list is asked, and the callers who may activate a deactivated account."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import unverified_account
from core.domain.identity.passwords import require_acceptable
from core.domain.mail import Email
from core.domain.secrets import Password
from core.frozen import replace

EMAIL = Email("Ada.Lovelace@example.com")


@pytest.mark.parametrize("text", ["1234567", "x" * 129, "ADA.lovelace@EXAMPLE.com"])
def test_too_short_too_long_and_the_e_mail_itself_are_refused(text: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        require_acceptable(Password(text), EMAIL)
    assert text not in refusal.value.message


@pytest.mark.parametrize("text", ["12345678", "x" * 128, "pässwörd", "\U0001f40e" * 8])
def test_length_counts_characters_and_the_bounds_are_inside(text: str) -> None:
    require_acceptable(Password(text), EMAIL)


NOW = datetime(2026, 1, 1, tzinfo=UTC)
DIRECTORY, ANOTHER = OrganizationId(UUID(int=2)), OrganizationId(UUID(int=3))


@pytest.mark.parametrize(
    ("deactivated_at", "deactivated_by", "verified_at", "opens_by_proof", "switched_off_by"),
    [
        (None, None, None, False, set()),
        (None, None, NOW, False, set()),
        # Nobody can activate an active account.
        (None, DIRECTORY, None, False, set()),
        (NOW, DIRECTORY, None, True, {DIRECTORY}),
        (NOW, DIRECTORY, NOW, True, {DIRECTORY}),
        # If nobody is recorded, the platform has deactivated the account.
        (NOW, None, None, False, set()),
        (NOW, None, NOW, False, set()),
    ],
)
def test_who_opens_an_account(
    deactivated_at: datetime | None,
    deactivated_by: OrganizationId | None,
    verified_at: datetime | None,
    *,
    opens_by_proof: bool,
    switched_off_by: set[OrganizationId],
) -> None:
    fresh = unverified_account(UserId(UUID(int=1)), EMAIL, NOW)
    account = replace(fresh, deactivated_at=deactivated_at, deactivated_by=deactivated_by, email_verified_at=verified_at)
    assert account.opens_by_proof is opens_by_proof
    assert {one for one in (DIRECTORY, ANOTHER) if account.is_switched_off_by(one)} == switched_off_by
    assert account.is_shut is (deactivated_at is not None and not opens_by_proof)
    assert account.opens_by_first_proof is (opens_by_proof and verified_at is None)
