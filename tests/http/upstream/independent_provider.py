"""An OpenID Connect provider on loopback by other authors: Authlib's, on Flask. We add people and clients; the protocol is Authlib's."""

import os
import threading
from dataclasses import dataclass, field
from time import time
from typing import Any, Final, Self

from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector, current_token
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6749.util import list_to_scope, scope_to_list
from authlib.oauth2.rfc6750 import BearerTokenValidator
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, UserInfo
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, jsonify
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import BaseWSGIServer, make_server

# Authlib refuses plain HTTP otherwise; this provider is on loopback, without TLS.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
KEY: Final = RSAKey.generate_key(2048, {"kid": "independent", "use": "sig", "alg": "RS256"})


@dataclass
class _Client(ClientMixin):  # type: ignore[misc]
    client_id: str
    secret: str
    redirect_uri: str = ""

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_allowed_scope(self, scope: str) -> str:
        allowed = {"openid", "email", "profile", "calendar", "offline_access"}
        return str(list_to_scope([one for one in scope_to_list(scope) if one in allowed]))

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri == self.redirect_uri

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:  # noqa: ARG002 - the library's signature
        return method == "client_secret_basic"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in {"authorization_code", "refresh_token"}


@dataclass
class _Code(AuthorizationCodeMixin):  # type: ignore[misc]
    code: str
    redirect_uri: str
    scope: str
    nonce: str
    code_challenge: str
    code_challenge_method: str
    user: Any

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(time())

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


@dataclass
class _Token(TokenMixin):  # type: ignore[misc]
    given: dict[str, Any]
    client: _Client
    user: Any
    made: float = field(default_factory=time)

    def check_client(self, client: _Client) -> bool:
        return client.client_id == self.client.client_id

    def get_scope(self) -> str:
        return str(self.given["scope"])

    def get_expires_in(self) -> int:
        return int(self.given["expires_in"])

    def is_expired(self) -> bool:
        return time() > self.made + self.get_expires_in()

    def is_revoked(self) -> bool:
        return False

    def get_user(self) -> Any:
        return self.user

    def get_client(self) -> _Client:
        return self.client


class IndependentProvider:
    """`person` is the signed-in user's claims."""

    def __init__(self) -> None:
        self.client = _Client("postern", "independent-secret-4417")
        self.person: dict[str, Any] = {}
        self.codes: dict[str, _Code] = {}
        self.tokens: list[_Token] = []
        self.refreshed = 0
        self._server: BaseWSGIServer | None = None

    @property
    def issuer(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.port}"

    def __enter__(self) -> Self:
        self._server = make_server("127.0.0.1", 0, self._application(), threaded=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_failure: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def _application(self) -> Flask:  # noqa: C901 - one place for a provider
        provider = self
        app = Flask(__name__)
        app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True

        class CodeGrant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
            TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic",)

            def save_authorization_code(self, code: str, request: Any) -> None:
                data = request.payload.data
                provider.codes[code] = _Code(
                    code,
                    request.payload.redirect_uri,
                    request.payload.scope,
                    data["nonce"],
                    data["code_challenge"],
                    data["code_challenge_method"],
                    request.user,
                )

            def query_authorization_code(self, code: str, client: _Client) -> _Code | None:  # noqa: ARG002 - the library's signature
                return provider.codes.get(code)

            def delete_authorization_code(self, authorization_code: _Code) -> None:
                provider.codes.pop(authorization_code.code)

            def authenticate_user(self, authorization_code: _Code) -> Any:
                return authorization_code.user

        class Renewal(grants.RefreshTokenGrant):  # type: ignore[misc]
            TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic",)
            INCLUDE_NEW_REFRESH_TOKEN = True

            def authenticate_refresh_token(self, refresh_token: str) -> _Token | None:
                return next((one for one in provider.tokens if one.given.get("refresh_token") == refresh_token), None)

            def authenticate_user(self, refresh_token: _Token) -> Any:
                return refresh_token.user

            def revoke_old_credential(self, refresh_token: _Token) -> None:
                provider.refreshed += 1
                provider.tokens.remove(refresh_token)

        class Connect(OpenIDCode):  # type: ignore[misc]
            def exists_nonce(self, nonce: str, request: Any) -> bool:  # noqa: ARG002 - the library's signature
                return any(code.nonce == nonce for code in provider.codes.values())

            def resolve_client_private_key(self, client: _Client) -> Any:  # noqa: ARG002 - the library's signature
                return KEY

            def get_client_algorithm(self, client: _Client) -> str:  # noqa: ARG002 - the library's signature
                return "RS256"

            def get_encode_header(self, client: _Client) -> dict[str, str]:  # noqa: ARG002 - the library's signature
                return {"alg": "RS256", "kid": "independent"}

            def get_client_claims(self, client: _Client) -> dict[str, Any]:
                return {"iss": provider.issuer, "aud": [client.client_id]}

            def generate_user_info(self, user: Any, scope: str) -> UserInfo:  # noqa: ARG002 - the library's signature
                return UserInfo(sub=user["sub"])

        def save(token: dict[str, Any], request: Any) -> None:
            provider.tokens.append(_Token(token, request.client, request.user))

        server = AuthorizationServer(
            app, query_client=lambda client_id: provider.client if client_id == provider.client.client_id else None, save_token=save
        )
        server.register_grant(CodeGrant, [Connect(require_nonce=True), CodeChallenge(required=True)])
        server.register_grant(Renewal)

        class Bearer(BearerTokenValidator):  # type: ignore[misc]
            def authenticate_token(self, token_string: str) -> _Token | None:
                return next((one for one in provider.tokens if one.given["access_token"] == token_string), None)

        protected = ResourceProtector()
        protected.register_token_validator(Bearer())

        @app.get("/.well-known/openid-configuration")
        def metadata() -> Any:
            return jsonify(
                issuer=provider.issuer,
                authorization_endpoint=f"{provider.issuer}/authorize",
                token_endpoint=f"{provider.issuer}/token",
                userinfo_endpoint=f"{provider.issuer}/userinfo",
                jwks_uri=f"{provider.issuer}/jwks",
            )

        @app.get("/jwks")
        def jwks() -> Any:
            return jsonify(KeySet([KEY]).as_dict(private=False))

        @app.get("/authorize")
        def authorize() -> Any:
            return server.create_authorization_response(
                grant_user=dict(provider.person), grant=server.get_consent_grant(dict(provider.person))
            )

        @app.post("/token")
        def token() -> Any:
            return server.create_token_response()

        @app.get("/userinfo")
        @protected("openid")  # type: ignore[untyped-decorator]
        def userinfo() -> Any:
            return jsonify(current_token.user)

        return app
