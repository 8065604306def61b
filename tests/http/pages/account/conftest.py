"""Ada, signed in in a browser, and the things around her account."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyotp
import pytest

from core.domain.identifiers import UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client as Visitor
from core.domain.record.events import Actor
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from ops.browser.page_reader import PageForm
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import Cast
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.signing_in import FIREFOX, unlimited
from tests.http.tenants import Tenant, UsedService

COOKIE = "__Host-postern_session"
ACTING = "__Host-postern_acting"


@dataclass
class AccountPagesScene(Cast):
    """A person's account, seen in a browser that is signed in."""

    ada: Person = field(init=False)
    tabs: Tabs = field(init=False)
    tab: Tab = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ada = self.speaker = self.people.add("ada@example.org")
        self.people.change("update users set email_verified_at = now() where id = %s", self.ada.user)
        self.tabs = self.browser(self.ada)
        self.tab = self.tabs.tab()

    def browser(self, person: Person, agent: str = FIREFOX) -> Tabs:
        """A browser that is signed in as this person, in their session."""
        cookie = self.postern.foundation.secrets.token()
        self.people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", cookie.digest(), person.session)
        tabs = Tabs(self.client, agent)
        tabs.cookies[COOKIE] = cookie.reveal()
        return tabs

    async def open(self, target: str) -> Tab:
        return await self.tab.open(target)

    async def send(self, **fields: str | bytes) -> Tab:
        """Sends the last form of the page; the first form signs out."""
        return await self.tab.send(len(self.tab.page.forms) - 1, **fields)

    @property
    def form(self) -> PageForm:
        return self.tab.page.forms[-1]

    def grow_old(self) -> None:
        """Makes the session's proofs an hour old."""
        self.people.change(
            "update sessions set proved_at = proved_at - interval '1 hour', second_factor_at = second_factor_at - interval '1 hour'"
        )

    async def caller(self) -> Caller:
        caller = await self.postern.tenancy.callers.resolve_browser(Token(self.tabs.cookies[COOKIE]))
        assert caller is not None
        return caller

    @property
    def visitor(self) -> Visitor:
        return Visitor("192.0.2.1", FIREFOX)

    async def has_password(self, password: str) -> None:
        maker = await self.people.with_password(password)
        self.people.change(
            "update users set password_hash = (select password_hash from users where id = %s) where id = %s", maker.user, self.ada.user
        )

    async def has_second_factor(self) -> pyotp.TOTP:
        """Turns the second factor on. The session has just proved it."""
        caller = await self.caller()
        made = await self.postern.identity.mfa.set_up(caller, self._actor)
        app = pyotp.TOTP(made.secret.reveal())
        await self.postern.identity.mfa.enable(caller, self._actor, app.now())
        # The code that turned it on is used up, so the next code is that of a later step.
        self.people.change("update mfa_secrets set last_step = 0")
        return app

    @property
    def _actor(self) -> Actor:
        return Actor(UserId(self.ada.user))

    def device(self, person: Person | None = None, name: str = "Firefox on Linux", **columns: Any) -> UUID:
        device = self.postern.foundation.ids.new()
        given = {"name": name, "device_type": "browser", **columns}
        self.people.change(
            f"insert into devices (id, user_id, {', '.join(given)}, last_used_at, created_at, updated_at)"
            f" values (%s, %s, {', '.join(['%s'] * len(given))}, now(), now(), now())",
            device,
            (person or self.ada).user,
            *given.values(),
        )
        return device

    def elsewhere(self, place: Tenant | UsedService | None = None) -> Person:
        """Ada, in another session of hers."""
        return self.tenants.session(self.ada, place)

    def lives(self, person: Person) -> bool:
        return bool(self.people.rows("select from sessions where id = %s and revoked_at is null", person.session))


def is_account_page(answer: Received) -> bool:
    """Checks the headers that every page of an account has."""
    policy = answer.header("content-security-policy") or ""
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (answer.header("referrer-policy"), answer.header("cache-control")) == ("no-referrer", "no-store")
    return answer.header("content-type") == "text/html; charset=utf-8"


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
def home(postern: Postern, people: People, client: Client, log: CapturedLog) -> AccountPagesScene:
    return AccountPagesScene(postern, people, client, log)
