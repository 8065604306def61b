"""The list of common passwords."""

from pathlib import Path

import pytest

from adapters.crypto import common_passwords
from adapters.crypto.common_passwords import ShippedCommonPasswords
from core.domain.secrets import Password

LIST = Path(common_passwords.__file__).with_name("common_passwords.txt")


@pytest.mark.parametrize(
    "password",
    [
        "password",
        "12345678",
        "123456789",
        "1234567890",
        "qwertyui",
        "qwertyuiop",
        "1q2w3e4r",
        "1qaz2wsx",
        "iloveyou",
        "sunshine",
        "princess",
        "football",
        "baseball",
        "superman",
        "trustno1",
        "starwars",
        "whatever",
        "letmein1",
        "welcome1",
        "passw0rd",
        "abc12345",
        "11111111",
        "qwerty123",
        "password1",
        "Password1",
        "Password123!",
        "P@ssw0rd",
        "P@ssw0rd1",
        "Summer2024!",
        "Winter2025",
        "Welcome123",
        "admin123",
        "Admin@123",
        "monkey123",
        "dragon99",
        "michael1",
        "Jennifer1",
        "charlie2010",
        "changeme",
        "liverpool",
        "minecraft",
        "test1234",
        "Qwerty123!",
        "\uff30\uff21\uff33\uff33\uff37\uff2f\uff32\uff24",
        "PaSsWoRd",
    ],
)
def test_what_guessers_try_first_is_common(password: str) -> None:
    assert ShippedCommonPasswords().contains(Password(password))


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery staple",
        "Tr0ub4dor&3",
        "kmE1xJ2GQ5u3Zr8w",
        "a-long-and-unusual-phrase",
        "violet umbrella 42",
        "xkcd-936-forever",
        "",
        "passwordpasswordpassword1x",
        "qwertymonkey",
        "S3cure!Harbour",
        "мой длинный пароль",
    ],
)
def test_what_they_would_take_long_to_come_upon_is_not(password: str) -> None:
    assert not ShippedCommonPasswords().contains(Password(password))


def test_the_list_holds_several_thousand_passwords_and_little_memory() -> None:
    common = common_passwords._common()
    assert len(common.whole) + len(common.words) * len(common_passwords._ALL_ENDINGS) > 100_000
    assert len(common.whole) + len(common.words) < 10_000


def test_no_line_of_the_list_stands_there_twice_or_in_capitals() -> None:
    lines = [line for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(lines) == len([line for line in lines if line]) + lines.count("")
    assert len({line for line in lines if line}) == len([line for line in lines if line])
    assert all(line == line.strip().casefold() for line in lines)
