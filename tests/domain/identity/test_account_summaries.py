"""What an account lacks of what its organizations require."""

from datetime import UTC, datetime
from typing import Final

import pytest

from core.domain.identity.accounts import AccountSummary, RequiringOrganization
from core.domain.mail import Email

NOW: Final = datetime(2026, 11, 27, tzinfo=UTC)
PLAIN: Final = RequiringOrganization("plain", NOW)
STATED: Final = RequiringOrganization("stated", NOW, is_stated=True)
PASSKEY: Final = RequiringOrganization("passkey", NOW, passkey=True, is_stated=True)


@pytest.mark.parametrize(
    ("since", "passkeys", "unmet"),
    [(None, 0, ["plain", "passkey"]), (None, 1, ["plain", "passkey"]), (NOW, 0, ["passkey"]), (NOW, 1, [])],
)
def test_what_a_directory_has_stated_stands_for_a_second_factor_and_for_no_passkey(
    since: datetime | None, passkeys: int, unmet: list[str]
) -> None:
    summary = AccountSummary(
        email=Email("ada@example.org"),
        pending_email=None,
        created_at=NOW,
        has_password=True,
        password_changed_at=None,
        second_factor_since=since,
        passkeys=passkeys,
        backup_codes=0,
        devices=1,
        sessions=1,
        organizations=3,
        invitations=0,
        failed_sign_ins=0,
        requiring=(PLAIN, STATED, PASSKEY),
    )
    assert [one.name for one in summary.unmet] == unmet
    assert summary.must_set_up is bool(unmet)
