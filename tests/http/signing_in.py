"""A client that signs in, keeps its cookies and tokens, and comes back with them."""

from collections.abc import Mapping
from typing import Any, Final

import pyotp

from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import HttpSettings, build_application
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.people import People, Person

LOGIN, VERIFY, REFRESH, LOGOUT = "/api/auth/login", "/api/auth/mfa/verify", "/api/auth/refresh", "/api/auth/logout"
PASSWORD = "the moon over the harbour"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
SAFARI = "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15"

UNLIMITED: Final = replace(SETTINGS, rate_limits=False)


class Browser:
    """One client with its cookies and its headers."""

    def __init__(self, client: Client, agent: str = FIREFOX) -> None:
        self.client = client
        self.agent = agent
        self.cookies: dict[str, str] = {}

    async def post(self, path: str, body: Any = None, token: str | None = None) -> Received:
        headers = [("user-agent", self.agent)]
        if self.cookies:
            headers.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        answer = await self.client.post(path, body, token=token, headers=headers)
        for name, value in answer.headers:
            if name == "set-cookie":
                cookie, _, kept = value.partition(";")[0].partition("=")
                self.cookies[cookie] = kept
        return answer

    async def login(self, person: Person, password: str = PASSWORD, **more: Any) -> Received:
        return await self.post(LOGIN, {"email": person.email, "password": password, **more})

    async def tokens(self, person: Person, **more: Any) -> Mapping[str, Any]:
        answer = await self.login(person, **more)
        assert answer.status == 200, answer.body
        tokens: Mapping[str, Any] = answer.json()
        return tokens

    async def refresh(self, refresh_token: str) -> Received:
        return await self.post(REFRESH, {"refresh_token": refresh_token})

    async def verify(self, preauth_token: str, code: str, **more: Any) -> Received:
        return await self.post(VERIFY, {"code": code, **more}, token=preauth_token)


def unlimited(postern: Postern, settings: HttpSettings = UNLIMITED, address: str = "192.0.2.1") -> Client:
    """Settings without the limits by address. Other tests cover these limits."""
    return Client(build_application(postern, settings), address)


async def enable_mfa(client: Client, people: People, person: Person) -> pyotp.TOTP:
    """Enables the second factor by the API, in another session. The code that enabled it is used up; the next code comes from `later`."""
    people.change(
        "insert into sessions (id, user_id, created_at, last_seen_at, expires_at, proved_at)"
        " values (%s, %s, now(), now(), now() + interval '1 day', now())",
        person.session,
        person.user,
    )
    token = await people.token(person)
    secret = (await client.post("/api/user/mfa/setup", token=token)).json()["secret"]
    totp = pyotp.TOTP(secret)
    answer = await client.post("/api/user/mfa/verify", {"code": totp.now()}, token=token)
    assert answer.status == 200, answer.body
    # As if the factor had been enabled an hour ago.
    people.change("update mfa_secrets set last_step = last_step - 120 where user_id = %s", person.user)
    return totp
