"""People who grant an application scopes of signals, on the page for consent."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from tests.http.browsing import Tab, Tabs
from tests.http.client import Received
from tests.http.federation.arriving import AUTHORIZE, SESSION_COOKIE, left
from tests.http.federation.relying import CALLBACK, CHALLENGE, Application
from tests.http.federation.signals.scene import POLL, STREAMS, Signalling, delivery
from tests.http.people import Person
from tests.receiver import Receiver

SCOPES: Final = "openid offline_access ssf.manage ssf.read"


@dataclass
class Granting(Signalling):
    """An admin of acme may manage its integrations, and may not turn signals on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.admin = self.resident(self.acme, "admin")

    def browser(self, person: Person) -> Tabs:
        """A browser in which the person has signed in."""
        tabs = Tabs(self.client)
        self.people.change("delete from browser_sessions where session_id = %s", person.session)
        token = self.postern.foundation.secrets.token()
        self.people.change("update sessions set authenticated_by = '{pwd}', proved_at = now() where id = %s", person.session)
        self.people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", token.digest(), person.session)
        tabs.cookies[SESSION_COOKIE] = token.reveal()
        return tabs

    def asking(self, application: Application | None = None, /, **changed: str | None) -> str:
        asked: dict[str, str | None] = {
            "client_id": (application or self.shop).client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": SCOPES,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changed,
        }
        return f"{AUTHORIZE}?{urlencode({name: value for name, value in asked.items() if value is not None})}"

    async def asked(self, person: Person | None = None, **changed: str | None) -> Tab:
        """What the person sees whom the application sends here."""
        return await self.browser(person or self.admin).tab().open(self.asking(**changed))

    async def redeemed(self, tab: Tab) -> dict[str, Any]:
        """The tokens for the code that the page leads away with."""
        code = left(tab, CALLBACK)["code"]
        self.log.remember(code)
        return self.kept((await self.redeem(self.shop, code)).ok())

    async def granted(self, person: Person | None = None, **changed: str | None) -> dict[str, Any]:
        """The tokens of a session in which the person has allowed what is asked."""
        tab = await self.asked(person, **changed)
        return await self.redeemed(await tab.send(answer="allow"))

    async def by_token(self, tokens: dict[str, Any], method: str, path: str, body: Any = None) -> Received:
        return await self.client.request(method, path, body=body, token=tokens["access_token"])

    async def granted_stream(self, tokens: dict[str, Any], receiver: Receiver) -> str:
        made = await self.by_token(tokens, "POST", STREAMS, {"delivery": delivery(receiver.port)})
        return str(made.ok(201)["stream_id"])

    async def granted_poll(self, tokens: dict[str, Any]) -> str:
        return str((await self.by_token(tokens, "POST", STREAMS, {"delivery": {"method": POLL}})).ok(201)["stream_id"])

    def streams(self) -> list[dict[str, Any]]:
        return self.people.rows("select id, granted_by from signal_streams order by id")
