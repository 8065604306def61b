"""Backup codes: random, distinct, and useless as they are stored."""

import hashlib
import hmac
import re
from uuid import UUID

import pytest

from adapters.crypto.factors import HmacBackupCodes
from core.domain.identifiers import UserId

ADA, BOB = UserId(UUID(int=1)), UserId(UUID(int=2))


class OneKey:
    """Server secrets without a database; counts how often it is asked."""

    def __init__(self, key: bytes) -> None:
        self.asked: list[str] = []
        self._key = key

    async def get(self, purpose: str) -> bytes:
        self.asked.append(purpose)
        return self._key


@pytest.fixture
def codes() -> HmacBackupCodes:
    return HmacBackupCodes(OneKey(b"k" * 32))


def test_there_are_ten_in_their_form_and_no_two_are_alike(codes: HmacBackupCodes) -> None:
    made = [code.reveal() for _ in range(50) for code in codes.new()]
    assert len(made) == len(set(made)) == 500
    assert all(re.fullmatch(r"[A-HJ-NP-Z2-9]{4}-[A-HJ-NP-Z2-9]{4}", code) for code in made)


async def test_a_code_is_kept_as_an_hmac_under_the_server_key_that_names_its_owner(codes: HmacBackupCodes) -> None:
    digest = await codes.digest(ADA, "ABCDEF23")
    assert digest == hmac.digest(b"k" * 32, ADA.bytes + b"ABCDEF23", hashlib.sha256)
    assert digest == await codes.digest(ADA, "ABCDEF23")
    assert digest != await codes.digest(BOB, "ABCDEF23")
    assert digest != await codes.digest(ADA, "ABCDEF24")
    assert digest != await HmacBackupCodes(OneKey(b"x" * 32)).digest(ADA, "ABCDEF23")


async def test_the_key_is_of_their_own_purpose_and_can_be_fetched_beforehand() -> None:
    key = OneKey(b"k" * 32)
    codes = HmacBackupCodes(key)
    await codes.prepare()
    assert key.asked == ["backup_codes"]
