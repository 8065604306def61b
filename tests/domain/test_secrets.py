"""Secrets do not show, wherever they are put."""

import copy
import pickle
from dataclasses import dataclass
from hashlib import sha256

import pytest

from core.domain.secrets import Password, Secret, Token


@dataclass(frozen=True)
class PasswordHolder:
    password: Password


@pytest.mark.parametrize("kind", [Secret, Password, Token])
def test_a_secret_prints_as_stars(kind: type[Secret]) -> None:
    secret = kind("tiger")
    assert [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", "%s" % secret] == ["***"] * 6  # noqa: UP031 - the old way too


def test_a_secret_inside_another_value_prints_as_stars() -> None:
    assert "tiger" not in repr(PasswordHolder(Password("tiger")))
    assert "tiger" not in repr([Password("tiger")])


def test_the_text_is_had_by_asking_for_it() -> None:
    assert Password("tiger").reveal() == "tiger"


def test_the_digest_is_what_the_database_keeps() -> None:
    assert Token("tiger").digest() == sha256(b"tiger").digest()


def test_secrets_cannot_be_compared_or_hashed_by_accident() -> None:
    with pytest.raises(TypeError):
        assert Token("a") == Token("a")
    with pytest.raises(TypeError):
        hash(Token("a"))


def test_secrets_are_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Token("a"))


def test_a_copy_is_as_silent_as_the_original() -> None:
    assert str(copy.copy(Token("tiger"))) == "***"
