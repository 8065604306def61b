"""Acme's services that call one another in Ada's name: `shop` has her token for the orders of `desk`, `desk` may exchange it for one for
the bills of `other`, and `other` for one for the stock of `store`.
"""

from typing import Any, Final
from uuid import UUID

from core.domain.federation.oauth.exchanges import ACCESS_TOKEN_TYPE
from core.domain.federation.oauth.grants import TOKEN_EXCHANGE
from tests.http.client import Received
from tests.http.federation.relying import Application
from tests.http.federation.resources.asking import BILLS, ORDERS, Asking

STOCK: Final = "https://api.acme.example/stock"
DEPOT: Final = "https://api.acme.example/depot"
_SCOPES: Final = {
    BILLS: ({"name": "bills:read", "description": "See your bills"}, {"name": "bills:pay", "description": "Pay your bills"}),
    STOCK: ({"name": "stock:read", "description": "See the stock"},),
    DEPOT: (),
}


class Exchanging(Asking):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.store = self.application(self.acme, "store", secret=True)
        self.orders = self.api(admits="all")
        self.bills = self._called(BILLS, self.other, self.desk)
        self.stock = self._called(STOCK, self.store, self.other)
        self.depot = self._called(DEPOT, self.page, self.store)

    def _called(self, identifier: str, stands: Application, exchanger: Application) -> UUID:
        """An API that no application may ask for."""
        api = self.api(identifier, scopes=_SCOPES[identifier], service_id=stands.service.id, admits="named")
        self.exchangers(api, exchanger)
        return api

    def exchangers(self, api: UUID, *applications: Application) -> None:
        """Exactly these may exchange tokens towards the API."""
        self.people.change("delete from resource_exchanges where resource_id = %s", api)
        for application in applications:
            self.people.change(
                "insert into resource_exchanges (id, resource_id, service_id) values (gen_random_uuid(), %s, %s)",
                *(api, application.service.id),
            )

    async def subject(self, **changed: Any) -> str:
        """Ada's token for the orders."""
        return str((await self.tokens(ORDERS, **changed))["access_token"])

    async def exchange(self, application: Application, token: str, resource: str = BILLS, /, **changed: str | None) -> Received:
        fields = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": token,
            "subject_token_type": ACCESS_TOKEN_TYPE,
            "resource": resource,
            **application.posted,
            **changed,
        }
        return await self.ask(fields={name: value for name, value in fields.items() if value is not None})

    async def exchanged(self, application: Application, token: str, resource: str = BILLS, /, **changed: str | None) -> str:
        """The new token."""
        return str(self.kept((await self.exchange(application, token, resource, **changed)).ok())["access_token"])

    async def is_active(self, application: Application, token: str) -> bool:
        return bool((await self.introspect(application, token))["active"])
