"""The parameter `claims`: the requested claims, and the parameter's faults."""

import json
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.federation.oauth.authorizations import AuthorizationRefused
from core.domain.federation.oauth.oidc import LONGEST_CLAIMS, NO_CLAIMS, RequestedClaims, requested_claims
from core.domain.federation.oauth.resources import EMAIL, GROUPS, ORGANIZATION, PROFILE
from core.domain.identifiers import UserId
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS

ADA: Final = str(UUID(int=7))
BOB: Final = str(UUID(int=8))


def asked(**places: Any) -> RequestedClaims:
    return requested_claims(json.dumps(places))


def refused(text: str) -> tuple[str, str]:
    with pytest.raises(AuthorizationRefused) as refusal:
        requested_claims(text)
    return refusal.value.word.value, refusal.value.message


def test_a_claim_asks_for_the_scope_that_tells_it() -> None:
    assert asked(userinfo={"email": None}).scopes == {EMAIL}
    assert asked(id_token={"email_verified": {"essential": True}}).scopes == {EMAIL}
    everything = asked(userinfo={"preferred_username": {"value": "ada"}, "organization": {}}, id_token={"email": {"values": [1]}})
    assert everything == RequestedClaims(scopes=frozenset({PROFILE, EMAIL, ORGANIZATION}))
    assert asked(id_token={"groups": {"essential": True}}).scopes == {GROUPS}


def test_what_we_do_not_have_and_what_is_told_anyway_needs_nothing() -> None:
    assert requested_claims(None) == asked() == NO_CLAIMS
    anyway = dict.fromkeys(("sub", "iss", "auth_time", "amr", "acr", "sid"))
    assert asked(userinfo={"birthdate": {"essential": True}, "https://c.example/role": None}, id_token=anyway, verified=[1]) == NO_CLAIMS


@pytest.mark.parametrize(
    ("acr", "values"),
    [
        (None, ()),
        ({"essential": True}, ()),
        # A wish only: the ID token tells the level that was reached.
        ({"value": TWO_FACTORS}, ()),
        ({"essential": False, "values": ["phr"]}, ()),
        ({"essential": True, "value": TWO_FACTORS}, (TWO_FACTORS,)),
        ({"essential": True, "values": ["phr", TWO_FACTORS, ONE_FACTOR]}, (ONE_FACTOR, TWO_FACTORS)),
    ],
)
def test_an_essential_acr_is_insisted_on(acr: Any, values: tuple[str, ...]) -> None:
    assert asked(id_token={"acr": acr}).acr_values == values
    # Userinfo has none.
    assert asked(userinfo={"acr": acr}).acr_values == ()


@pytest.mark.parametrize("values", [{"value": "phr"}, {"values": ["1", 2, None]}, {"value": [TWO_FACTORS]}])
def test_an_essential_acr_that_nobody_reaches_is_refused(values: Any) -> None:
    told = refused(json.dumps({"id_token": {"acr": {"essential": True, **values}}}))
    assert told == ("unmet_authentication_requirements", "claims: this acr value cannot be reached")


def test_sub_names_the_one_who_will_do() -> None:
    assert asked(userinfo={"sub": {"value": ADA}}).subject == UserId(UUID(ADA))
    assert asked(userinfo={"sub": {"value": ADA}}, id_token={"sub": {"values": [ADA], "essential": True}}).subject == UserId(UUID(ADA))
    assert asked(id_token={"sub": {"essential": True}}).subject is None
    for two in ({"id_token": {"sub": {"values": [ADA, BOB]}}}, {"id_token": {"sub": {"value": ADA}}, "userinfo": {"sub": {"value": BOB}}}):
        assert refused(json.dumps(two)) == ("invalid_request", "claims: sub must name one person")
    strangers: list[Any] = ["ada@example.org", "", 7, None, [ADA], {}]
    for nobody in strangers:
        assert refused(json.dumps({"id_token": {"sub": {"value": nobody}}})) == ("invalid_request", "claims: sub is nobody's here")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "must be JSON") for text in ("{", "email", "{'userinfo': {}}", "{}{}", "[" * LONGEST_CLAIMS)),
        (" " * LONGEST_CLAIMS + "{}", f"at most {LONGEST_CLAIMS} characters"),
        *((text, "must be an object") for text in ("[]", "null", "1", '"userinfo"')),
        *((f'{{"userinfo": {text}}}', "userinfo must be an object") for text in ("[]", "null", '"email"')),
        ('{"id_token": 1}', "id_token must be an object"),
        *(
            (f'{{"userinfo": {{"email": {text}}}}}', "of each claim, null or an object with essential, value and values")
            for text in ("true", "[]", '{"essential": 1}', '{"essential": null}', '{"values": "a"}', '{"values": null}')
        ),
    ],
)
def test_what_is_not_as_the_standard_has_it_is_refused(text: str, reason: str) -> None:
    assert refused(text) == ("invalid_request", f"claims: {reason}")


_ANY: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([ADA, TWO_FACTORS]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["essential", "value", "values", "sub", "acr", "email"]), inner)
    ),
    max_leaves=8,
)


@given(st.text(max_size=50) | st.dictionaries(st.sampled_from(["userinfo", "id_token", "other"]), _ANY).map(json.dumps))
def test_nothing_that_a_stranger_sends_is_a_fault_of_ours(text: str) -> None:
    with suppress(AuthorizationRefused):
        assert requested_claims(text).scopes <= {PROFILE, EMAIL, ORGANIZATION}
