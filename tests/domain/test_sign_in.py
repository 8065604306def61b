"""What a checked password comes to, and what is told of it."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.accounts import Account
from core.domain.devices import NOTHING_KNOWN
from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.login_events import LoginFailure
from core.domain.mfa import MfaMethod
from core.domain.sign_in import Applicant, account_key, failure_of, methods

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ACCOUNT = Account(UserId(UUID(int=7)), Email("ada@example.org"), False, email_verified_at=NOW, deactivated_at=None, created_at=NOW)
ADA = Applicant(ACCOUNT, "hash", mfa_enabled=False, knowledge=NOTHING_KNOWN)
GONE = replace(ADA, account=replace(ACCOUNT, deactivated_at=NOW))
UNVERIFIED = replace(ADA, account=replace(ACCOUNT, email_verified_at=None))


@pytest.mark.parametrize(
    ("applicant", "matches", "failure"),
    [
        (ADA, True, None),
        (ADA, False, LoginFailure.WRONG_PASSWORD),
        (None, False, LoginFailure.UNKNOWN_ACCOUNT),
        (replace(ADA, encoded=None), False, LoginFailure.NO_PASSWORD),
        (GONE, True, LoginFailure.DEACTIVATED),
        (GONE, False, LoginFailure.WRONG_PASSWORD),
        (UNVERIFIED, True, LoginFailure.EMAIL_NOT_VERIFIED),
        (UNVERIFIED, False, LoginFailure.WRONG_PASSWORD),
    ],
)
def test_why_somebody_is_turned_away(applicant: Applicant | None, matches: bool, failure: LoginFailure | None) -> None:
    assert failure_of(applicant, matches=matches) is failure


def test_the_bucket_of_an_account_is_the_same_however_its_address_is_written_and_does_not_show_it() -> None:
    assert account_key(Email("ADA@example.org")) == account_key(Email("ada@example.org"))
    assert account_key(Email("bob@example.org")) != account_key(Email("ada@example.org"))
    assert "ada" not in account_key(Email("ada@example.org"))


def test_how_somebody_proved_who_they_are_in_registered_words() -> None:
    assert methods(None) == ("pwd",)
    assert methods(MfaMethod.TOTP) == ("pwd", "otp", "mfa")
    assert methods(MfaMethod.BACKUP_CODE) == ("pwd", "mfa")
