"""The metadata for applications: the addresses of all endpoints, and everything that is supported (OpenID Connect Discovery, RFC 8414)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, CLIENT_CREDENTIALS, REFRESH_TOKEN
from core.domain.federation.oauth.oidc import PERSON_CLAIMS
from core.domain.federation.oauth.scopes import SCOPES
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.identity.upstream.identity_assertions import GRANT_PROFILE
from core.domain.json import Json
from core.domain.key_proofs.proofs import ALGORITHMS
from core.domain.outbound.key_sets import ASSERTION_ALGORITHMS
from core.domain.signing_keys import TokenAlgorithm

TOKEN_ENDPOINT: Final = "/auth/token"  # noqa: S105 - a path
TOKEN_ALIAS: Final = "/oauth/token"  # noqa: S105
REVOCATION_ENDPOINT: Final = "/auth/revoke"
REVOCATION_ALIAS: Final = "/oauth/revoke"
INTROSPECTION_ENDPOINT: Final = "/oauth/introspect"
USERINFO_ENDPOINT: Final = "/oauth/userinfo"
AUTHORIZATION_ENDPOINT: Final = "/oauth/authorize"
PUSHED_AUTHORIZATION_ENDPOINT: Final = "/oauth/par"
REGISTRATION_ENDPOINT: Final = "/oauth/register"
END_SESSION_ENDPOINT: Final = "/oauth/logout"
DEVICE_AUTHORIZATION_ENDPOINT: Final = "/auth/device/code"
AFAR_ENDPOINT: Final = "/oauth/bc-authorize"
JWKS: Final = "/.well-known/jwks.json"

_OF_ID_TOKENS: Final = ("iss", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "at_hash", "sid")


def metadata(issuer: str, grants: Iterable[str], locales: Sequence[str], *, registers: bool) -> Mapping[str, Json]:
    """Both documents have the same content, because clients ignore members that they do not know. `registers`: clients may register
    themselves.
    """
    authenticated = [method.value for method in AuthenticationMethod if method is not AuthenticationMethod.NONE]
    every = [*authenticated, AuthenticationMethod.NONE.value]
    algorithms = list(ASSERTION_ALGORITHMS)
    return {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZATION_ENDPOINT,
        "token_endpoint": issuer + TOKEN_ENDPOINT,
        "userinfo_endpoint": issuer + USERINFO_ENDPOINT,
        "jwks_uri": issuer + JWKS,
        "revocation_endpoint": issuer + REVOCATION_ENDPOINT,
        "introspection_endpoint": issuer + INTROSPECTION_ENDPOINT,
        "end_session_endpoint": issuer + END_SESSION_ENDPOINT,
        "pushed_authorization_request_endpoint": issuer + PUSHED_AUTHORIZATION_ENDPOINT,
        **({"registration_endpoint": issuer + REGISTRATION_ENDPOINT} if registers else {}),
        "device_authorization_endpoint": issuer + DEVICE_AUTHORIZATION_ENDPOINT,
        "backchannel_authentication_endpoint": issuer + AFAR_ENDPOINT,
        "backchannel_token_delivery_modes_supported": ["poll"],
        "backchannel_user_code_parameter_supported": False,
        "scopes_supported": list(SCOPES),
        "claims_supported": [*dict.fromkeys((*PERSON_CLAIMS, *_OF_ID_TOKENS))],
        "claim_types_supported": ["normal"],
        "claims_parameter_supported": True,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "grant_types_supported": list(dict.fromkeys((AUTHORIZATION_CODE, REFRESH_TOKEN, CLIENT_CREDENTIALS, *grants))),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [algorithm.value for algorithm in TokenAlgorithm],
        "acr_values_supported": [ONE_FACTOR, TWO_FACTORS],
        "prompt_values_supported": ["none", "login", "consent", "select_account", "create"],
        "code_challenge_methods_supported": ["S256"],
        "dpop_signing_alg_values_supported": list(ALGORITHMS),
        "token_endpoint_auth_methods_supported": every,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": every,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_endpoint_auth_methods_supported": authenticated,
        "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
        "frontchannel_logout_supported": True,
        "frontchannel_logout_session_supported": True,
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
        "require_pushed_authorization_requests": False,
        "require_request_uri_registration": False,
        "authorization_grant_profiles_supported": [GRANT_PROFILE],
        "ui_locales_supported": list(locales),
        "service_documentation": issuer + "/docs",
    }


def assertion_endpoints(issuer: str) -> frozenset[str]:
    """The addresses of the endpoints that receive assertions (RFC 7523 section 3, RFC 9126 section 2). Libraries differ in which they name,
    and newer ones name the issuer alone.
    """
    endpoints = (
        *(TOKEN_ENDPOINT, TOKEN_ALIAS, REVOCATION_ENDPOINT, REVOCATION_ALIAS),
        *(INTROSPECTION_ENDPOINT, PUSHED_AUTHORIZATION_ENDPOINT, DEVICE_AUTHORIZATION_ENDPOINT, AFAR_ENDPOINT),
    )
    return frozenset(issuer + endpoint for endpoint in endpoints)
