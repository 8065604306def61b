"""Which of a provider's words a session keeps as a second factor, and which words can be chosen."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.directory_visits import (
    METHODS_OF_MICROSOFT,
    DirectoryFactor,
    methods_of_assertion,
    methods_of_token,
    second_factor_values,
    stated_factor,
)
from core.domain.identity.upstream.providers import ClientAtProvider, ProviderEndpoints, Upstream
from core.domain.identity.upstream.saml.assertions import DirectoryAssertion, ReceivedAttribute, SigningCertificate
from core.domain.secrets import Secret

KEY: Final = "0199d3a0-0000-7000-8000-000000000001"
ACME: Final = OrganizationId(UUID("0199d3a0-0000-7000-8000-000000000002"))
NOW: Final = datetime(2026, 11, 27, tzinfo=UTC)


def provider(*values: str, organization: OrganizationId | None = ACME, key: str = KEY) -> Upstream:
    return Upstream(
        key=key,
        name="Acme",
        endpoints=ProviderEndpoints(issuer="https://login.acme.example"),
        client=ClientAtProvider("postern", Secret("s")),
        organization=organization,
        second_factor_values=values,
    )


def assertion(context: str | None, *attributes: ReceivedAttribute) -> DirectoryAssertion:
    return DirectoryAssertion(
        id="a",
        usable_until=NOW,
        issuer="i",
        name_id=None,
        attributes=attributes,
        authenticated_at=NOW,
        session_index=None,
        session_ends_at=None,
        context_class=context,
        signed_by=SigningCertificate(fingerprint="00", valid_until=NOW),
        encrypted=False,
    )


def test_the_first_chosen_value_that_came_is_kept() -> None:
    assert stated_factor(provider("mfa", "otp"), ("pwd", "otp", "mfa")) == DirectoryFactor(UUID(KEY), "mfa")
    assert stated_factor(provider("mfa"), ("pwd", "otp")) is None
    assert stated_factor(provider(), ("mfa",)) is None


def test_a_provider_of_the_installation_states_none() -> None:
    assert stated_factor(provider("mfa", organization=None, key="websuite"), ("mfa",)) is None


@pytest.mark.parametrize(
    ("claims", "methods"),
    [
        ({"amr": ["pwd", "mfa", "pwd"], "acr": "2"}, ("pwd", "mfa", "2")),
        ({"amr": "mfa"}, ()),
        ({"amr": None, "acr": None}, ()),
        ({"amr": [1, ["mfa"], "two words", "", "é", "x" * 301], "acr": ["mfa"]}, ()),
        ({"amr": [str(number) for number in range(60)]}, tuple(str(number) for number in range(50))),
    ],
)
def test_what_an_id_token_says(claims: dict[str, Any], methods: tuple[str, ...]) -> None:
    assert methods_of_token(claims) == methods


def test_what_an_assertion_says() -> None:
    microsofts = ReceivedAttribute(name=METHODS_OF_MICROSOFT, values=("a:password", "a:multiple"))
    others = ReceivedAttribute(name="amr", friendly_name=METHODS_OF_MICROSOFT, values=("mfa",))
    assert methods_of_assertion(assertion("c", microsofts, others)) == ("c", "a:password", "a:multiple")
    assert methods_of_assertion(assertion(None)) == ()


def test_values_are_kept_once_in_their_order() -> None:
    assert second_factor_values(["otp", "mfa", "otp"]) == ("otp", "mfa")
    assert second_factor_values([]) == ()


@pytest.mark.parametrize("wrong", ["", "two words", "é", "x" * 301, "a\tb"])
def test_values_are_visible(wrong: str) -> None:
    with pytest.raises(BadRequest) as refused:
        second_factor_values(["mfa", wrong])
    assert refused.value.words == "contexts_malformed"


def test_there_are_at_most_twenty() -> None:
    second_factor_values([str(number) for number in range(20)])
    with pytest.raises(BadRequest):
        second_factor_values([str(number) for number in range(21)])


@pytest.mark.parametrize(
    "wrong",
    [
        "pwd",
        "fed",
        "urn:oasis:names:tc:SAML:2.0:ac:classes:Password",
        "urn:postern:acr:one-factor",
        "http://schemas.openid.net/pape/policies/2007/06/multi-factor",
    ],
)
def test_a_value_of_a_password_or_of_ours_cannot_be_chosen(wrong: str) -> None:
    with pytest.raises(BadRequest) as refused:
        second_factor_values(["mfa", wrong])
    assert (refused.value.words, refused.value.values) == ("factor_value", {"value": wrong})
