"""Every text of a request has a bound in its declaration, which the decoder checks before anything reads the text."""

from typing import Final

import msgspec
import pytest

from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.secrets import Password, Secret, Token
from entrypoints.http.application import PAGES
from entrypoints.http.machinery.decoding import FieldsReader, LinkReader, QueryReader, convert
from entrypoints.http.machinery.errors import NotAsDeclared
from entrypoints.http.routes import ROUTES
from tests.security.texts.declared import declared_texts

# Fields that take any JSON. What stands in them is checked by the domain, letter by letter where it is kept, and the limit of the body
# bounds them. Documents of configuration, keys and metadata are among them.
ANY_JSON: Final = {
    "AssertionSettingsBody.jwks",
    "ConfigurationDocumentBody.document",
    "FieldValuesPatch.values",
    "NewProposal.document",
    "NewServiceBody.jwks",
    "NewServiceBody.metadata",
    "NewServiceClaim.argument",
    "NewTrustedIssuer.claims",
    "NewTrustedIssuer.jwks",
    "OrganizationChange.metadata",
    "OwnFieldValuesPatch.values",
    "SamlConfigurationBody.attribute_mapping",
    "ScimPatchBody.Operations",
    "ScimUserBody.locale",
    "ScimUserBody.phoneNumbers",
    "ScimUserBody.preferredLanguage",
    "ScimUserBody.timezone",
    "ScimUserBody.title",
    "ScimUserBody.urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
    "ScimUserBody.urn:ietf:params:scim:schemas:extension:postern:User",
    "ScimUserBody.userType",
    "ServiceClaimPatch.argument",
    "ServicePatch.jwks",
    "ServicePatch.metadata",
    "ServiceUserPatch.metadata",
    "ServiceUserPatch.profile",
    "TrustedIssuerPatch.claims",
    "TrustedIssuerPatch.jwks",
}


def test_every_text_has_a_bound() -> None:
    assert len(declared_texts()) > 4000
    assert [str(one) for one in declared_texts() if one.longest is None and not one.is_any] == []


def test_what_takes_any_json_is_named() -> None:
    found = {f"{one.endpoint.body_type.__name__}.{one.steps[0]}" for one in declared_texts() if one.is_any}
    assert found == ANY_JSON


@pytest.mark.parametrize("reader", [QueryReader, LinkReader], ids=["query", "link"])
def test_a_text_beyond_its_bound_is_refused(reader: type[QueryReader | LinkReader]) -> None:
    kinds = {one.query_type for one in (*ROUTES, *PAGES) if one.query_type is not None and one.is_page is (reader is LinkReader)}
    tried = 0
    for one in declared_texts():
        if one.part != "query" or one.endpoint.query_type not in kinds or one.longest is None or one.is_secret or len(one.steps) != 1:
            continue
        assert one.endpoint.query_type is not None
        with pytest.raises(NotAsDeclared, match=one.steps[0]):
            convert({one.steps[0]: "x" * (one.longest + 1)}, one.endpoint.query_type)
        tried += 1
    assert tried > 50


def test_a_secret_beyond_its_bound_is_refused_and_a_password_or_token_stays_too_long() -> None:
    class Secrets(msgspec.Struct, frozen=True):
        token: Token = Token("")
        secret: Secret = Secret("")
        password: Password = Password("")

    read = FieldsReader(Secrets, "The form").read
    for name in ("token", "secret"):
        assert getattr(read(f"{name}={'x' * Secret.longest}".encode()), name).reveal() == "x" * Secret.longest
    with pytest.raises(NotAsDeclared, match=f"secret: expected string of length <= {Secret.longest}"):
        read(f"secret={'x' * (Secret.longest + 1)}".encode())
    assert read(f"token={'x' * 60_000}".encode()).token.reveal() == "x" * (Secret.longest + 1)
    for length in (LONGEST_PASSWORD, LONGEST_PASSWORD + 1):
        assert read(f"password={'x' * length}".encode()).password.reveal() == "x" * length
    assert read(f"password={'x' * 60_000}".encode()).password.reveal() == "x" * (LONGEST_PASSWORD + 1)
