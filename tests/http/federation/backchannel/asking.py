"""Requests from afar of acme's agent `helper` and its application `shop`. Ada is an own member of acme."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from core.domain.federation.backchannel_requests import BackchannelNotice
from core.domain.identifiers import BackchannelRequestId
from core.domain.mail import Mail
from tests.http.client import Received
from tests.http.federation.relying import TOKEN, Application
from tests.http.federation.resources.agents import ORDERS, READ, Agents
from tests.http.people import Person

ASK: Final = "/oauth/bc-authorize"
CIBA: Final = "urn:openid:params:grant-type:ciba"
REQUESTS: Final = "/api/user/requests"
BLOCKED: Final = "/api/user/blocked-clients"
RULES: Final = "/api/organizations/acme/sign-in-rules"
BOTH: Final = "orders:read orders:write"


class Afar(Agents):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.tenants.join(self.ada, self.acme)
        self.orders = self.api()
        self.owner = self.resident(self.acme, "owner")

    async def turn(self, rule: str) -> None:
        (await self.request("PATCH", RULES, {"afar_requests": rule}, by=self.owner)).ok()

    async def send(self, application: Application | None = None, **changed: str | None) -> Received:
        application = application or self.helper
        fields = {
            "login_hint": self.ada.email,
            "scope": BOTH,
            "resource": ORDERS,
            "binding_message": "Invoice 4711",
            **application.posted,
            **changed,
        }
        return await self.ask(ASK, {name: value for name, value in fields.items() if value is not None})

    async def requested(self, application: Application | None = None, **changed: str | None) -> str:
        told = (await self.send(application, **changed)).ok()
        assert set(told) == {"auth_req_id", "expires_in", "interval"}
        self.log.remember(told["auth_req_id"])
        return str(told["auth_req_id"])

    async def poll(self, request: str, application: Application | None = None, **changed: str) -> Received:
        fields = {"grant_type": CIBA, "auth_req_id": request, **(application or self.helper).posted, **changed}
        return await self.ask(TOKEN, fields)

    async def waiting(self, person: Person | None = None) -> list[dict[str, Any]]:
        return list((await self.request("GET", REQUESTS, by=person or self.ada)).ok()["requests"])

    async def allow(self, person: Person | None = None, **body: Any) -> Received:
        """The person allows the newest request that waits for them."""
        newest = (await self.waiting(person))[-1]
        return await self.request("POST", f"{REQUESTS}/{newest['id']}/allow", body, by=person or self.ada)

    async def fetched(self, application: Application | None = None, **changed: str | None) -> dict[str, Any]:
        """Those of a request that the person has just allowed."""
        request = await self.requested(application, **changed)
        assert (await self.allow()).status == 204
        return self.kept((await self.poll(request, application)).ok())

    async def tell(self) -> list[bool]:
        """Does the work that mails people. Returns of each request whether a mail was queued."""
        rows = self.people.rows("select id from afar_requests order by id")
        requests = self.postern.federation.afar_requests
        return [await requests.tell(BackchannelNotice(request=BackchannelRequestId(UUID(str(row["id"]))))) for row in rows]

    async def mails(self) -> list[Mail]:
        """The mails that wait to be sent."""
        return [Mail.of_job(job.payload) for job in await self.postern.foundation.jobs.claim(["mail"], 20, timedelta(minutes=1))]

    def rest(self) -> None:
        """Makes the last polls old enough for the next ones."""
        self.people.change("update afar_requests set polled_at = polled_at - interval '1 minute'")

    def expire(self) -> None:
        self.people.change("update afar_requests set expires_at = now()")


__all__ = ["ORDERS", "READ", "Afar"]
