"""`postern user`: what it prints. What it does is shown in
tests/usecases/platform/test_account_administration.py and tests/e2e/test_commands.py.
"""

import getpass
import os
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.platform.account_overviews import AccountOverview, OrganizationRole, SignInAttempt
from core.frozen import replace
from entrypoints.cli.printing import printable
from entrypoints.cli.user import _lines, operator

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
ACCOUNT = Account(UserId(UUID(int=1)), Email("ada@example.org"), False, None, None, NOON)
BARE = AccountOverview(
    ACCOUNT,
    pending_email=None,
    has_password=False,
    password_changed_at=None,
    mfa_enabled_at=None,
    backup_codes=0,
    sessions=0,
    impersonations=0,
    devices=0,
    trusted_devices=0,
    organizations=(),
    latest_attempts=(),
)


def test_an_account_with_nothing_says_so() -> None:
    assert dict(_lines(BARE)) == {
        "id": "00000000-0000-0000-0000-000000000001",
        "e-mail": "ada@example.org, not verified",
        "status": "active",
        "created": "2026-05-04 12:00 UTC",
        "platform owner": "no",
        "password": "none",
        "second factor": "none",
        "sessions": "0",
        "devices": "none",
        "organizations": "none",
    }


def test_an_account_with_everything_says_all_of_it_in_utc() -> None:
    summer = NOON.astimezone(timezone(timedelta(hours=2)))
    seen = replace(
        BARE,
        account=replace(ACCOUNT, is_platform_owner=True, email_verified_at=summer, deactivated_at=summer),
        pending_email=Email("next@example.org"),
        has_password=True,
        password_changed_at=summer,
        mfa_enabled_at=summer,
        backup_codes=8,
        sessions=3,
        impersonations=1,
        devices=2,
        trusted_devices=1,
        organizations=(OrganizationRole("acme", True, "owner"), OrganizationRole("zeta", False, "member")),
        latest_attempts=(
            SignInAttempt(summer, True, "192.0.2.1", "curl/8\x1b[2J\u202e"),
            SignInAttempt(summer, False, None, None),
        ),
    )
    assert [f"{name}: {text}" for name, text in _lines(seen)] == [
        "id: 00000000-0000-0000-0000-000000000001",
        "e-mail: ada@example.org, verified 2026-05-04 12:00 UTC",
        "next e-mail: next@example.org, once verified",
        "status: deactivated 2026-05-04 12:00 UTC",
        "created: 2026-05-04 12:00 UTC",
        "platform owner: yes",
        "password: changed 2026-05-04 12:00 UTC",
        "second factor: enabled 2026-05-04 12:00 UTC",
        "backup codes: 8 left",
        "sessions: 3, 1 of them by platform owners",
        "devices: 2, 1 trusted",
        "organizations: acme (owner), zeta (member, not active)",
        "latest sign-in: 2026-05-04 12:00 UTC  succeeded  192.0.2.1  curl/8?[2J?",
        ": 2026-05-04 12:00 UTC  FAILED     address unknown",
    ]


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    assert printable("a\r\nb\x07\x9b31m\u2066") == "a??b??31m?"
    assert printable("x" * 100) == "x" * 60 + "…"


def test_the_operator_is_the_person_at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "grace")
    assert operator() == "grace"
    monkeypatch.delenv("SUDO_USER")
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert operator() == "ada"

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert operator() == f"uid {os.getuid()}"
