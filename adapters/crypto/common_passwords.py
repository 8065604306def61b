"""Common passwords: two shipped lists. One has what was leaked most often. Of the other, a few hundred words also count with the
endings and spellings that people give them.
"""

from functools import lru_cache
from importlib.resources import files
from typing import Final

from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.normal_forms import folded
from core.domain.secrets import Password
from core.frozen import Frozen

_ENDINGS: Final = (
    *("", "!", "!!", "!1", "?", ".", "*", "#1", "@1", "s"),
    *(str(digit) for digit in range(10)),
    *("00", "01", "007", "10", "11", "12", "13", "21", "22", "23", "66", "69", "77", "88", "99"),
    *("111", "123", "123!", "123.", "123*", "321", "420", "456", "666", "777", "789", "999"),
    *("1234", "1234!", "12345", "12345!", "123456", "1234567", "12345678", "123456789", "4321", "0000", "1111"),
    *("!123", "!@#", "@1", "@12", "@123", "@1234", "#123", "_123", "-123", "123abc", "abc", "1!", "12!", "1a", "2k"),
)
# Years of birth, and of the last change of password.
_YEARS: Final = tuple(str(year) for year in range(1980, 2031))
_ALL_ENDINGS: Final = frozenset((*_ENDINGS, *_YEARS, *(f"{year}!" for year in _YEARS), *(f"@{year}" for year in _YEARS)))
_SPELLINGS: Final = tuple(
    str.maketrans(letters, digits)
    for letters, digits in (("a", "@"), ("o", "0"), ("ao", "@0"), ("aeo", "430"), ("e", "3"), ("i", "1"), ("s", "$"), ("aso", "@$0"))
)


class _Common(Frozen):
    """`whole` has passwords as they are. `words` has words in all spellings, and each word counts as common with every ending. The words
    and the endings are kept apart, because all combinations would take too much memory.
    """

    whole: frozenset[str]
    words: frozenset[str]


class ShippedCommonPasswords:
    """The lists are read at the first call."""

    def contains(self, password: Password) -> bool:
        key = key_of(password.reveal())
        common = _common()
        return (
            key in common.whole
            or key in _leaked()
            or any(key[:cut] in common.words and key[cut:] in _ALL_ENDINGS for cut in range(1, len(key) + 1))
        )


@lru_cache(maxsize=1)
def _common() -> _Common:
    text = files(__package__).joinpath("common_passwords.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = [key_of(line.removeprefix("+")) for line in lines if line.startswith("+")]
    return _Common(
        whole=frozenset(key_of(line) for line in lines if not line.startswith("+")),
        words=frozenset(words) | {word.translate(table) for word in words for table in _SPELLINGS},
    )


@lru_cache(maxsize=1)
def _leaked() -> frozenset[str]:
    text = files(__package__).joinpath("known_passwords", "leaked_passwords.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def key_of(text: str) -> str:
    # Normalized as e-mail addresses are: a full-width letter, for example, counts as the plain letter.
    return folded(text, LONGEST_PASSWORD, any_marks=True)
