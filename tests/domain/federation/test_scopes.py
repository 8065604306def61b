"""Scopes: the words of a request, and those that there are."""

from core.domain.federation.oauth.resources import SCOPES, known, words


def test_each_word_counts_once() -> None:
    assert words("openid email openid") == ("openid", "email")
    assert words("") == words("  ") == ()


def test_what_is_no_scope_does_not_count() -> None:
    assert known(("email", "admin", "openid")) == ("openid", "email")
    assert known(SCOPES) == SCOPES
    assert known(()) == ()
