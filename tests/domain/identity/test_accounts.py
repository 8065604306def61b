"""Which passwords are refused before any list is asked."""

import pytest

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identity.accounts import require_acceptable
from core.domain.secrets import Password

EMAIL = Email("Ada.Lovelace@example.com")


@pytest.mark.parametrize("text", ["1234567", "x" * 129, "ADA.lovelace@EXAMPLE.com"])
def test_too_short_too_long_and_the_e_mail_itself_are_refused(text: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        require_acceptable(Password(text), EMAIL)
    assert text not in refusal.value.message


@pytest.mark.parametrize("text", ["12345678", "x" * 128, "pässwörd", "\U0001f40e" * 8])
def test_length_counts_characters_and_the_bounds_are_inside(text: str) -> None:
    require_acceptable(Password(text), EMAIL)
