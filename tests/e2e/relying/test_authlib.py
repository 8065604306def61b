"""Authlib as the client, on requests; it authenticates in each of its own ways."""

import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.jwk import KeySet

from ops.browser.signing import SigningBrowser
from tests.e2e.relying.conftest import CALLBACK, EMAIL, SIGNED_OUT, RunningProvider
from tests.patience import PATIENCE

VERIFIER = "0123456789-abcdefghijklmnopqrstuvwxyz-0123456789"
WAYS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")


@pytest.fixture(scope="module")
def metadata(provider: RunningProvider) -> Any:
    return httpx.get(f"{provider.issuer}/.well-known/oauth-authorization-server", timeout=PATIENCE).json()


@pytest.fixture(params=WAYS)
def client(request: pytest.FixtureRequest, provider: RunningProvider, metadata: Mapping[str, Any]) -> Iterator[OAuth2Session]:
    application = {"none": provider.page, "private_key_jwt": provider.bank}.get(request.param, provider.shop)
    made = OAuth2Session(
        client_id=application.client_id,
        client_secret=application.secret or application.key,
        token_endpoint_auth_method=request.param,
        revocation_endpoint_auth_method=request.param,
        redirect_uri=CALLBACK,
        scope="openid email offline_access",
        code_challenge_method="S256",
        token_endpoint=metadata["token_endpoint"],
        default_timeout=PATIENCE,
    )
    made.register_client_auth_method(PrivateKeyJWT(metadata["token_endpoint"], alg="ES256", headers={"kid": "first"}))
    with made:
        yield made


def test_a_person_signs_in(client: OAuth2Session, ada: SigningBrowser, metadata: Mapping[str, Any]) -> None:
    nonce = uuid4().hex
    address, state = client.create_authorization_url(metadata["authorization_endpoint"], nonce=nonce, code_verifier=VERIFIER)
    came = ada.arrive(address, CALLBACK)
    token = client.fetch_token(authorization_response=came, state=state, code_verifier=VERIFIER)
    keys = KeySet.import_key_set(httpx.get(metadata["jwks_uri"], timeout=PATIENCE).json())
    read = jwt.decode(token["id_token"], keys, algorithms=metadata["id_token_signing_alg_values_supported"])
    options = {"iss": {"value": metadata["issuer"]}, "aud": {"value": client.client_id}}
    asked = {"nonce": nonce, "client_id": client.client_id, "max_age": 3600}
    said = CodeIDToken(read.claims, read.header, options, {**asked, "access_token": token["access_token"]})
    said.validate(now=int(time.time()), leeway=10)

    who = client.get(metadata["userinfo_endpoint"]).json()
    assert (who["sub"], who["email"]) == (said["sub"], EMAIL)
    kept = token["refresh_token"]
    assert client.refresh_token(metadata["token_endpoint"])["refresh_token"] != kept
    assert client.get(metadata["userinfo_endpoint"]).json() == who
    if client.token_endpoint_auth_method != "none":
        seen = client.introspect_token(metadata["introspection_endpoint"], token=client.token["access_token"])
        assert seen.json()["active"] is True
    client.revoke_token(metadata["revocation_endpoint"], token=client.token["refresh_token"])
    assert client.get(metadata["userinfo_endpoint"]).status_code == 401

    asked = {"id_token_hint": token["id_token"], "post_logout_redirect_uri": SIGNED_OUT}
    assert ada.arrive(f"{metadata['end_session_endpoint']}?{httpx.QueryParams(asked)}", SIGNED_OUT) == SIGNED_OUT


@pytest.mark.parametrize("client", ["none"], indirect=True)
def test_a_code_without_its_verifier_is_an_error_of_the_library(
    client: OAuth2Session, ada: SigningBrowser, metadata: Mapping[str, Any]
) -> None:
    address, state = client.create_authorization_url(metadata["authorization_endpoint"], code_verifier=VERIFIER)
    came = ada.arrive(address, CALLBACK)
    assert parse_qs(urlsplit(came).query)["state"] == [state]
    with pytest.raises(OAuthError, match="invalid_grant"):
        client.fetch_token(authorization_response=came, state=state, code_verifier=VERIFIER[::-1])


@pytest.mark.parametrize("client", WAYS[1:], indirect=True)
def test_an_application_for_itself(client: OAuth2Session, metadata: Mapping[str, Any]) -> None:
    client.scope = None
    token = client.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")
    seen = client.introspect_token(metadata["introspection_endpoint"], token=token["access_token"]).json()
    assert (seen["active"], seen["client_id"]) == (True, client.client_id)
