"""`postern user`: its output. tests/usecases/platform/test_account_administration.py and tests/e2e/test_commands.py cover its effects."""

import getpass
import json
import os
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.identity.proofs import WaysIn
from core.domain.mail import Email
from core.domain.platform.platform_users import (
    AccountOverview,
    CredentialSeen,
    IdentitySeen,
    LinkSeen,
    OrganizationRole,
    PasskeySeen,
    SignInAttempt,
)
from core.domain.secrets import Secret
from core.frozen import replace
from core.usecases.platform.account_administration import AccessReset
from entrypoints.cli.output.printing import printable
from entrypoints.cli.user import _lines, _print_counts, _reset_lines, operator
from ports.identity.accounts import PasswordCounts

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
    passkeys=(),
    identities=(),
    links=(),
    credentials=(),
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
        "passkeys": "none",
        "connected": "none",
        "open links": "none",
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
        passkeys=(PasskeySeen("Key\x1b[2J", summer, summer), PasskeySeen("Laptop", summer, None)),
        identities=(IdentitySeen("codehost", "ada@example.com", summer), IdentitySeen("Our directory", "", summer)),
        links=(LinkSeen("reset_password", summer),),
        credentials=(CredentialSeen("API key", "sk_9f3k2a", "acme/shop", summer),),
        organizations=(OrganizationRole("acme", True, "owner"), OrganizationRole("zeta", False, "member")),
        latest_attempts=(
            SignInAttempt(summer, True, "192.0.2.1", "curl/8\x1b[2J\u202e"),
            SignInAttempt(summer, False, None, None),
        ),
    )
    assert [f"{name}: {text}" for name, text in _lines(seen)] == [
        "id: 00000000-0000-0000-0000-000000000001",
        "e-mail: ada@example.org, verified 2026-05-04 12:00 UTC",
        "new email address: next@example.org, once verified",
        "status: deactivated 2026-05-04 12:00 UTC",
        "created: 2026-05-04 12:00 UTC",
        "platform owner: yes",
        "password: changed 2026-05-04 12:00 UTC",
        "second factor: enabled 2026-05-04 12:00 UTC",
        "backup codes: 8 left",
        "sessions: 3, 1 of them by platform owners",
        "devices: 2, 1 trusted",
        "passkeys: Key?[2J, added 2026-05-04 12:00 UTC, last used 2026-05-04 12:00 UTC",
        ": Laptop, added 2026-05-04 12:00 UTC, never used",
        "connected: GitHub as ada@example.com, since 2026-05-04 12:00 UTC",
        ": Our directory, since 2026-05-04 12:00 UTC",
        "open links: reset password, until 2026-05-04 12:00 UTC",
        "organizations: acme (owner), zeta (member, not active)",
        "created by this person: API key sk_9f3k2a… of acme/shop, 2026-05-04 12:00 UTC",
        "latest sign-in: 2026-05-04 12:00 UTC  succeeded  192.0.2.1  curl/8?[2J?",
        ": 2026-05-04 12:00 UTC  FAILED     IP address unknown",
    ]


RESET = AccessReset(ACCOUNT, WaysIn(True, 2, 1), 3, False, None, Secret("https://id.example.org/ui/reset-password?token=t"))
APP_STAYS = (
    "The authenticator app is still used for MFA, since 2026-05-04 12:00 UTC. If it does not belong to the owner: postern user disable-mfa"
)
MAILED = "A link to choose a new password was sent to this email address. It works once and expires in 1 hour."


@pytest.mark.parametrize(
    ("changes", "show_link", "says"),
    [
        ({}, False, [MAILED]),
        (
            {},
            True,
            ["This link chooses a new password. It works once, within the hour:", "https://id.example.org/ui/reset-password?token=t"],
        ),
        ({"second_factor_ended": True}, False, ["MFA used passkeys: it is turned off.", MAILED]),
        (
            {"second_factor_since": NOON},
            False,
            [
                APP_STAYS,
                MAILED,
            ],
        ),
        (
            {"link": None},
            True,
            ["People of this domain, including the owner, sign in at their organization's identity provider: no link was sent."],
        ),
        (
            {"link": None, "account": replace(ACCOUNT, deactivated_at=NOON)},
            False,
            [
                (
                    "The account is still deactivated. To allow the owner to sign in: postern user activate, "
                    "then reset-password again for a link."
                )
            ],
        ),
    ],
)
def test_a_reset_says_what_ended_and_how_the_owner_comes_in(changes: dict[str, Any], show_link: bool, says: list[str]) -> None:
    ended, *others = _reset_lines(replace(RESET, **changes), show_link=show_link)
    removed = "the password, 2 passkeys, 1 connected account"
    assert ended == f"All access to ada@example.org is revoked: 3 sessions ended. Removed: {removed}."
    assert others == says


def test_a_reset_that_found_nothing_says_so() -> None:
    ended, _ = _reset_lines(replace(RESET, ended=WaysIn(False, 0, 0), sessions=0), show_link=False)
    assert ended == "All access to ada@example.org is revoked: 0 sessions ended. Removed: nothing."


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


def test_passwords_are_counted_by_the_system_that_made_their_hash(capsys: pytest.CaptureFixture[str]) -> None:
    counts = PasswordCounts(ours=12, none=3, foreign={"bcrypt": 1_000_000, "ssha256": 7})
    _print_counts(counts, as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["ours", "12"], ["bcrypt", "1000000"], ["ssha256", "7"], ["none", "3"]]
    _print_counts(counts, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"ours": 12, "none": 3, "foreign": {"bcrypt": 1_000_000, "ssha256": 7}}
