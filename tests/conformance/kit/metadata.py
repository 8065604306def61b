"""The conditions on the discovery document and the published keys."""

import base64
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt

from ops.conformance.plans import ROOT
from tests.conformance.kit.answers import is_json
from tests.conformance.kit.outcome import Outcome, words

ALLOWED_FOR_FAPI: Final = frozenset({"PS256", "ES256", "EdDSA", "Ed25519"})
WELL_KNOWN: Final = "/.well-known/openid-configuration"
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_MEMBERS: Final[Mapping[str, Sequence[str]]] = {"RSA": ("e", "n"), "EC": ("x", "y"), "OKP": ("x", "crv")}
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
# A language, then perhaps a script and a region, each in its usual case (RFC 5646 section 2.1.1).
_LOCALE: Final = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|\d{3}))?")
_RESPONSE_TYPES: Final = frozenset({"code", "code id_token", "id_token", "token id_token", "code id_token token", "code token"})
# The suite knows the metadata of RFC 8414, OpenID Connect and their extensions by name. Of ours that it does not know, its configuration
# file says so.
_ADDRESSES: Final = words(
    "issuer authorization_endpoint token_endpoint jwks_uri registration_endpoint service_documentation op_policy_uri op_tos_uri"
    " revocation_endpoint introspection_endpoint userinfo_endpoint end_session_endpoint check_session_iframe"
    " pushed_authorization_request_endpoint device_authorization_endpoint backchannel_authentication_endpoint"
)
_BOOLEANS: Final = words(
    "claims_parameter_supported request_parameter_supported request_uri_parameter_supported require_request_uri_registration"
    " frontchannel_logout_supported frontchannel_logout_session_supported backchannel_logout_supported"
    " backchannel_logout_session_supported require_pushed_authorization_requests authorization_response_iss_parameter_supported"
    " require_signed_request_object client_id_metadata_document_supported tls_client_certificate_bound_access_tokens"
)
_LISTS: Final = words(
    "scopes_supported response_types_supported response_modes_supported grant_types_supported token_endpoint_auth_methods_supported"
    " token_endpoint_auth_signing_alg_values_supported ui_locales_supported revocation_endpoint_auth_methods_supported"
    " revocation_endpoint_auth_signing_alg_values_supported introspection_endpoint_auth_methods_supported"
    " introspection_endpoint_auth_signing_alg_values_supported code_challenge_methods_supported subject_types_supported"
    " id_token_signing_alg_values_supported userinfo_signing_alg_values_supported request_object_signing_alg_values_supported"
    " display_values_supported claim_types_supported claims_supported claims_locales_supported acr_values_supported"
    " dpop_signing_alg_values_supported authorization_details_types_supported prompt_values_supported protected_resources"
)


def discovered(answer: httpx.Response) -> Mapping[str, Any]:
    assert answer.status_code == 200
    assert is_json(answer)
    told: Mapping[str, Any] = answer.json()
    return told


def is_https(metadata: Mapping[str, Any], name: str) -> None:
    parts = urlsplit(metadata[name])
    assert (parts.scheme, bool(parts.netloc)) == ("https", True), name


def all_endpoints_are_https(metadata: Mapping[str, Any]) -> None:
    for name in metadata:
        if name.endswith("_endpoint"):
            is_https(metadata, name)


def has_its_form(metadata: Mapping[str, Any]) -> None:
    for name, value in metadata.items():
        if name in _ADDRESSES:
            assert urlsplit(value).scheme, name
        elif name in _BOOLEANS:
            assert isinstance(value, bool), name
        elif name in _LISTS:
            _texts(value)


def allowed_unknown() -> Collection[str]:
    """What the suite's configuration file says beside the suite's own list."""
    given = json.loads((ROOT / "ops" / "conformance" / "openid-connect.json").read_text())
    names: list[str] = given["server"]["allow_unexpected_metadata_fields"]
    return names


def unknown_to_the_suite(metadata: Mapping[str, Any], allowed: Collection[str]) -> set[str]:
    return set(metadata) - _ADDRESSES - _BOOLEANS - _LISTS - set(allowed)


def is_an_issuer(issuer: str, discovery: str) -> None:
    parts = urlsplit(issuer)
    assert (parts.scheme, parts.query, parts.fragment) == ("https", "", "")
    assert parts.netloc
    assert issuer.rstrip("/") == discovery.removesuffix(WELL_KNOWN)


def has(metadata: Mapping[str, Any], name: str, *needed: str, one_of: Collection[str] = ()) -> None:
    values = _texts(metadata[name])
    assert set(needed) <= set(values)
    assert not one_of or set(values) & set(one_of)


def _texts(values: object) -> Sequence[str]:
    assert isinstance(values, list)
    assert all(isinstance(one, str) for one in values)
    return values


def has_scopes(metadata: Mapping[str, Any]) -> None:
    has(metadata, "scopes_supported", "openid")
    assert all(_SCOPE.fullmatch(scope) for scope in metadata["scopes_supported"])


def has_locales(metadata: Mapping[str, Any]) -> None:
    for name in ("ui_locales_supported", "claims_locales_supported"):
        assert all(_LOCALE.fullmatch(one) for one in _texts(metadata.get(name, [])))


def offers_a_response_type(metadata: Mapping[str, Any]) -> None:
    has(metadata, "response_types_supported", one_of=_RESPONSE_TYPES)


def published_keys(keys: Mapping[str, Any], outcome: Outcome) -> None:
    """What every module asks of the keys, before it starts."""
    for key in keys["keys"]:
        assert key["kty"] != "oct"
        assert not _PRIVATE & key.keys()
        members = _MEMBERS.get(key["kty"])
        outcome.should(members is not None, f"an unknown kind of key: {key['kty']}")
        for member in members or ():
            assert member == "crv" or base64.urlsafe_b64decode(f"{key[member]}==")
        assert jwt.PyJWK(key).key
        assert key["kid"].strip()
    kids = [key["kid"] for key in keys["keys"]]
    assert len(kids) == len(set(kids))
