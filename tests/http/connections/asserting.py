"""A directory that lets its people's applications in: acme's own provider issues identity assertions for `shop` and acme's API."""

import json
from time import time
from typing import Any, Final
from uuid import UUID, uuid4

import jwt
from psycopg.types.json import Jsonb

from ops.stand_ins.fake_providers import KEY, FakeProvider, public_jwk
from tests.http.client import Received
from tests.http.federation.relying import Application
from tests.http.federation.resources.asking import ORDERS, Asking
from tests.http.people import BASE_URL, Person
from tests.http.tenants import Tenant

GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TYPE: Final = "oauth-id-jag+jwt"
PROVIDERS: Final = "/api/organizations/acme/upstream-providers"


class Asserting(Asking):
    """Ada is a member of acme, and acme's directory knows her as `u-1`."""

    def begin(self, directory: FakeProvider) -> "Asserting":
        self.directory = directory
        self.boss = self.resident(self.acme, "owner", "boss")
        self.prove(self.acme, "example.org")
        self.tenants.join(self.ada, self.acme)
        self.api_id = self.api()
        self.provider = self.connect(self.acme, directory)
        self.know(self.ada)
        return self

    def prove(self, tenant: Tenant, domain: str) -> None:
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (%s, %s, %s, 'token', now(), now() + interval '7 days', now(), now())",
            *(self.postern.foundation.ids.new(), tenant.id, domain),
        )

    def connect(self, tenant: Tenant, directory: FakeProvider, *, name: str = "Acme login", issues: bool = True) -> UUID:
        """A connection by OpenID Connect that is active, was tested, and issues assertions."""
        provider = self.postern.foundation.ids.new()
        self.people.change(
            "insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at,"
            " updated_at, issues_assertions) values (%s, %s, %s, %s, 'c', 's', '{}', true, now(), now(), %s)",
            *(provider, tenant.id, name, directory.issuer, issues),
        )
        return provider

    def know(self, person: Person, subject: str = "u-1", provider: UUID | None = None, issuer: str | None = None) -> None:
        provider = provider or self.provider
        self.people.change(
            "insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, linked_at)"
            " values (%s, %s, %s, %s, %s, %s, '', now())",
            *(self.postern.foundation.ids.new(), person.user, str(provider), provider, issuer or self.directory.issuer, subject),
        )

    def claims(self, application: Application | None = None, **changed: Any) -> dict[str, Any]:
        now = int(time())
        claims = {
            "iss": self.directory.issuer,
            "sub": "u-1",
            "aud": BASE_URL,
            "client_id": (application or self.shop).client_id,
            "jti": str(uuid4()),
            "iat": now,
            "exp": now + 300,
            "resource": ORDERS,
            "scope": "orders:read orders:write",
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def assertion(self, application: Application | None = None, **changed: Any) -> str:
        headers = {"kid": "one", "typ": TYPE}
        return jwt.encode(self.claims(application, **changed), KEY, algorithm="RS256", headers=headers)

    async def bring(self, assertion: str, application: Application | None = None, **fields: str) -> Received:
        return await self.ask(fields={"grant_type": GRANT, "assertion": assertion, **(application or self.shop).posted, **fields})

    async def token(self, **changed: Any) -> str:
        """The token for an assertion that is good."""
        token: str = (await self.bring(self.assertion(**changed))).ok()["access_token"]
        self.log.remember(token)
        return token

    async def lives(self, token: str) -> bool:
        return bool((await self.introspect(self.desk, token))["active"])

    async def faults(self) -> list[tuple[str, int]]:
        """The faults that the recorder of the connection has counted."""
        await self.recorded()
        rows = self.people.rows("select fault, times from connection_exchanges where kind = 'assertion' order by fault")
        return [(one["fault"], one["times"]) for one in rows]

    async def recorded(self) -> None:
        """What was recorded is stored."""
        for recorder in (self.postern.identity.connection_recorder, self.postern.federation.refusal_recorder):
            await recorder._gather_all()
            await recorder._write()


def pasted() -> Jsonb:
    return Jsonb({"keys": [json.loads(json.dumps(public_jwk("one", KEY)))]})
