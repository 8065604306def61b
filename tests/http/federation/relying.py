"""Applications of acme and globex, of each kind of client, and their requests to the token endpoint and related endpoints."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from jwt.algorithms import ECAlgorithm
from psycopg.types.json import Jsonb

from core.domain.federation.oauth.authorization_codes import ApprovedAuthorization
from core.domain.identifiers import ServiceId, SessionId, UserId
from core.domain.secrets import Token
from tests.http.cast import Neighbours
from tests.http.client import Pairs, Received
from tests.http.people import BASE_URL, Person
from tests.http.tenants import Tenant, UsedService

CALLBACK: Final = "https://app.example/callback"
VERIFIER: Final = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE: Final = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
TOKEN: Final = "/auth/token"
INTROSPECT: Final = "/oauth/introspect"
REVOKE: Final = "/auth/revoke"
USERINFO: Final = "/oauth/userinfo"
JWT_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_KEY: Final[EllipticCurvePrivateKey] = generate_private_key(SECP256R1())


@dataclass(frozen=True, slots=True)
class Application:
    """A service, with its client's credentials."""

    service: UsedService
    client_id: str
    secret: str | None = None

    @property
    def basic(self) -> Pairs:
        return (basic(self.client_id, self.secret or ""),)

    @property
    def posted(self) -> Mapping[str, str]:
        """The client's credentials as fields of the body."""
        return {"client_id": self.client_id} if self.secret is None else {"client_id": self.client_id, "client_secret": self.secret}


class Relying(Neighbours):
    """`shop` has a secret, `page` is a public web application, `phone` is mobile; `theirs` is globex's shop. Ada is a member nowhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shop = self.application(self.acme, "shop", secret=True)
        self.page = self.application(self.acme, "page")
        self.phone = self.application(self.acme, "phone", "mobile")
        self.theirs = self.application(self.globex, "shop", secret=True)
        self.ada = self.speaker = self.people.add("ada@example.org")
        self.people.change("update users set email_verified_at = now() where id = %s", self.ada.user)

    def application(self, tenant: Tenant, slug: str, service_type: str = "web", *, secret: bool = False) -> Application:
        service = self.tenants.service(tenant, slug, service_type)
        self.people.change("update services set redirect_uris = %s where id = %s", [CALLBACK], service.id)
        (row,) = self.people.rows("select client_id from services where id = %s", service.id)
        return Application(service, str(row["client_id"]), self.secret_of(service) if secret else None)

    def secret_of(self, service: UsedService) -> str:
        text = self.postern.foundation.secrets.key("cs")
        self.log.remember(text.reveal())
        self.people.change(
            "insert into client_secrets (id, service_id, prefix, digest, created_at) values (%s, %s, 'cs', %s, now())",
            self.postern.foundation.ids.new(),
            service.id,
            text.digest(),
        )
        return text.reveal()

    def keyed(self, application: Application, *, kid: str | None = None) -> Application:
        """Lets the application authenticate by assertions that `_KEY` signs."""
        jwk = json.loads(ECAlgorithm.to_jwk(_KEY.public_key()))
        keys = {"keys": [{name: jwk[name] for name in ("kty", "crv", "x", "y")} | ({} if kid is None else {"kid": kid})]}
        self.people.change("update services set jwks = %s where id = %s", Jsonb(keys), application.service.id)
        return application

    async def code(
        self,
        application: Application,
        person: Person | None = None,
        *,
        scopes: str = "openid email",
        challenge: str | None = CHALLENGE,
        nonce: str | None = "n-0S6_WzA2Mj",
        redirect_uri: str = CALLBACK,
        auth_time: datetime | None = None,
        amr: tuple[str, ...] = ("pwd",),
    ) -> str:
        """A code as the authorization endpoint issues it, from the person's session, with the person's consent."""
        person = person or self.ada
        self.people.change(
            "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, %s, now())"
            " on conflict (user_id, service_id) do update set scopes = consents.scopes || excluded.scopes",
            person.user,
            application.service.id,
            scopes.split(),
        )
        approved = ApprovedAuthorization(
            service=ServiceId(application.service.id),
            user=UserId(person.user),
            parent=SessionId(person.session),
            redirect_uri=redirect_uri,
            code_challenge=challenge,
            nonce=nonce,
            scopes=tuple(scopes.split()),
            auth_time=auth_time or self.postern.foundation.clock.now() - timedelta(minutes=5),
            authenticated_by=amr,
        )
        (registered,) = self.people.rows("select redirect_uris from all_services where id = %s", application.service.id)
        async with self.postern.foundation.unit_of_work() as uow:
            code = await self.postern.federation.authorization_codes.issue(uow, approved, registered["redirect_uris"])
            await uow.commit()
        self.log.remember(code.reveal())
        return code.reveal()

    async def ask(self, path: str = TOKEN, fields: Mapping[str, str] | None = None, headers: Pairs = ()) -> Received:
        """Sends the request as a form."""
        body = urlencode(fields or {}).encode()
        return await self.client.request("POST", path, body=body, headers=[FORM, *headers])

    async def redeem(self, application: Application, code: str, /, **changed: str | None) -> Received:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            **application.posted,
            **changed,
        }
        return await self.ask(fields={name: value for name, value in fields.items() if value is not None})

    async def signed_in(self, application: Application, person: Person | None = None, *, scopes: str = "openid email") -> dict[str, Any]:
        tokens = (await self.redeem(application, await self.code(application, person, scopes=scopes))).ok()
        for name in ("access_token", "refresh_token", "id_token"):
            if name in tokens:
                self.log.remember(tokens[name])
        return tokens

    def kept(self, tokens: dict[str, Any]) -> dict[str, Any]:
        self.log.remember(*(tokens[name] for name in ("access_token", "refresh_token", "id_token") if name in tokens))
        return tokens

    async def refresh(self, application: Application, token: str, **fields: str) -> Received:
        return await self.ask(fields={"grant_type": "refresh_token", "refresh_token": token, **application.posted, **fields})

    async def introspect(self, application: Application, token: str) -> dict[str, Any]:
        return (await self.ask(INTROSPECT, {"token": token}, application.basic)).ok()

    async def userinfo(self, token: str) -> Received:
        return await self.client.get(USERINFO, token=token)

    def living(self) -> int:
        """The living sessions of applications."""
        (row,) = self.people.rows("select count(*) as n from sessions where scopes is not null and revoked_at is null")
        return int(row["n"])

    def assertion(self, application: Application, **changed: Any) -> str:
        now = int(self.postern.foundation.clock.now().timestamp())
        header = changed.pop("header", {})
        key = changed.pop("key", _KEY)
        claims = {
            "iss": application.client_id,
            "sub": application.client_id,
            "aud": f"{BASE_URL}{TOKEN}",
            "exp": now + 60,
            "iat": now,
            "jti": str(self.postern.foundation.ids.new()),
            **changed,
        }
        return jwt.encode({name: value for name, value in claims.items() if value is not None}, key, "ES256", header)


FORM: Final = ("content-type", "application/x-www-form-urlencoded")


def basic(name: str, secret: str) -> tuple[str, str]:
    pair = f"{quote_plus(name)}:{quote_plus(secret)}"
    return "authorization", f"Basic {b64encode(pair.encode()).decode()}"


def oauth(answer: Received) -> tuple[int, str]:
    """OAuth's error code of a refusal, which has an error in both vocabularies, OAuth's and ours."""
    body = answer.json()
    assert set(body) == {"error", "error_description", "error_code", "timestamp"}, body
    assert answer.header("cache-control") == "no-store"
    return answer.status, body["error"]


def claims_of(token: str) -> dict[str, Any]:
    read: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return read


def opaque(text: str) -> Token:
    return Token(text)
