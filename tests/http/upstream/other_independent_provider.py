"""A second OpenID Connect provider on loopback by other authors: idpyoidc's, which shares no code with Authlib's. We add a client, a person
and the HTTP around it; the protocol is idpyoidc's.
"""

import json
import threading
from secrets import token_hex
from typing import Any, Final, Self

from flask import Flask, Response, request
from idpyoidc.server import Server
from idpyoidc.server.configure import OPConfiguration
from idpyoidc.server.oauth2.add_on.pkce import CC_METHOD
from idpyoidc.server.oidc.authorization import Authorization
from idpyoidc.server.oidc.provider_config import ProviderConfiguration
from idpyoidc.server.oidc.token import Token
from idpyoidc.server.oidc.userinfo import UserInfo
from idpyoidc.server.user_authn.user import NoAuthn
from werkzeug.serving import BaseWSGIServer, make_server

_KEYS: Final = [{"type": "EC", "crv": "P-256", "use": ["sig"]}, {"type": "RSA", "use": ["sig"]}]
_JWT: Final = "idpyoidc.server.token.jwt_token.JWTToken"
_PKCE: Final = "idpyoidc.server.oauth2.add_on.pkce.add_support"


class OtherIndependentProvider:
    """`person` is the signed-in user's claims."""

    def __init__(self) -> None:
        self.client_id = "postern-there"
        self.secret = "other-independent-secret-4418"
        self.redirect_uri = ""
        self.person: dict[str, Any] = {}
        self._http: BaseWSGIServer | None = None
        self._provider: Any = None

    @property
    def issuer(self) -> str:
        assert self._http is not None
        return f"http://127.0.0.1:{self._http.port}"

    def __enter__(self) -> Self:
        self._http = make_server("127.0.0.1", 0, self._application(), threaded=True)
        self._provider = Server(OPConfiguration(self._configuration(), base_path=""))
        # The configuration is copied, and the person's claims may change later.
        self._provider.context.userinfo.db["ada"] = self.person
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_failure: object) -> None:
        assert self._http is not None
        self._http.shutdown()
        self._http.server_close()

    def registers(self, redirect_uri: str) -> None:
        """What an operator does at the provider: it knows our client and its redirect URI from now on."""
        self.redirect_uri = redirect_uri
        self._provider.context.cdb[self.client_id] = {
            "client_id": self.client_id,
            "client_secret": self.secret,
            "redirect_uris": [(redirect_uri, {})],
            "client_salt": token_hex(8),
            "response_types_supported": ["code"],
            "response_types": ["code"],
            "allowed_scopes": ["openid", "email", "profile"],
        }
        self._provider.context.keyjar.add_symmetric(self.client_id, self.secret)

    def _configuration(self) -> dict[str, Any]:
        crypt = {"kwargs": {"keys": {"key_defs": [{"type": "OCT", "use": [use], "kid": use} for use in ("enc", "sig")]}, "iterations": 1}}
        return {
            "issuer": self.issuer,
            "keys": {"uri_path": "jwks", "key_defs": _KEYS},
            "httpc_params": {"verify": True},
            "token_handler_args": {
                "code": {"lifetime": 600, "kwargs": {"crypt_conf": crypt}},
                "token": {"class": _JWT, "kwargs": {"lifetime": 3600, "aud": [self.issuer]}},
                "id_token": {"class": "idpyoidc.server.token.id_token.IDToken", "kwargs": {}},
            },
            "endpoint": {
                "provider_config": {"path": ".well-known/openid-configuration", "class": ProviderConfiguration, "kwargs": {}},
                "authorization": {"path": "authorization", "class": Authorization, "kwargs": {"response_types_supported": ["code"]}},
                "token": {"path": "token", "class": Token, "kwargs": {"client_authn_method": ["client_secret_post"]}},
                "userinfo": {"path": "userinfo", "class": UserInfo, "kwargs": {}},
            },
            "add_on": {"pkce": {"function": _PKCE, "kwargs": {"essential": True, "code_challenge_methods": {"S256": CC_METHOD["S256"]}}}},
            "authentication": {"here": {"acr": "urn:here", "class": NoAuthn, "kwargs": {"user": "ada"}}},
            "userinfo": {"class": "idpyoidc.server.user_info.UserInfo", "kwargs": {"db": {"ada": {}}}},
            "session_params": {"encrypter": crypt},
        }

    def _application(self) -> Flask:
        app = Flask(__name__)

        @app.get("/.well-known/openid-configuration")
        def metadata() -> Response:
            return self._answered("provider_config", {})

        @app.get("/jwks")
        def jwks() -> Response:
            return Response(self._provider.context.keyjar.export_jwks_as_json(), content_type="application/json")

        @app.get("/authorization")
        def authorization() -> Response:
            return self._answered("authorization", request.args.to_dict())

        @app.post("/token")
        def token() -> Response:
            return self._answered("token", request.form.to_dict())

        @app.get("/userinfo")
        def userinfo() -> Response:
            return self._answered("userinfo", {})

        return app

    def _answered(self, name: str, given: dict[str, str]) -> Response:
        endpoint = self._provider.get_endpoint(name)
        headers = {"authorization": request.headers["authorization"]} if "authorization" in request.headers else {}
        told = {"headers": headers, "method": request.method, "url": request.url, "cookie": []}
        parsed = endpoint.parse_request(given, http_info=told)
        if "error" in parsed:
            return Response(parsed.to_json(), 400, content_type="application/json")
        arguments = endpoint.process_request(parsed, http_info=told)
        if "error" in arguments:
            return Response(json.dumps({"error": arguments["error"]}), 400, content_type="application/json")
        answer = endpoint.do_response(request=parsed, **arguments)
        text = answer["response"]
        if answer.get("response_placement", endpoint.response_placement) == "url":
            return Response(status=302, headers={"location": str(text)})
        return Response(text if isinstance(text, str) else json.dumps(text), content_type="application/json")
