"""A trusted issuer on loopback, as a cluster and build systems have one, and workloads that show its tokens."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric import rsa
from jwt import api_jws
from jwt.algorithms import RSAAlgorithm

from tests.http.client import Received
from tests.http.federation.relying import Application, Relying
from tests.http.people import BASE_URL, Person
from tests.receiver import Answer, Call, Receiver, answering, receiving

GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
STRANGERS_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SUBJECT: Final = "repo:acme/shop:ref:refs/heads/main"


def public_jwk(key: Any = KEY, kid: str = "a") -> dict[str, Any]:
    made = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    return {"kty": "RSA", "n": made["n"], "e": made["e"], "kid": kid, "alg": "RS256", "use": "sig"}


class Issuer:
    """Serves its discovery document and its keys."""

    def __init__(self, relying: Relying, receiver: Receiver) -> None:
        self.relying = relying
        self.receiver = receiver
        self.keys = [public_jwk()]
        self.owner = relying.resident(relying.acme, "owner")
        receiver.answer = self._answer

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    @property
    def jwks_uri(self) -> str:
        return f"{self.address}/keys"

    async def _answer(self, stream: Any, call: Call) -> bool:
        documents: Mapping[str, Any] = {
            "/.well-known/openid-configuration": {"issuer": self.address, "jwks_uri": self.jwks_uri},
            "/keys": {"keys": self.keys},
        }
        answer: Answer = answering(404)
        if call.target in documents:
            answer = answering(200, json.dumps(documents[call.target]).encode(), "content-type: application/json")
        return await answer(stream, call)

    def token(self, *, key: Any = KEY, header: Mapping[str, Any] | None = None, algorithm: str = "RS256", **changed: Any) -> str:
        """A change to `...` leaves the claim out."""
        now = int(self.relying.postern.foundation.clock.now().timestamp())
        claims = {"iss": self.address, "sub": SUBJECT, "aud": BASE_URL, "iat": now, "nbf": now, "exp": now + 300, "jti": "one", **changed}
        kept = {name: value for name, value in claims.items() if value is not ...}
        text = api_jws.encode(json.dumps(kept).encode(), key, algorithm, {"kid": "a", "typ": "JWT", **(header or {})})
        self.relying.log.remember(text)
        return text

    def rule(self, **changed: Any) -> dict[str, Any]:
        """The body of a new trusted issuer of the shop."""
        wanted = {
            "name": "Deploy",
            "service_slug": "shop",
            "issuer": self.address,
            "audience": BASE_URL,
            "jwks_uri": self.jwks_uri,
            "subject_pattern": SUBJECT,
            **changed,
        }
        return {name: value for name, value in wanted.items() if value is not ...}

    async def trusted(self, *, by: Person | None = None, slug: str = "acme", **changed: Any) -> dict[str, Any]:
        owner = by or self.owner
        path = f"/api/organizations/{slug}/trusted-issuers"
        made: dict[str, Any] = (await self.relying.request("POST", path, self.rule(**changed), by=owner)).ok(201)
        return made

    async def asks(self, assertion: str | None, client: str | Application | None = None, **fields: str) -> Received:
        named = self.relying.shop.client_id if client is None else client.client_id if isinstance(client, Application) else client
        sent = {"grant_type": GRANT, "client_id": named, **({} if assertion is None else {"assertion": assertion}), **fields}
        return await self.relying.ask(fields=sent)

    def key(self, *capabilities: str, maker: Person | None = None) -> tuple[str, UUID]:
        """A management key of acme, and its id."""
        text = self.relying.tenants.management_key(self.relying.acme, maker or self.owner, capabilities)
        (row,) = self.relying.people.rows("select id from management_keys order by created_at desc, id desc limit 1")
        return text, row["id"]


@asynccontextmanager
async def issuing(relying: Relying) -> AsyncIterator[Issuer]:
    async with receiving(answering(404)) as receiver:
        yield Issuer(relying, receiver)
