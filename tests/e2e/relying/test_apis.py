"""Tokens for an API of one's own (RFC 8707): Authlib, openid-client and oauth4webapi ask for them with `resource`; PyJWKClient, joserfc and
jose check that the API is their audience.

`make middleware` installs the libraries for Node; without them, there are no tests of them.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import pytest
from authlib.integrations.requests_client import OAuth2Session
from joserfc import jwt as joserfc_jwt
from joserfc.errors import InvalidClaimError
from joserfc.jwk import KeySet

from core.domain.federation.oauth.exchanges import ACCESS_TOKEN_TYPE
from core.domain.federation.oauth.grants import TOKEN_EXCHANGE
from ops.browser.signing import SigningBrowser
from ops.middleware.installed import INSTALLED
from tests.e2e.relying.conftest import API, CALLBACK, EMAIL, OTHER_API, PASSWORD, RunningProvider
from tests.e2e.relying.nodes import run_in_node, with_packages
from tests.patience import PATIENCE
from tests.places import ROOT

pytestmark = pytest.mark.slow

VERIFIER: Final = "0123456789-abcdefghijklmnopqrstuvwxyz-0123456789"
_AS_WRITTEN: Final = frozenset({"orders:read", "orders:write"})

Tokens = Mapping[str, Any]
AskingClient = Callable[[RunningProvider, SigningBrowser, Path], Tokens]


def authlib(provider: RunningProvider, ada: SigningBrowser, _place: Path) -> Tokens:
    endpoints = httpx.get(f"{provider.issuer}/.well-known/oauth-authorization-server", timeout=PATIENCE).json()
    endpoint = endpoints["token_endpoint"]
    with OAuth2Session(
        client_id=provider.shop.client_id,
        client_secret=provider.shop.secret,
        redirect_uri=CALLBACK,
        scope="openid orders:read orders:write",
        code_challenge_method="S256",
        token_endpoint=endpoint,
        default_timeout=PATIENCE,
    ) as client:
        address, state = client.create_authorization_url(endpoints["authorization_endpoint"], code_verifier=VERIFIER, resource=API)
        came = ada.arrive(address, CALLBACK)
        first = client.fetch_token(authorization_response=came, state=state, code_verifier=VERIFIER, resource=API)["access_token"]
        second = client.refresh_token(endpoint, resource=API, scope="orders:read")["access_token"]
        active = client.introspect_token(endpoints["introspection_endpoint"], token=second).json()["active"]
        client.scope = None
        own = client.fetch_token(endpoint, grant_type="client_credentials", resource=API, scope="orders:write")["access_token"]
        shown = {"subject_token": second, "subject_token_type": ACCESS_TOKEN_TYPE}
        exchanged = client.fetch_token(endpoint, grant_type=TOKEN_EXCHANGE, **shown, resource=OTHER_API, scope="orders:read")
    return {"first": first, "second": second, "own": own, "active": active, "exchanged": exchanged["access_token"]}


def in_node(program: str) -> AskingClient:
    def ask(provider: RunningProvider, ada: SigningBrowser, place: Path) -> Tokens:
        arguments = (provider.issuer, provider.shop.client_id, provider.shop.secret, CALLBACK, API, OTHER_API)
        told = run_in_node(place, program, arguments, lambda address: ada.arrive(address, CALLBACK))
        tokens: Tokens = json.loads(told)
        return tokens

    return ask


_IN_NODE = (INSTALLED / "node_modules" / "openid-client").exists()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(authlib, id="Authlib"),
        *(pytest.param(in_node(f"{name.replace('-', '_')}.mjs"), id=name) for name in ("openid-client", "oauth4webapi") if _IN_NODE),
    ],
)
def tokens(request: pytest.FixtureRequest, provider: RunningProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokens]:
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        ada = SigningBrowser(client, EMAIL, PASSWORD)
        allow_the_other_api(provider, ada)
        yield request.param(provider, ada, tmp_path_factory.mktemp("asking"))


def allow_the_other_api(provider: RunningProvider, ada: SigningBrowser) -> None:
    """An application exchanges its token only towards APIs that the person has allowed it."""
    endpoint = httpx.get(f"{provider.issuer}/.well-known/oauth-authorization-server", timeout=PATIENCE).json()["authorization_endpoint"]
    with OAuth2Session(provider.shop.client_id, redirect_uri=CALLBACK, scope="openid orders:read", code_challenge_method="S256") as client:
        address, _ = client.create_authorization_url(endpoint, code_verifier=VERIFIER, resource=OTHER_API)
        ada.arrive(address, CALLBACK)


def by_pyjwt(provider: RunningProvider, audience: str, typ: str, token: str, _place: Path) -> str:
    key = jwt.PyJWKClient(f"{provider.issuer}/.well-known/jwks.json").get_signing_key_from_jwt(token)
    try:
        read = jwt.decode_complete(token, key, ["ES256"], audience=audience, issuer=provider.issuer)
    except jwt.InvalidAudienceError:
        return "aud"
    # PyJWT reads `typ`, and leaves the comparison to whoever calls.
    return str(read["payload"]["scope"]) if read["header"]["typ"] == typ else "typ"


def by_joserfc(provider: RunningProvider, audience: str, typ: str, token: str, _place: Path) -> str:
    keys = KeySet.import_key_set(httpx.get(f"{provider.issuer}/.well-known/jwks.json", timeout=PATIENCE).json())
    read = joserfc_jwt.decode(token, keys, algorithms=["ES256"])
    claims = joserfc_jwt.JWTClaimsRegistry(
        iss={"essential": True, "value": provider.issuer}, aud={"essential": True, "value": audience}, exp={"essential": True}
    )
    try:
        claims.validate(read.claims)
    except InvalidClaimError as wrong:
        return str(wrong.claim)
    return str(read.claims["scope"]) if read.header["typ"] == typ else "typ"


def by_jose(provider: RunningProvider, audience: str, typ: str, token: str, place: Path) -> str:
    command = ["node", str(with_packages(place, "jose.mjs")), provider.issuer, audience, typ, token]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    return told.strip().removeprefix("ERR_JWT_CLAIM_VALIDATION_FAILED ")


CHECKS: Final = [
    pytest.param(by_pyjwt, id="PyJWKClient"),
    pytest.param(by_joserfc, id="joserfc"),
    *([pytest.param(by_jose, id="jose")] if _IN_NODE else []),
]


@pytest.mark.parametrize("check", CHECKS)
def test_the_token_is_for_the_api_that_the_client_named(
    provider: RunningProvider, tokens: Tokens, check: Callable[..., str], tmp_path: Path
) -> None:
    assert tokens["active"] is True
    assert frozenset(check(provider, API, "at+jwt", tokens["first"], tmp_path).split()) == _AS_WRITTEN
    assert check(provider, API, "at+jwt", tokens["second"], tmp_path) == "orders:read"
    assert check(provider, API, "at+jwt", tokens["own"], tmp_path) == "orders:write"
    for audience in (OTHER_API, f"{API}/", "service:acme/shop", provider.issuer):
        assert check(provider, audience, "at+jwt", tokens["second"], tmp_path) == "aud", audience
    assert check(provider, API, "JWT", tokens["second"], tmp_path) == "typ"


def test_a_service_exchanges_the_token_for_another_api(provider: RunningProvider, tokens: Tokens, tmp_path: Path) -> None:
    exchanged = tokens["exchanged"]
    assert by_joserfc(provider, OTHER_API, "at+jwt", exchanged, tmp_path) == "orders:read"
    assert by_joserfc(provider, API, "at+jwt", exchanged, tmp_path) == "aud"
    claims, before = (jwt.decode(one, options={"verify_signature": False}) for one in (exchanged, tokens["second"]))
    assert (claims["sub"], claims["act"]) == (before["sub"], {"sub": provider.shop.client_id})
    assert claims["exp"] <= before["exp"]


def test_the_guide_names_the_versions_that_are_tried() -> None:
    pinned = json.loads((ROOT / "ops/middleware/package.json").read_text())["dependencies"]
    guide = (ROOT / "docs/guides/apis/your-own-apis.md").read_text()
    for version in (f"Authlib {metadata.version('authlib')}", *(f"{name} {pinned[name]}" for name in ("openid-client", "oauth4webapi"))):
        assert version in guide
