"""idpyoidc as the relying party: it fetches the metadata and the keys, and checks ID token and userinfo by itself."""

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from idpyoidc.client.rp_handler import RPHandler

from ops.browser.signing import SigningBrowser
from tests.e2e.relying.conftest import CALLBACK, EMAIL, RunningProvider

_S256 = {"code_challenge_length": 64, "code_challenge_method": "S256"}


def party(provider: RunningProvider, method: str) -> RPHandler:
    configuration = {
        "issuer": provider.issuer,
        "client_id": provider.shop.client_id,
        "client_secret": provider.shop.secret,
        "client_type": "oidc",
        "redirect_uris": [CALLBACK],
        "response_types_supported": ["code"],
        "token_endpoint_auth_methods_supported": [method],
        "client_authn_methods": [method],
        "id_token_signing_alg_values_supported": ["ES256"],
        "add_ons": {"pkce": {"function": "idpyoidc.client.oauth2.add_on.pkce.add_support", "kwargs": _S256}},
    }
    return RPHandler(base_url="https://app.example", client_configs={provider.issuer: configuration})


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_person_signs_in(
    provider: RunningProvider, ada: SigningBrowser, method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The library keeps keys of its own in the working directory.
    monkeypatch.chdir(tmp_path)
    handler = party(provider, method)
    address = handler.begin(issuer_id=provider.issuer, req_args={"scope": ["openid", "email"]})
    came = ada.arrive(address, CALLBACK)
    done = handler.finalize(provider.issuer, dict(parse_qsl(urlsplit(came).query)))
    assert "error" not in done, done
    assert done["userinfo"]["email"] == EMAIL
    assert done["id_token"]["iss"] == provider.issuer
    assert done["id_token"]["sub"] == done["userinfo"]["sub"]
