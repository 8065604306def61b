"""Acme's APIs, and applications that ask for tokens to them: by a browser, by the token endpoint, for themselves and for devices."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.http.browsing import Tab, Tabs
from tests.http.client import Received
from tests.http.federation.arriving import AUTHORIZE, left, told
from tests.http.federation.relying import CALLBACK, CHALLENGE, Application, Relying
from tests.http.people import Person
from tests.http.tenants import Tenant

ORDERS: Final = "https://api.acme.example/orders"
BILLS: Final = "https://api.acme.example/bills"
SCOPES: Final = (
    {"name": "orders:read", "description": "See your orders"},
    {"name": "orders:write", "description": "Order in your name"},
)
_COOKIE: Final = "__Host-postern_session"


class Asking(Relying):
    """`shop` may ask for acme's APIs. `desk` stands for them, and `other` is one more service of acme."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.desk = self.application(self.acme, "desk", secret=True)
        self.other = self.application(self.acme, "other", secret=True)

    def api(self, identifier: str = ORDERS, tenant: Tenant | None = None, /, scopes: Sequence[Any] = SCOPES, **columns: Any) -> UUID:
        api = self.postern.foundation.ids.new()
        tenant = tenant or self.acme
        host = identifier.split("/")[2].partition(":")[0]
        stands = self.desk.service.id if tenant == self.acme else None
        self.people.change(
            "insert into resource_servers (id, org_id, identifier, domain, name, service_id, admits, scopes, token, approved_at,"
            " created_at, updated_at) values (%s, %s, %s, %s, 'Orders', %s, 'all', %s, 't', now(), now(), now())",
            *(api, tenant.id, identifier, host, stands, Jsonb([{"permission": None, **scope} for scope in scopes])),
        )
        for column, value in columns.items():
            self.people.change(f"update resource_servers set {column} = %s where id = %s", value, api)
        return api

    def address(self, application: Application | None = None, *resources: str, **changed: Any) -> str:
        application = application or self.shop
        fields = {
            "client_id": application.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid orders:read orders:write",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changed,
        }
        named = [("resource", resource) for resource in resources or (ORDERS,)]
        return f"{AUTHORIZE}?{urlencode([*fields.items(), *named])}"

    def browser(self, person: Person | None = None, *, age: float = 0, amr: str = "{pwd}") -> Tabs:
        """A browser in which the person signed in `age` seconds ago."""
        person = self.people.session_of(person or self.ada)
        tabs = Tabs(self.client)
        token = self.postern.foundation.secrets.token()
        self.people.change(
            "update sessions set authenticated_by = %s, proved_at = now() - %s * interval '1 second' where id = %s",
            *(amr, age, person.session),
        )
        self.people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", token.digest(), person.session)
        tabs.cookies[_COOKIE] = token.reveal()
        return tabs

    async def asked(self, *resources: str, person: Person | None = None, application: Application | None = None, **changed: Any) -> Tab:
        """The page that asks for consent."""
        return await self.browser(person).tab().open(self.address(application, *resources, **changed))

    async def allowed(self, *resources: str, person: Person | None = None, application: Application | None = None, **changed: Any) -> str:
        """The code, after the person has left everything ticked, if they are asked."""
        tab = await self.asked(*resources, person=person, application=application, **changed)
        if tab.place.startswith("/ui/consent"):
            return left(await tab.send(answer="allow"), CALLBACK)["code"]
        return told(tab.shown, CALLBACK)["code"]

    async def tokens(self, *resources: str, application: Application | None = None, **changed: Any) -> dict[str, Any]:
        code = await self.allowed(*resources, application=application, **changed)
        return self.kept((await self.redeem(application or self.shop, code)).ok())

    async def own(self, application: Application | None = None, **fields: str) -> Received:
        return await self.ask(fields={"grant_type": "client_credentials", **(application or self.shop).posted, **fields})
