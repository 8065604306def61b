"""Own words in a password: what is left without them has to be long enough by itself."""

import pytest

from core.domain.errors import BadRequest
from core.domain.identity.passwords import AtSignIn, require_acceptable, strictest
from core.domain.mail import Email
from core.domain.secrets import Password

EMAIL = Email("ada.lovelace@engines.example")
NAMES = ("Ada Lovelace", "Analytical Engines Ltd", "shop_floor", "42")


@pytest.mark.parametrize(
    "text",
    [
        "lovelace1815",
        "LOVELACE-1815",
        "Engines2026!",
        "adalovelace99",
        "analytical-engines",
        "\uff4c\uff4f\uff56\uff45\uff4c\uff41\uff43\uff45123",
        "floor_shop-26",
    ],
)
def test_own_words_with_a_few_characters_more_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="Without your name") as refusal:
        require_acceptable(Password(text), EMAIL, 8, NAMES)
    assert (refusal.value.words, refusal.value.values) == ("password_own_words", {"shortest": 8})


@pytest.mark.parametrize(
    "text",
    [
        "lovelace and a horse",
        "1815-and-8-engines-of-brass",
        # Words of three letters are in too many others.
        "ada+Ltd+",
        # Nothing of their own is in it, however much shorter the normal form is.
        "e\u0301e\u0301e\u0301e\u0301",
    ],
)
def test_own_words_beside_enough_others_are_fine(text: str) -> None:
    require_acceptable(Password(text), EMAIL, 8, NAMES)


def test_the_least_length_counts_before_everything_else() -> None:
    with pytest.raises(BadRequest) as refusal:
        require_acceptable(Password("lovelace1815"), EMAIL, 13, NAMES)
    assert (refusal.value.words, refusal.value.values) == ("password_too_short", {"shortest": 13})
    require_acceptable(Password("x" * 64), EMAIL, 64)


def test_the_strictest_rule_is_the_one_that_lets_the_fewest_in() -> None:
    assert [strictest(one, AtSignIn.TELL) for one in AtSignIn] == [AtSignIn.TELL, AtSignIn.TELL, AtSignIn.CHANGE]
    assert strictest(AtSignIn.CHANGE, AtSignIn.OFF) is AtSignIn.CHANGE
