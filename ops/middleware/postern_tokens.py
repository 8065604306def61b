"""Checks access tokens of Postern in your API. Copy this file and the file of your framework. It needs `pip install "pyjwt[crypto]"`."""

import base64
import json
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import jwt

Claims = Mapping[str, Any]
TWO_FACTORS = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
_CLOCKS_DIFFER = 30
_ASK_AGAIN_AFTER = 10
_LOGOUT = "http://schemas.openid.net/event/backchannel-logout"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take token and secret elsewhere, and whoever answers there would say whether the token is active."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class Refused(Exception):
    """The answer to a request that may not pass: a status, and the header `WWW-Authenticate` (RFC 6750, RFC 9470)."""

    def __init__(self, status: int, error: str = "", description: str = "", **wanted: str) -> None:
        super().__init__(description or "a token is needed")
        self.status = status
        self.body = {"error": error or "invalid_request", "error_description": str(self)}
        parts = {"error": error, "error_description": description, **wanted}
        self.challenge = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


class Tokens:
    def __init__(
        self,
        issuer: str,
        *,
        audience: Sequence[str],
        ids: Sequence[str],
        algorithm: str = "ES256",
        introspect_as: tuple[str, str] | None = None,
        is_ended: Callable[[str], bool] = lambda _sid: False,
    ) -> None:
        """`ids` are the ids of the service and of its organization, because a slug may belong to somebody else tomorrow; of an API that
        stands as such in Postern, its own id. With `introspect_as`, the client's id and secret, Postern is asked at each request whether
        the token is still active. `is_ended` is asked with the `sid` of the token: whether `logout_notice` gave it before.
        """
        self.issuer, self.audience, self.ids, self.algorithm = issuer, audience, ids, algorithm
        self._introspect_as, self._is_ended = introspect_as, is_ended
        self._keys = jwt.PyJWKClient(f"{issuer}/.well-known/jwks.json", lifespan=600, timeout=5)
        self._asked_again = -float(_ASK_AGAIN_AFTER)

    def claims(self, authorization: Sequence[str]) -> Claims:
        """The claims of the token in the headers `Authorization` of a request. Raises `Refused`."""
        if not authorization:
            raise Refused(401)
        scheme, _, token = authorization[0].partition(" ")
        if len(authorization) > 1 or scheme.lower() != "bearer":
            raise Refused(401, "invalid_token", "one header Authorization with Bearer and a token is needed")
        claims = self._verified(token, "at+jwt", [self.algorithm], self.audience)
        # A token for an API of yours names the API; every other token names the service, or, if it is a program's own, the organization.
        whose = claims.get("resource_id") or claims.get("org_id" if claims.get("token_use") == "client" else "service_id")
        if whose not in self.ids:
            raise Refused(401, "invalid_token", "the token is for another service or API")
        if self._is_ended(str(claims.get("sid"))) or (self._introspect_as and not self._is_active(token, self._introspect_as)):
            raise Refused(401, "invalid_token", "the session has ended")
        return claims

    def logout_notice(self, logout_token: str, client_id: str) -> str:
        """The `sid` of the session that ended, from the form field `logout_token` of Postern's notice. Keep it for as long as an access
        token lives. Raises `Refused`.
        """
        claims = self._verified(logout_token, "logout+jwt", ["RS256", "ES256"], [client_id])
        if _LOGOUT not in claims.get("events", {}) or "nonce" in claims or "sid" not in claims:
            raise Refused(400, "invalid_request", "this is no logout token")
        return str(claims["sid"])

    def _verified(self, token: str, kind: str, algorithms: Sequence[str], audience: Sequence[str]) -> Claims:
        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            options: Any = {"require": ["exp", "iat", "iss", "aud", "sub"]}
            said = jwt.decode_complete(
                token, key, list(algorithms), issuer=self.issuer, audience=list(audience), leeway=_CLOCKS_DIFFER, options=options
            )
        except jwt.PyJWKClientConnectionError:
            raise Refused(503, "temporarily_unavailable", "the keys cannot be fetched") from None
        except jwt.ExpiredSignatureError:
            raise Refused(401, "invalid_token", "the token has expired") from None
        except jwt.InvalidAudienceError:
            raise Refused(401, "invalid_token", "the token is for another audience") from None
        except jwt.InvalidIssuerError:
            raise Refused(401, "invalid_token", "the token is from another issuer") from None
        except jwt.PyJWTError:  # its text may quote the token, so it does not go into a header
            raise Refused(401, "invalid_token", "the token is not valid") from None
        if said["header"].get("typ") != kind:
            raise Refused(401, "invalid_token", "the token is of another type")
        payload: Claims = said["payload"]
        return payload

    def _key(self, kid: str | None) -> jwt.PyJWK:
        """A token with an unknown `kid` has the keys fetched again, but not each such token."""
        key = kid and self._keys.match_kid(self._keys.get_signing_keys(), kid)
        if kid and not key and time.monotonic() - self._asked_again > _ASK_AGAIN_AFTER:
            self._asked_again = time.monotonic()
            key = self._keys.match_kid(self._keys.get_signing_keys(refresh=True), kid)
        if not key:
            raise jwt.InvalidKeyError
        return key

    def _is_active(self, token: str, client: tuple[str, str]) -> bool:
        basic = base64.b64encode(":".join(client).encode()).decode()
        asked = urllib.request.Request(  # noqa: S310 - the issuer is ours
            f"{self.issuer}/oauth/introspect", urlencode({"token": token}).encode(), {"Authorization": f"Basic {basic}"}
        )
        try:
            with _OPENER.open(asked, timeout=5) as answer:
                return json.load(answer).get("active") is True
        except (OSError, ValueError):
            raise Refused(503, "temporarily_unavailable", "Postern cannot be asked whether the session lives") from None


def require(claims: Claims | None, *scopes: str, max_age: int | None = None, two_factors: bool = False) -> None:
    """Each of the scopes, and each of the other conditions, must hold. Raises `Refused`; its challenge asks for a step-up."""
    if claims is None:
        raise Refused(401)
    if not set(scopes) <= set(str(claims.get("scope", "")).split()):
        raise Refused(403, "insufficient_scope", "the token lacks a scope", scope=" ".join(scopes))
    is_old = max_age is not None and time.time() - claims.get("auth_time", 0) > max_age
    if is_old or (two_factors and claims.get("acr") != TWO_FACTORS):
        wanted = {"max_age": str(max_age) if max_age is not None else "", "acr_values": TWO_FACTORS if two_factors else ""}
        raise Refused(401, "insufficient_user_authentication", "sign in again", **wanted)
