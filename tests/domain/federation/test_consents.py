"""A person's consents for an application."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.federation.oauth.consents import widened
from core.domain.federation.oauth.resources import EMAIL, OPENID, SCOPES, known

SOME = st.lists(st.sampled_from(SCOPES))


@given(SOME, SOME)
def test_what_is_allowed_adds_up(earlier: list[str], asked: list[str]) -> None:
    both = widened(earlier, asked)
    assert set(both) == {*earlier, *asked}
    assert list(both) == [scope for scope in SCOPES if scope in both]


@pytest.mark.parametrize(
    ("names", "scopes"),
    [
        ([], ()),
        (["phone", "address", "OPENID"], ()),
        (["email", "openid", "email"], (OPENID, EMAIL)),
        (["provider_token", "groups", "roles", "offline_access", "organization", "email", "profile", "openid"], SCOPES),
    ],
)
def test_scopes_that_we_do_not_know_are_ignored(names: list[str], scopes: tuple[str, ...]) -> None:
    assert known(names) == scopes
