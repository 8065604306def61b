"""The providers of our presets on loopback, each with what its published documents say of it, and nothing more than that."""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Any, Final
from urllib.parse import unquote_plus, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ops.stand_ins.fake_providers import FakeProvider, Issued

TEAM: Final = "TEAM123456"
KEY_ID: Final = "KEY1234567"
APPLE_KEY: Final = ec.generate_private_key(ec.SECP256R1())
APPLE_PEM: Final = APPLE_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@dataclass
class FakeApple(FakeProvider):
    """Wants a secret that our key has signed, answers by a form, and tells the name beside the first code alone. The claim about the
    address is a text. It has no endpoint for user info.
    """

    known: set[str] = field(default_factory=set)
    posted: dict[str, str] = field(default_factory=dict)
    secrets: list[dict[str, Any]] = field(default_factory=list)

    def metadata(self) -> dict[str, Any]:
        found = {**super().metadata(), "token_endpoint_auth_methods_supported": ["client_secret_post"]}
        del found["userinfo_endpoint"]
        return {**found, "response_modes_supported": ["query", "fragment", "form_post"]}

    def consent(self, address: str, *, code: str | None = None, **person: Any) -> str:
        back = super().consent(address, code=code, **person)
        assert self.asked["response_mode"] == "form_post"
        _, _, query = back.partition("?")
        self.posted = dict(pair.split("=", 1) for pair in query.split("&"))
        self.posted = {name: unquote_plus(value) for name, value in self.posted.items()}
        told = {**self.person, **person}
        if "code" in self.posted and told["sub"] not in self.known:
            self.known.add(told["sub"])
            name = {"firstName": "Ada", "lastName": "Lovelace"}
            self.posted["user"] = json.dumps({"name": name, "email": told.get("email", "")})
        return back.partition("?")[0]

    @property
    def form(self) -> bytes:
        return urlencode(self.posted).encode()

    def claims(self, issued: Issued) -> dict[str, Any]:
        told = {name: value for name, value in issued.person.items() if name != "email_verified"}
        return {"iss": self.issuer, "nonce_supported": True, **told, "email_verified": "true"}

    def _is_client(self, form: Mapping[str, str], authorization: str) -> bool:
        secret = form.get("client_secret", "")
        try:
            read = jwt.decode(secret, APPLE_KEY.public_key(), ["ES256"], audience=self.issuer)
        except jwt.InvalidTokenError:
            return False
        self.secrets.append(read)
        right = read["iss"] == TEAM and read["sub"] == self.client_id == form.get("client_id") and read["exp"] - read["iat"] <= 15777000
        return right and jwt.get_unverified_header(secret)["kid"] == KEY_ID and not authorization


@dataclass
class FakeGitLab(FakeProvider):
    """Its ID tokens have the address. The name is at the user info alone."""

    def metadata(self) -> dict[str, Any]:
        return {**super().metadata(), "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"]}

    def claims(self, issued: Issued) -> dict[str, Any]:
        person = issued.person
        told = {name: person[name] for name in ("sub", "email", "email_verified") if name in person}
        return {"iss": self.issuer, "sub_legacy": "1f" * 32, **told}

    def about(self, path: str, person: Mapping[str, Any]) -> Any:
        return {"name": "Ada Lovelace", "nickname": "ada", **super().about(path, person)}


@dataclass
class FakeLinkedIn(FakeProvider):
    """Its ID tokens have no nonce."""

    def metadata(self) -> dict[str, Any]:
        return {**super().metadata(), "token_endpoint_auth_methods_supported": ["client_secret_post"]}

    def id_token(self, issued: Issued) -> str:
        self.wrong = {"nonce": None, "auth_time": None, **self.wrong}
        return super().id_token(issued)

    def claims(self, issued: Issued) -> dict[str, Any]:
        return {"iss": self.issuer, "name": "Ada Lovelace", "locale": "en_US", **issued.person}


@dataclass
class FakeSlack(FakeProvider):
    """Answers with `ok`, and refuses with status 200."""

    def metadata(self) -> dict[str, Any]:
        return {
            **super().metadata(),
            "userinfo_endpoint": f"{self.url}/api/openid.connect.userInfo",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        }

    def tokens(self, issued: Issued) -> dict[str, Any]:
        return {"ok": True, **super().tokens(issued)}

    def refused(self) -> tuple[int, Any]:
        return 200, {"ok": False, "error": "invalid_grant"}

    def claims(self, issued: Issued) -> dict[str, Any]:
        return {"iss": self.issuer, "https://slack.com/user_id": "U1", "https://slack.com/team_id": "T1", **issued.person}

    def about(self, path: str, person: Mapping[str, Any]) -> Any:
        return {"ok": True, "name": "Ada Lovelace", **super().about(path, person)}


@dataclass
class FakeProfiles(FakeProvider):
    """OAuth 2.0 without ID tokens. The profile is what the person says."""

    at: str = "/profile"

    def about(self, path: str, person: Mapping[str, Any]) -> Any:
        assert path == self.at, path
        return dict(person)

    def tokens(self, issued: Issued) -> dict[str, Any]:
        access = f"access-{token_urlsafe(16)}"
        self.bearers[access] = issued.person
        return {"access_token": access, "token_type": "bearer", "expires_in": self.lifetime}

    def _is_client(self, form: Mapping[str, str], authorization: str) -> bool:
        if authorization.startswith("Basic "):
            name, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            return (name, secret) == (self.client_id, self.client_secret)
        return (form.get("client_id"), form.get("client_secret")) == (self.client_id, self.client_secret)


@dataclass
class FakeDiscord(FakeProfiles):
    """The user object says by `verified` whether the address is verified."""

    at: str = "/api/v10/users/@me"

    def tokens(self, issued: Issued) -> dict[str, Any]:
        return {**super().tokens(issued), "token_type": "Bearer", "scope": issued.scope, "refresh_token": token_urlsafe(16)}


@dataclass
class FakeFacebook(FakeProfiles):
    """Not everybody there has an address."""

    at: str = "/v21.0/me"
