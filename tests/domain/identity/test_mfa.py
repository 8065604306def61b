"""The rules of codes: texts that count as codes, and the times of time steps."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.identifiers import PreauthenticationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.mfa import (
    BACKUP_CODE_ALPHABET,
    CODES_AT_SET_UP,
    CODES_AT_SIGN_IN,
    CODES_IN_SESSION,
    STEP,
    TOLERANCE,
    MfaEvent,
    Preauthentication,
    SetUp,
    as_shown,
    backup_code,
    step_at,
    time_based_code,
)
from core.domain.mail import Email
from core.domain.secrets import Secret


@pytest.mark.parametrize(("text", "code"), [("123456", "123456"), ("123 456", "123456"), ("123-456", "123456"), (" 000000 ", "000000")])
def test_a_time_based_code_is_six_digits_however_they_are_grouped(text: str, code: str) -> None:
    assert time_based_code(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12345",
        "1234567",
        "12345a",
        "\u0661\u0662\u0663\u0664\u0665\u0666",  # digits all the same, elsewhere
        "\uff11\uff12\uff13\uff14\uff15\uff16",
        "+12345",
        "-12345 ",
        "123456\n",
        "12\t3456",
        "1\u200b23456",
        "123456" + " " * 20,
        "0" * 1_000_000,
        "ABCD-EFGH",
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert time_based_code(text) is None


@pytest.mark.parametrize("text", ["ABCD-EF23", "abcd-ef23", "abcdef23", "ABCD EF23", " ab-cd ef-23 "])
def test_hyphens_spaces_and_case_of_a_backup_code_do_not_count(text: str) -> None:
    assert backup_code(text) == "ABCDEF23"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ABCD-EF2",
        "ABCD-EF234",
        "ABCD-EF1O",
        "123456",
        "ABCD_EF23",
        "ABCD-EF23\n",
        "\u00c0BCD-EF23",
        "\ufb00BCDEF2",  # in capitals this ligature is two letters, and the Kelvin sign in small ones a plain k
        "\u212aBCDEF23",
        "-" * 100,
    ],
)
def test_what_has_other_characters_is_no_backup_code(text: str) -> None:
    assert backup_code(text) is None


def test_a_backup_code_is_shown_in_two_halves_and_read_as_shown() -> None:
    assert as_shown("ABCDEF23") == "ABCD-EF23"
    assert backup_code(as_shown("ABCDEF23")) == "ABCDEF23"


def test_the_alphabet_of_backup_codes_has_five_bits_a_character_and_no_look_alikes() -> None:
    assert len(set(BACKUP_CODE_ALPHABET)) == len(BACKUP_CODE_ALPHABET) == 32
    assert not set("IO01") & set(BACKUP_CODE_ALPHABET)


def test_a_step_begins_with_its_thirty_seconds_and_ends_with_them() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    step = step_at(start)
    assert step == start.timestamp() / 30
    assert step_at(start - timedelta(microseconds=1)) == step - 1
    assert step_at(start + STEP - timedelta(microseconds=1)) == step
    assert step_at(start + STEP) == step + 1


def test_guessing_for_a_day_is_hopeless_and_the_limits_are_apart() -> None:
    limits = (CODES_AT_SET_UP, CODES_AT_SIGN_IN, CODES_IN_SESSION)
    assert len({limit.name for limit in limits}) == len(limits)
    for limit in limits:
        a_day = limit.burst + timedelta(days=1).total_seconds() / limit.seconds_per_request
        assert a_day * (2 * TOLERANCE + 1) / 10**6 < 1 / 400


def test_the_log_has_the_interfaces_names() -> None:
    assert {event.value for event in MfaEvent} == {
        "mfa_setup_initiated",
        "mfa_setup_completed",
        "mfa_setup_failed",
        "mfa_enabled",
        "mfa_disabled",
        "mfa_force_disabled_by_admin",
        "mfa_verify_attempt",
        "mfa_verify_success",
        "mfa_verify_failed",
        "backup_codes_generated",
        "backup_code_used",
        # Our own.
        "passkey_added",
        "passkey_removed",
        "passkey_copied",
        "backup_codes_shown",
    }


def test_a_set_up_does_not_print_its_secret() -> None:
    assert "JBSWY3DP" not in repr(SetUp(Secret("JBSWY3DP"), Secret("otpauth://x?secret=JBSWY3DP"), Secret("<svg>JBSWY3DP</svg>")))


@pytest.mark.parametrize(
    ("domains", "is_owner", "counts"),
    [
        (None, False, True),
        (None, True, True),
        (frozenset({"example.org"}), False, True),
        (frozenset({"example.org"}), True, False),
        (frozenset({"example.com"}), False, False),
        (frozenset(), False, False),
    ],
)
def test_the_word_of_an_organizations_own_provider_counts_for_its_domains_and_never_for_platform_owners(
    domains: frozenset[str] | None, is_owner: bool, counts: bool
) -> None:
    at = datetime(2026, 7, 1, tzinfo=UTC)
    ada = Account(UserId(UUID(int=7)), Email("ada@Example.org"), is_owner, at, None, at)
    awaiting = Preauthentication(
        PreauthenticationId(UUID(int=8)), ada.id, None, None, created_at=at, expires_at=at, vouched_domains=domains
    )
    assert awaiting.counts_for(ada) is counts
