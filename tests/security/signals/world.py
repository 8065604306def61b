"""Ada of the bank, an organization that would like to hear of her, and its receiver."""

from dataclasses import dataclass, field
from typing import Any, Final

from core.domain.record.signals import OFFERED
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.scim.directories import USER, USERS
from tests.http.federation.signals.scene import Signalling, delivery
from tests.http.people import Person
from tests.http.postbox import Postbox
from tests.http.service_interface import USERS as SERVICE_USERS
from tests.http.signing_in import PASSWORD, Browser
from tests.http.subscribing import Market
from tests.http.tenants import Tenant
from tests.receiver import Receiver
from tests.security.accounts.test_account_locks import lock_link

ADA: Final = "ada@bank.example"
NEW_PASSWORD: Final = "the harbour under the moon"
SPIED: Final = "/api/organizations/globex/services/shop/signals"


@dataclass
class ListeningApplication(Signalling):
    """Globex is the attacker's. The bank is Ada's own."""

    bank: Tenant = field(init=False)
    box: Postbox = field(init=False)
    spy: Person = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bank = self.tenants.add("bank")
        self.box = Postbox(self.postern)
        self.spy = self.resident(self.globex, "owner", "spy")

    @property
    def admin(self) -> Person:
        """The person who made the key."""
        return self.spy

    async def spied(self, receiver: Receiver) -> dict[str, Any]:
        """Globex's shop has a stream of everything."""
        body = {"events": [one.value for one in OFFERED], "hosts": ["127.0.0.1"]}
        (await self.request("PUT", SPIED, body, by=self.spy)).ok()
        made: dict[str, Any] = (await self.call("POST", "/ssf/streams", {"delivery": delivery(receiver.port)}, by=self.theirs)).ok(201)
        return made

    async def banker(self) -> Person:
        ada = self.people.session_of(await self.people.with_password(PASSWORD, ADA))
        self.people.change("update users set created_at = now() - interval '1 year', email_verified_at = now() where id = %s", ada.user)
        return self.tenants.join(ada, self.bank)

    async def listed_by_key(self, email: str = ADA) -> Received:
        return await self.by_key("POST", body={"email": email})

    async def by_key(self, method: str, path: str = "", body: Any = None) -> Received:
        """As globex's shop does, with a key."""
        key = Market.key_of(self, self.theirs.service)  # type: ignore[arg-type] # it needs no more of a market than this
        return await self.client.request(method, SERVICE_USERS + path, body=body, headers=[("x-api-key", key)])

    async def listed_by_directory(self) -> Received:
        path = "/api/organizations/globex/scim-tokens"
        token = (await self.request("POST", path, {"name": "x"}, by=self.spy)).ok()["token"]
        return await self.client.request("POST", USERS, body={"schemas": [USER], "userName": ADA}, token=token)

    async def lives(self, ada: Person) -> None:
        """Everything that signals tell of a person: another password, a passkey less, the end of all sessions, a lock, a way back."""
        token = await self.people.token(ada)
        body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
        (await self.client.post("/api/user/change-password", body, token=token)).ok()
        self.people.give_passkey(ada)
        (passkey,) = (await self.client.get("/api/user/passkeys", token=token)).ok()["passkeys"]
        removed = await self.client.request("DELETE", f"/api/user/passkeys/{passkey['id']}", token=token)
        assert removed.status in {200, 204}, removed.body
        (await self.client.post("/api/auth/logout", token=token)).ok()

    async def locked(self, ada: Person, password: str = NEW_PASSWORD) -> None:
        """By the link in the mail about a sign-in from a new browser."""
        await self.box.empty()
        for _ in range(2):
            self.people.change("update devices set revoked_at = now() where user_id = %s", ada.user)
            (await Browser(self.client).login(ada, password)).ok()
        link = lock_link([mail for mail in await self.box.empty() if mail.to == ada.email][-1])
        page = await Tabs(self.client).tab().open(link)
        assert page.status == 200, page.page.text
        await page.send(0)
        (row,) = self.people.rows("select locked_at from users where id = %s", ada.user)
        assert row["locked_at"] is not None

    def queued(self) -> list[str]:
        """What was ever queued for streams, by its name."""
        rows = self.people.rows(
            "select 'session-revoked' as name from logout_notices where stream_id is not null"
            " union all select event_name from webhook_deliveries where kind = 'signal' order by 1"
        )
        return [str(row["name"]) for row in rows]
