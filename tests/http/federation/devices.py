"""Television sets that are devices of acme's services, and their requests and those of their people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.domain.federation.oauth.device_flow import EnteredCode
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client as Sender
from core.domain.mail import Email
from tests.http.client import Client, Received
from tests.http.federation.relying import Application, Relying
from tests.http.people import Person

CODE: Final = "/auth/device/code"
VERIFY: Final = "/auth/device/verify"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
TV: Final = "AcmeTV/7.2"
BROWSER: Final = Sender("198.51.100.7", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")


@dataclass(frozen=True, slots=True)
class Codes:
    application: Application
    told: Mapping[str, Any]

    @property
    def device_code(self) -> str:
        return str(self.told["device_code"])

    @property
    def user_code(self) -> str:
        return str(self.told["user_code"])


class Sets(Relying):
    """`tv` is a public client, `box` keeps a secret; Ada has one at home."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tv = self.application(self.acme, "tv", "desktop")
        self.box = self.application(self.acme, "box", secret=True)

    async def ask_for_codes(self, application: Application | None = None, *, client: Client | None = None, **fields: str) -> Codes:
        application = application or self.tv
        body = {"client_id": application.client_id, "org": "acme", "service": application.service.slug, **fields}
        answer = await (client or self.client).post(CODE, body, headers=[("user-agent", TV)])
        told = answer.ok()
        assert answer.header("cache-control") == "no-store"
        self.log.remember(told["device_code"], told["user_code"])
        return Codes(application, told)

    async def poll(self, codes: Codes, **fields: str) -> Received:
        """Polls as the set does: with the device code, and with the client's secret if there is one."""
        secret = {} if codes.application.secret is None else codes.application.posted
        return await self.client.post("/auth/token", {"device_code": codes.device_code, **secret, **fields}, headers=[("user-agent", TV)])

    def caller(self, person: Person | None = None) -> Caller:
        """The person as a caller, in their browser."""
        person = person or self.ada
        return Caller(UserId(person.user), Email(person.email), SessionId(person.session), is_platform_owner=False)

    async def entered(self, codes: Codes) -> EnteredCode:
        found, _ = await self.postern.federation.device_flow.find_entered(codes.user_code)
        return found

    async def approve(self, codes: Codes, person: Person | None = None) -> EnteredCode:
        found = await self.entered(codes)
        return await self.postern.federation.device_flow.approve(found.id, self.caller(person), BROWSER)

    async def deny(self, codes: Codes, person: Person | None = None) -> EnteredCode:
        found = await self.entered(codes)
        return await self.postern.federation.device_flow.deny(found.id, self.caller(person), BROWSER)

    async def let_in(self, codes: Codes) -> dict[str, Any]:
        await self.approve(codes)
        return self.kept((await self.poll(codes)).ok())

    def expire(self) -> None:
        """Lets all waiting codes expire: they were issued long enough ago."""
        self.people.change("update device_codes set expires_at = now()")

    def rest(self, seconds: float = 60) -> None:
        """Makes the last poll old enough for the next one."""
        self.people.change("update device_codes set polled_at = polled_at - %s * interval '1 second'", seconds)
