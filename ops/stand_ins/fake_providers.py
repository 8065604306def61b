"""The 3 social providers, and any other OpenID Connect provider, on loopback, written from the protocols that the providers publish."""

import json
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from time import sleep, time
from typing import Any, ClassVar, Final, Self
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CONSUMERS: Final = "9188040d-6c67-4c5b-b112-36a304b66dad"
WORK: Final = "72f988bf-86f1-41af-91ab-2d7cd011db47"
KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Issued:
    """The request for which a code was made."""

    client_id: str
    redirect_uri: str
    challenge: str
    nonce: str
    scope: str
    person: Mapping[str, Any]
    offline: bool
    prompt: str = ""
    used: bool = False


@dataclass
class FakeProvider:
    """`consent` acts for the user at the provider: it reads the URL that we redirect the browser to, as the provider would, and returns the
    URL to which the provider redirects back. A test that wants a wrong answer sets that answer.

    `person` is the user who sits at the provider. `wrong` alters the claims of ID tokens, and `key` signs the tokens.
    """

    prompts: ClassVar[frozenset[str]] = frozenset({"login", "none"})
    """An independent server's defaults. Others that it may be asked for are features to be turned on."""
    client_id: str = "client"
    client_secret: str = "fake-provider-secret-5d1f"
    person: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, Any] = field(default_factory=dict)
    says_when: bool = True
    """Whether ID tokens say when the person signed in: just now, unless `wrong` says otherwise."""
    key: Any = KEY
    kid: str = "one"
    algorithm: str = "RS256"
    published: list[Any] = field(default_factory=list)
    lifetime: int = 3600
    fails: bool = False
    slow: float = 0.0
    refuses_refresh: bool = False
    calls: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, Issued] = field(default_factory=dict)
    refreshes: dict[str, Issued] = field(default_factory=dict)
    bearers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.published = self.published or [public_jwk("one", KEY)]

    def __enter__(self) -> Self:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(provider.get(urlsplit(self.path).path, self.headers.get("authorization", "")))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                path = urlsplit(self.path).path
                self._answer(provider.post(path, dict(parse_qsl(body)), self.headers.get("authorization", "")))

            def _answer(self, answer: tuple[int, Any]) -> None:
                status, value = answer
                content = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def issuer(self) -> str:
        return self.url

    # The person at the provider.

    def consent(self, address: str, *, code: str | None = None, **person: Any) -> str:
        """The path and query of ours to which the provider sends the browser back. An unknown prompt gives an error."""
        assert address.startswith(f"{self.url}/authorize?"), address
        asked = self.asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["client_id"] == self.client_id
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        if not self.prompts.issuperset(asked.get("prompt", "").split()):
            return self.back(asked, error="invalid_request")
        made = code or token_urlsafe(20)
        self.codes[made] = Issued(
            asked["client_id"],
            asked["redirect_uri"],
            asked["code_challenge"],
            asked.get("nonce", ""),
            asked["scope"],
            {**self.person, **person},
            asked.get("access_type") == "offline" or "offline_access" in asked["scope"].split(),
            asked.get("prompt", ""),
        )
        return self.back(asked, code=made)

    @staticmethod
    def back(asked: Mapping[str, str], **fields: str) -> str:
        parts = urlsplit(asked["redirect_uri"])
        return f"{parts.path}?{urlencode({**fields, 'state': asked['state']})}"

    # The provider's endpoints.

    def get(self, path: str, authorization: str) -> tuple[int, Any]:
        self.calls.append(path)
        if self.fails:
            return 503, {"message": "secret words of the provider"}
        if path == "/keys":
            return 200, {"keys": self.published}
        if path == "/.well-known/openid-configuration":
            return 200, self.metadata()
        person = self.bearers.get(authorization.removeprefix("Bearer "))
        if person is None:
            return 401, {"message": "Bad credentials"}
        return 200, self.about(path, person)

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
        }

    def about(self, path: str, person: Mapping[str, Any]) -> Any:  # noqa: ARG002 - for those with several
        return {name: person[name] for name in ("sub", "email", "email_verified") if name in person}

    def post(self, path: str, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        self.calls.append(f"{path} {form.get('grant_type')}")
        self.forms.append(form)
        if self.slow:
            sleep(self.slow)
        if self.fails:
            return 500, {"error": "server_error", "error_description": "secret words of the provider"}
        if not self._is_client(form, authorization):
            return 401, {"error": "invalid_client"}
        if form.get("grant_type") == "refresh_token":
            return self._refresh(form)
        issued = self.codes.get(form.get("code", ""))
        verifier = urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        if issued is None or issued.used or issued.redirect_uri != form.get("redirect_uri") or issued.challenge != verifier:
            return self.refused()
        issued.used = True
        return 200, self.tokens(issued)

    def refused(self) -> tuple[int, Any]:
        return 400, {"error": "invalid_grant", "error_description": "secret words of the provider"}

    def tokens(self, issued: Issued) -> dict[str, Any]:
        access = f"access-{token_urlsafe(16)}"
        self.bearers[access] = issued.person
        given: dict[str, Any] = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "scope": issued.scope,
            "id_token": self.id_token(issued),
        }
        if issued.offline:
            given["refresh_token"] = f"refresh-{token_urlsafe(16)}"
            self.refreshes[given["refresh_token"]] = issued
        return given

    def claims(self, issued: Issued) -> dict[str, Any]:
        return {"iss": self.issuer, **issued.person}

    def id_token(self, issued: Issued) -> str:
        now = int(time())
        when = {"auth_time": now} if self.says_when else {}
        claims = {
            "aud": issued.client_id,
            **when,
            "iat": now,
            "exp": now + 3600,
            "nonce": issued.nonce,
            **self.claims(issued),
            **self.wrong,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        headers = {"kid": self.kid} if self.kid else {}
        if self.algorithm == "none":
            return jwt.encode(claims, "", algorithm="none", headers=headers)
        return jwt.encode(claims, self.key, algorithm=self.algorithm, headers=headers)

    def _refresh(self, form: Mapping[str, str]) -> tuple[int, Any]:
        issued = self.refreshes.pop(form.get("refresh_token", ""), None)
        if issued is None or self.refuses_refresh:
            return self.refused()
        return 200, self.tokens(issued)

    def _is_client(self, form: Mapping[str, str], authorization: str) -> bool:
        if authorization.startswith("Basic "):
            name, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == (self.client_id, self.client_secret)
        return (form.get("client_id"), form.get("client_secret")) == (self.client_id, self.client_secret)


class FakeCodeHost(FakeProvider):
    """`emails` are the person's addresses there; for each the address, and whether the address is primary and verified."""

    prompts = frozenset({"select_account"})

    def about(self, path: str, person: Mapping[str, Any]) -> Any:
        if path == "/user/emails":
            return person["emails"]
        assert path == "/user"
        return {"id": person["id"], "login": person["login"], "email": None, "name": person.get("name")}

    def tokens(self, issued: Issued) -> dict[str, Any]:
        given = super().tokens(issued)
        del given["id_token"]
        given["scope"] = issued.scope.replace(" ", ",")
        if issued.offline or self.lifetime != 3600:
            given["refresh_token"] = f"ghr_{token_urlsafe(16)}"
            self.refreshes[given["refresh_token"]] = issued
        return given

    def refused(self) -> tuple[int, Any]:
        """An error with status 200, as the real code host sends it."""
        return 200, {"error": "bad_verification_code", "error_description": "secret words of the provider"}

    def id_token(self, issued: Issued) -> str:  # noqa: ARG002 - it issues none
        return ""


@dataclass
class FakeWebSuite(FakeProvider):
    """Gives a refresh token only with consent, unless it is `forgetful`: then each sign-in gives one. It asks for consent if the person has
    not allowed these scopes yet, or if the request has `prompt=consent`.
    """

    prompts = frozenset({"none", "consent", "select_account"})

    forgetful: bool = True
    allowed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    asked_for_consent: int = 0

    def tokens(self, issued: Issued) -> dict[str, Any]:
        given = super().tokens(issued)
        allowed, wanted = self.allowed.setdefault((issued.client_id, issued.person["sub"]), set()), set(issued.scope.split())
        consents = "consent" in issued.prompt.split() or not wanted <= allowed
        allowed.update(wanted)
        issued.prompt = ""
        self.asked_for_consent += consents
        if not consents and not self.forgetful:
            given.pop("refresh_token", None)
        return given

    def _refresh(self, form: Mapping[str, str]) -> tuple[int, Any]:
        kept = {} if self.forgetful else dict(self.refreshes)
        answer = super()._refresh(form)
        self.refreshes.update(kept)
        return answer

    def claims(self, issued: Issued) -> dict[str, Any]:
        return {"iss": self.issuer, "azp": issued.client_id, **issued.person}


class FakeOfficeSuite(FakeProvider):
    """One endpoint for all tenants. The issuer of a token names the token's own tenant."""

    prompts = frozenset({"login", "none", "consent", "select_account"})

    def claims(self, issued: Issued) -> dict[str, Any]:
        return {"iss": f"{self.url}/{issued.person['tid']}/v2.0", "ver": "2.0", "sub": "pairwise", **issued.person}


def public_jwk(kid: str, key: rsa.RSAPrivateKey) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    return {**made, "kid": kid, "use": "sig", "alg": "RS256"}


def settings_of(word: str, fake: FakeProvider) -> dict[str, str]:
    prefix = f"POSTERN_{word.upper()}"
    return {
        f"{prefix}_CLIENT_ID": fake.client_id,
        f"{prefix}_CLIENT_SECRET": fake.client_secret,
        f"{prefix}_ISSUER": f"{fake.url}/{{tenantid}}/v2.0" if word == "officesuite" else fake.issuer,
        f"{prefix}_AUTHORIZATION_URL": f"{fake.url}/authorize",
        f"{prefix}_TOKEN_URL": f"{fake.url}/token",
        f"{prefix}_USERINFO_URL": f"{fake.url}/{'user' if word == 'codehost' else 'userinfo'}",
        f"{prefix}_JWKS_URL": f"{fake.url}/keys",
        **({f"{prefix}_EMAILS_URL": f"{fake.url}/user/emails"} if word == "codehost" else {}),
    }


Person = dict[str, Any]
PEOPLE: Final[Mapping[str, Callable[[str, bool], Person]]] = {
    "codehost": lambda email, verified: {
        "id": 583231,
        "login": "ada",
        "emails": [
            {"email": "old@example.net", "primary": False, "verified": True, "visibility": None},
            {"email": email, "primary": True, "verified": verified, "visibility": "private"},
        ],
    },
    "websuite": lambda email, verified: {
        "sub": "110169484474386276334",
        "email": email,
        "email_verified": verified,
        "hd": email.rpartition("@")[2],
    },
    "officesuite": lambda email, verified: {
        "tid": WORK,
        "oid": "00000000-0000-0000-66f3-3332eca7ea81",
        "email": email,
        "xms_edov": verified,
    },
}
"""Somebody with this address, and whether the provider vouches for it."""
