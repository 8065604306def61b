"""The one module of the config plan."""

from tests.conformance.kit import metadata as conditions
from tests.conformance.kit.metadata import WELL_KNOWN
from tests.conformance.kit.relying import Suite


def test_oidcc_discovery_endpoint_verification(suite: Suite) -> None:
    address = suite.installation.issuer + WELL_KNOWN
    metadata = conditions.discovered(suite.client.get(address))
    conditions.offers_a_response_type(metadata)
    conditions.is_an_issuer(metadata["issuer"], address)
    conditions.has_its_form(metadata)
    unknown = conditions.unknown_to_the_suite(metadata, conditions.allowed_unknown())
    suite.outcome.should(not unknown, f"the suite does not know {sorted(unknown)}")
    conditions.has(metadata, "subject_types_supported", one_of={"public", "pairwise"})
    conditions.has(metadata, "id_token_signing_alg_values_supported", "RS256")
    if "userinfo_signing_alg_values_supported" in metadata:
        conditions.has(metadata, "userinfo_signing_alg_values_supported")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        conditions.is_https(metadata, name)
    suite.outcome.should("userinfo_endpoint" in metadata, "no userinfo_endpoint")
    for name in {"userinfo_endpoint", "registration_endpoint"} & metadata.keys():
        conditions.is_https(metadata, name)
    conditions.published_keys(suite.client.get(metadata["jwks_uri"]).json(), suite.outcome)
    if "request_object_signing_alg_values_supported" in metadata:
        suite.outcome.should("RS256" in metadata["request_object_signing_alg_values_supported"], "no request objects with RS256")
    suite.outcome.should(isinstance(metadata.get("claims_supported"), list), "no claims_supported")
    if "grant_types_supported" in metadata:
        conditions.has(metadata, "grant_types_supported")
        assert metadata["grant_types_supported"]
    suite.outcome.should("scopes_supported" in metadata, "no scopes_supported")
    conditions.has_scopes(metadata)
    conditions.has_locales(metadata)
    conditions.all_endpoints_are_https(metadata)
    if metadata.get("code_challenge_methods_supported"):
        conditions.has(metadata, "code_challenge_methods_supported", one_of={"S256", "plain"})
