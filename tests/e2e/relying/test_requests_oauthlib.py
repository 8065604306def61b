"""requests-oauthlib as the client; joserfc verifies the tokens."""

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import uuid4

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import KeySet
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

from ops.browser.signing import SigningBrowser
from tests.e2e.relying.conftest import CALLBACK, EMAIL, SIGNED_OUT, RunningProvider, ShownApplication
from tests.patience import PATIENCE

SCOPES = ("openid", "profile", "email", "offline_access", "organization")
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ALLOWED_WITHIN = 10  # seconds of a clock


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    # The library's documentation tells developers to set this variable for plain HTTP.
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.fixture(scope="module")
def metadata(provider: RunningProvider) -> Mapping[str, Any]:
    found = requests.get(f"{provider.issuer}/.well-known/openid-configuration", timeout=PATIENCE)
    assert found.json()["issuer"] == provider.issuer
    return cast("Mapping[str, Any]", found.json())


class Rely:
    """An application of a few lines."""

    def __init__(self, metadata: Mapping[str, Any], application: ShownApplication, *, by: str) -> None:
        self.metadata = metadata
        self.application = application
        self.by = by
        self.session = OAuth2Session(application.client_id, redirect_uri=CALLBACK, scope=SCOPES, pkce="S256")
        self.nonce = uuid4().hex

    def asking(self, **more: Any) -> str:
        address, _ = self.session.authorization_url(self.metadata["authorization_endpoint"], nonce=self.nonce, **more)
        return str(address)

    def tokens(self, came: str) -> Mapping[str, Any]:
        self.session.fetch_token(
            self.metadata["token_endpoint"], authorization_response=came, **self.proof(self.metadata["token_endpoint"])
        )
        return cast("Mapping[str, Any]", self.session.token)

    def proof(self, endpoint: str) -> dict[str, Any]:
        """The client's credentials, as arguments of `fetch_token`."""
        one = self.application
        if self.by == "client_secret_basic":
            return {"client_secret": one.secret}
        if self.by == "client_secret_post":
            return {"client_secret": one.secret, "include_client_id": True}
        return {"include_client_id": True, **self.proof_in_body(endpoint)}

    def proof_in_body(self, endpoint: str) -> dict[str, str]:
        one = self.application
        if one.secret:
            return {"client_id": one.client_id, "client_secret": one.secret}
        if one.key is None:
            return {}
        now = int(time.time())
        said = {"iss": one.client_id, "sub": one.client_id, "aud": endpoint, "exp": now + 60, "iat": now, "jti": uuid4().hex}
        assertion = jwt.encode({"alg": "ES256", "kid": "first"}, said, one.key)
        return {"client_assertion_type": JWT_BEARER, "client_assertion": assertion}

    def post(self, endpoint: str, fields: Mapping[str, str]) -> requests.Response:
        """Posts to the endpoint of this name, with the client's credentials."""
        address = self.metadata[endpoint]
        if self.by == "client_secret_basic":
            auth = HTTPBasicAuth(self.application.client_id, self.application.secret)
            return requests.post(address, data=fields, auth=auth, timeout=PATIENCE)
        body = {"client_id": self.application.client_id, **self.proof_in_body(address), **fields}
        return requests.post(address, data=body, timeout=PATIENCE)

    def verified(self, id_token: str, *algorithms: str) -> dict[str, Any]:
        """As OpenID Connect Core 3.1.3.7 says."""
        keys = KeySet.import_key_set(requests.get(self.metadata["jwks_uri"], timeout=PATIENCE).json())
        token = jwt.decode(id_token, keys, algorithms=list(algorithms))
        registry = jwt.JWTClaimsRegistry(
            leeway=ALLOWED_WITHIN,
            iss={"essential": True, "value": self.metadata["issuer"]},
            aud={"essential": True, "value": self.application.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": self.nonce},
        )
        registry.validate(token.claims)
        return token.claims


@pytest.fixture(params=["none", "client_secret_basic", "client_secret_post", "private_key_jwt"])
def rely(request: pytest.FixtureRequest, metadata: Mapping[str, Any], provider: RunningProvider) -> Iterator[Rely]:
    application = {"none": provider.page, "private_key_jwt": provider.bank}.get(request.param, provider.shop)
    one = Rely(metadata, application, by=request.param)
    with one.session:
        yield one


def test_a_person_signs_in_and_stays_until_signing_out(rely: Rely, ada: SigningBrowser) -> None:
    """Each kind of client goes all the way."""
    session, metadata = rely.session, rely.metadata
    assert rely.by in metadata["token_endpoint_auth_methods_supported"]
    came = ada.arrive(rely.asking(), CALLBACK)
    assert parse_qs(urlsplit(came).query)["iss"] == [metadata["issuer"]]
    first = dict(rely.tokens(came))
    said = rely.verified(first["id_token"], "ES256" if rely.application.secret else "RS256")
    half = sha256(first["access_token"].encode()).digest()[:16]
    assert said["at_hash"] == urlsafe_b64encode(half).rstrip(b"=").decode()
    assert abs(time.time() - said["auth_time"]) < 60
    assert said["amr"] == ["pwd"]

    who = session.get(metadata["userinfo_endpoint"]).json()
    assert who["sub"] == said["sub"]
    assert who["email"] == EMAIL

    endpoint = metadata["token_endpoint"]
    proof = rely.proof_in_body(endpoint)
    auth = HTTPBasicAuth(rely.application.client_id, rely.application.secret) if rely.by == "client_secret_basic" else None
    more = {} if auth else {"client_id": rely.application.client_id, **proof}
    again = session.refresh_token(endpoint, auth=auth, **more)
    assert again["access_token"] != first["access_token"]
    assert again["refresh_token"] != first["refresh_token"]
    assert session.get(metadata["userinfo_endpoint"]).json() == who

    if rely.by != "none":
        seen = rely.post("introspection_endpoint", {"token": again["access_token"]}).json()
        assert seen["active"] is True
        assert (seen["sub"], seen["client_id"]) == (said["sub"], rely.application.client_id)
    revoked = rely.post("revocation_endpoint", {"token": again["refresh_token"], "token_type_hint": "refresh_token"})
    assert revoked.status_code == 200
    assert session.get(metadata["userinfo_endpoint"]).status_code == 401
    if rely.by != "none":
        assert rely.post("introspection_endpoint", {"token": again["access_token"]}).json() == {"active": False}


@pytest.mark.parametrize("rely", ["none"], indirect=True)
def test_a_public_client_needs_not_say_how_it_authenticates(rely: Rely, ada: SigningBrowser) -> None:
    """Then the library sends the client id in the header, with an empty password."""
    rely.session.fetch_token(rely.metadata["token_endpoint"], authorization_response=ada.arrive(rely.asking(), CALLBACK))
    rely.verified(rely.session.token["id_token"], "RS256")


def test_a_pushed_request(rely: Rely, ada: SigningBrowser) -> None:
    asked = dict(parse_qs(urlsplit(rely.asking()).query))
    pushed = rely.post("pushed_authorization_request_endpoint", {name: values[0] for name, values in asked.items()})
    assert pushed.status_code == 201, pushed.text
    named = {"client_id": rely.application.client_id, "request_uri": pushed.json()["request_uri"]}
    came = ada.arrive(f"{rely.metadata['authorization_endpoint']}?{urlencode(named)}", CALLBACK)
    rely.verified(rely.tokens(came)["id_token"], "RS256", "ES256")


@pytest.mark.parametrize("rely", ["none"], indirect=True)
def test_who_is_asked_what(rely: Rely, ada: SigningBrowser) -> None:
    def told(address: str) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(ada.arrive(address, CALLBACK)).query).items()}

    assert told(rely.asking(prompt="none"))["error"] == "login_required"
    assert ada.pages == []
    first = rely.verified(rely.tokens(ada.arrive(rely.asking(), CALLBACK))["id_token"], "RS256")
    assert "/ui/sign-in" in ada.pages
    for silent in ({"prompt": "none", "max_age": "3600"}, {}, {"prompt": "none"}):
        assert "code" in told(rely.asking(**silent))
        assert ada.pages == []
    came = ada.arrive(rely.asking(prompt="none"), CALLBACK)
    same = rely.verified(rely.tokens(came)["id_token"], "RS256")
    assert same["auth_time"] == first["auth_time"]
    assert told(rely.asking(prompt="none", max_age="0"))["error"] == "login_required"
    assert "code" in told(rely.asking(max_age="0"))
    assert ada.pages
    came = ada.arrive(rely.asking(prompt="login"), CALLBACK)
    assert ada.pages
    later = rely.verified(rely.tokens(came)["id_token"], "RS256")
    assert later["auth_time"] >= first["auth_time"]
    assert later["sub"] == first["sub"]


@pytest.mark.parametrize("rely", ["client_secret_basic"], indirect=True)
def test_a_second_application_needs_no_password_and_signing_out_of_one_ends_both(
    rely: Rely, ada: SigningBrowser, metadata: Mapping[str, Any], provider: RunningProvider
) -> None:
    hint = rely.tokens(ada.arrive(rely.asking(), CALLBACK))["id_token"]
    beside = Rely(metadata, provider.page, by="none")
    beside.session.scope = ["openid", "email"]
    with beside.session:
        came = ada.arrive(beside.asking(), CALLBACK)
        assert "/ui/sign-in" not in ada.pages
        beside.tokens(came)
        assert beside.session.get(metadata["userinfo_endpoint"]).status_code == 200
        asked = {"id_token_hint": hint, "post_logout_redirect_uri": SIGNED_OUT, "state": "s", "client_id": rely.application.client_id}
        left = ada.arrive(f"{metadata['end_session_endpoint']}?{urlencode(asked)}", SIGNED_OUT)
        assert ada.pages == []
        assert parse_qs(urlsplit(left).query)["state"] == ["s"]
        assert beside.session.get(metadata["userinfo_endpoint"]).status_code == 401
        assert "error=login_required" in ada.arrive(rely.asking(prompt="none"), CALLBACK)
