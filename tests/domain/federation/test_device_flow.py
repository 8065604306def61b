"""The device flow: codes as people type them, the answers to a device, and digests from which a database's reader learns no code."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import OrganizationNotActive, Refusal
from core.domain.federation.oauth.device_flow import (
    LIFETIME,
    USER_CODE_ALPHABET,
    USER_CODE_LENGTH,
    AskingDevice,
    DeviceAuthorization,
    DeviceCodeExpired,
    DeviceCodePending,
    DeviceCodeState,
    DeviceDecision,
    DeviceDenied,
    EnteredCode,
    NewDeviceCode,
    PolledCode,
    SlowDown,
    UserCodeUnknown,
    approved,
    as_shown,
    complete_uri,
    masked,
    read_user_code,
    unmasked,
    user_code_hmac,
)
from core.domain.federation.oauth.refusals import InvalidGrant
from core.domain.identifiers import DeviceCodeId, OrganizationId, ServiceId, UserId
from core.domain.identity.sessions import Context
from core.domain.secrets import Secret
from core.frozen import replace

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CODE = DeviceCodeId(UUID(int=7))
DECISION = DeviceDecision(code=CODE, user=UserId(UUID(int=1)), at=NOW)
PENDING = PolledCode(state=DeviceCodeState.PENDING, expires_at=NOW + LIFETIME, is_slowed=False, approved=None)
APPROVED = replace(PENDING, state=DeviceCodeState.APPROVED, approved=DECISION)
ENTERED = EnteredCode(
    id=CODE,
    state=DeviceCodeState.PENDING,
    context=Context(OrganizationId(UUID(int=2)), "acme", ServiceId(UUID(int=3)), "tv"),
    service_name="Acme TV",
    organization_name="Acme",
    is_open=True,
    scopes=("openid",),
    asker=AskingDevice(address="192.0.2.1", user_agent="tv/1"),
    created_at=NOW,
    expires_at=NOW + LIFETIME,
)
letters = st.text(USER_CODE_ALPHABET, min_size=USER_CODE_LENGTH, max_size=USER_CODE_LENGTH)
between = st.text(" -\N{EN DASH}·.\t", max_size=3)


def test_the_alphabet_has_no_vowels_and_no_look_alikes() -> None:
    assert not set(USER_CODE_ALPHABET) & set("AEIOUY0123456789")
    assert len(set(USER_CODE_ALPHABET)) == len(USER_CODE_ALPHABET) == 20


@given(letters, st.lists(between, min_size=USER_CODE_LENGTH + 1, max_size=USER_CODE_LENGTH + 1), st.booleans())
def test_a_code_is_read_however_it_is_typed(code: str, gaps: list[str], small: bool) -> None:
    typed = gaps[0] + "".join(letter + gap for letter, gap in zip(code, gaps[1:], strict=True))
    read = read_user_code(typed.lower() if small else typed)
    assert read is not None
    assert read.reveal() == code
    shown = as_shown(read)
    assert (shown[4], len(shown)) == ("-", 9)
    again = read_user_code(shown)
    assert again is not None
    assert again.reveal() == code


@pytest.mark.parametrize(
    "typed",
    ["", "BCDFGHJ", "BCDFGHJKL", "BCDFGHJA", "BCDF-GHJ0", "ßßßßßßßß", "BCDF-GHJK" + "-" * 100, "\N{CYRILLIC CAPITAL LETTER VE}CDFGHJK"],
)
def test_anything_else_is_no_code(typed: str) -> None:
    assert read_user_code(typed) is None


def test_what_is_kept_of_a_code_depends_on_the_key() -> None:
    code = Secret("BCDFGHJK")
    assert user_code_hmac(code, b"one") == user_code_hmac(code, b"one") != user_code_hmac(code, b"other")


@given(letters, st.text(min_size=1), st.uuids())
def test_only_the_browser_reads_a_masked_code(code: str, browser: str, id_: UUID) -> None:
    secret = Secret(browser.encode("utf-8", "replace").decode())
    hidden = masked(Secret(code), secret, DeviceCodeId(id_))
    assert set(hidden) <= set(USER_CODE_ALPHABET)
    assert unmasked(hidden, secret, DeviceCodeId(id_)).reveal() == code


def test_a_mask_is_another_one_for_each_browser_and_each_device() -> None:
    code, one, other = Secret("BCDFGHJK"), Secret("one"), Secret("other")
    assert len({masked(code, one, CODE), masked(code, other, CODE), masked(code, one, DeviceCodeId(UUID(int=8))), "BCDFGHJK"}) == 4


@pytest.mark.parametrize(
    ("page", "complete"),
    [
        ("https://id.example.org/ui/device", "https://id.example.org/ui/device?user_code=BCDF-GHJK"),
        ("https://tv.example.org/link?lang=de", "https://tv.example.org/link?lang=de&user_code=BCDF-GHJK"),
        ("https://tv.example.org/link#here", "https://tv.example.org/link?user_code=BCDF-GHJK#here"),
    ],
)
def test_the_complete_address_has_the_code_filled_in(page: str, complete: str) -> None:
    assert complete_uri(page, Secret("BCDFGHJK")).reveal() == complete


def test_a_device_is_told_the_numbers_of_the_interface() -> None:
    told = DeviceAuthorization(device_code=Secret("d"), user_code=Secret("u"), verification_uri="v", verification_uri_complete=Secret("c"))
    assert (told.expires_in, told.interval) == (300, 5)
    code = NewDeviceCode(id=CODE, digest=b"d", user_code_hmac=b"u", scopes=(), asker=ENTERED.asker, created_at=NOW)
    assert code.expires_at == NOW + timedelta(seconds=300)


@pytest.mark.parametrize(
    ("found", "refusal", "word"),
    [
        (None, InvalidGrant, "invalid_grant"),
        (replace(PENDING, state=DeviceCodeState.CONSUMED), InvalidGrant, "invalid_grant"),
        (replace(PENDING, state=DeviceCodeState.DENIED), DeviceDenied, "access_denied"),
        (PENDING, DeviceCodePending, "authorization_pending"),
        (replace(PENDING, is_slowed=True), SlowDown, "slow_down"),
        (replace(PENDING, expires_at=NOW), DeviceCodeExpired, "expired_token"),
        (replace(APPROVED, expires_at=NOW), DeviceCodeExpired, "expired_token"),
    ],
)
def test_what_a_device_is_told_that_asks(found: PolledCode | None, refusal: type[Refusal], word: str) -> None:
    with pytest.raises(Refusal) as refused:
        approved(found, NOW)
    assert type(refused.value) is refusal
    assert vars(refusal)["oauth_error"] == word


def test_good_news_waits_for_nobody() -> None:
    assert approved(APPROVED, NOW) == approved(replace(APPROVED, is_slowed=True), NOW) == DECISION


@pytest.mark.parametrize(
    ("found", "refusal"),
    [
        (replace(ENTERED, state=DeviceCodeState.APPROVED), UserCodeUnknown),
        (replace(ENTERED, expires_at=NOW), DeviceCodeExpired),
        (replace(ENTERED, is_open=False), OrganizationNotActive),
    ],
)
def test_a_code_that_is_over_can_be_entered_no_more(found: EnteredCode, refusal: type[Refusal]) -> None:
    ENTERED.require_pending(NOW)
    with pytest.raises(refusal):
        found.require_pending(NOW)
