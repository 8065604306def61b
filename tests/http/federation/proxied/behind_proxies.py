"""Acme's wiki, which signs nobody in itself: a proxy stands in front of it, and asks Postern about each request."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, quote, urlsplit

from tests.http.browsing import Tabs
from tests.http.client import Pairs, Received
from tests.http.federation.arriving import AUTHORIZE, Arriving, left
from tests.http.people import Person
from tests.http.tenants import UsedService

HOST: Final = "wiki.acme.example"
CHECK: Final = "/proxy/check"
COOKIE: Final = "__Host-postern"
PAGE: Final = "text/html,application/xhtml+xml"
USUAL: Final = {"remote-user": "", "remote-email": "", "remote-name": "", "remote-groups": ""}


class Proxied(Arriving):
    """Grace owns acme, whose domain is proved; Ada is a member. `/public` is open, and `/admin` asks for a role."""

    proved: ClassVar = "acme.example"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grace = self.speaker = self.resident(self.acme, "owner", "grace")
        self.ada = self.resident(self.acme, "member", "ada")
        for person in (self.grace, self.ada):
            self.people.change("update users set email_verified_at = now(), name = 'Zoë' where id = %s", person.user)
        self.people.change("update all_organizations set max_services = 9 where id = %s", self.acme.id)
        self.prove(self.acme.id, self.proved)

    def prove(self, organization: Any, domain: str) -> None:
        self.people.change(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (%s, %s, %s, 'token', now(), now(), now(), now())",
            self.postern.foundation.ids.new(),
            organization,
            domain,
        )

    async def wiki(self, *, slug: str = "wiki", **settings: Any) -> str:
        """Makes the application, and returns the secret of its proxy."""
        body = {"slug": slug, "name": "The Wiki", "service_type": "proxy", "trusted": True}
        made = (await self.request("POST", "/api/organizations/acme/services", body)).ok()
        self.service = UsedService(made["service"]["id"], slug, self.acme)
        for role in ("editor", "admin"):
            (await self.request("POST", self.at("roles", slug=slug), {"slug": role, "name": role, "permissions": []})).ok(201)
        rules = ["/public open", "/admin role admin"]
        (await self.set_proxy(slug=slug, **{"hosts": [HOST], "rules": rules, **settings})).ok()
        return await self.secret_for(slug)

    def at(self, part: str, *, slug: str = "wiki") -> str:
        return f"/api/organizations/acme/services/{slug}/{part}"

    async def secret_for(self, slug: str = "wiki") -> str:
        made = (await self.request("POST", self.at("client-secrets", slug=slug))).ok(201)
        self.log.remember(made["client_secret"])
        return str(made["client_secret"])

    async def set_proxy(self, *, slug: str = "wiki", by: Person | None = None, **settings: Any) -> Received:
        return await self.request("PATCH", self.at("proxy", slug=slug), settings, by=by)

    async def give(self, person: Person, role: str) -> None:
        body = {"role": role, "user_id": str(person.user)}
        (await self.request("POST", self.at("assignments"), body)).ok(201)

    async def ask(
        self,
        secret: str,
        uri: str = "/",
        *,
        host: str = HOST,
        cookie: str = "",
        method: str = "GET",
        by: str = "GET",
        headers: Pairs = (),
        answer: str = "",
    ) -> Received:
        """The proxy asks about one request, as Caddy and Traefik do."""
        said = [("x-postern-proxy", secret), ("x-forwarded-host", host), ("x-forwarded-uri", uri), ("x-forwarded-method", method)]
        said.append(("x-forwarded-for", "198.51.100.7"))
        if cookie:
            said.append(("cookie", f"{COOKIE}={cookie}"))
        target = f"{CHECK}?answer={answer}" if answer else CHECK
        return await self.unlimited.request(by, target, headers=[*said, *headers])

    async def visit(self, secret: str, target: str, *, host: str = HOST, cookies: Mapping[str, str] = {}, headers: Pairs = ()) -> Received:
        """A page below `/.postern`, to which the proxy leads the browser."""
        jar = "; ".join(f"{name}={value}" for name, value in cookies.items())
        said = [("x-postern-proxy", secret), ("x-forwarded-host", host), ("x-forwarded-uri", target), ("x-forwarded-for", "198.51.100.7")]
        return await self.unlimited.request("GET", target, headers=[*said, ("accept", PAGE), *([("cookie", jar)] if jar else []), *headers])

    async def begun(self, secret: str, to: str = "/", *, host: str = HOST) -> tuple[str, dict[str, str]]:
        """Where the sign-in leads, and what the browser keeps for its return."""
        answer = await self.visit(secret, f"/.postern/sign-in?to={quote(to)}", host=host)
        assert answer.status == 302, answer.body
        address = answer.header("location") or ""
        return address, set_cookies(answer)

    async def came_back(self, address: str, browser: Tabs) -> str:
        """The address on the wiki's host to which the base address leads back."""
        assert address.startswith(f"{self.postern.foundation.public_url}{AUTHORIZE}?"), address
        tab = await browser.tab().open(urlsplit(address).path + "?" + urlsplit(address).query)
        asked = dict(parse_qsl(urlsplit(address).query))
        where = tab.shown.header("location") if tab.shown.status in {302, 303} else None
        if where is None:
            left(tab, asked["redirect_uri"])
            where = tab.page.refresh
        assert where is not None
        assert where.startswith(asked["redirect_uri"]), where
        return f"{urlsplit(where).path}?{urlsplit(where).query}"

    async def cookie_of(self, secret: str, person: Person, *, host: str = HOST, browser: Tabs | None = None) -> str:
        """Signs the person in at the wiki, by its pages, and returns the cookie of the host."""
        address, kept = await self.begun(secret, "/page?x=1", host=host)
        back = await self.came_back(address, browser or self.signed_in(person))
        answer = await self.visit(secret, back, host=host, cookies=kept)
        assert answer.status == 302, answer.body
        assert answer.header("location") == "/page?x=1"
        cookie = set_cookies(answer)[COOKIE]
        self.log.remember(cookie)
        return cookie


def set_cookies(answer: Received) -> dict[str, str]:
    """What the browser keeps by this answer. Each is of the host alone."""
    kept = {}
    for name, value in answer.headers:
        if name == "set-cookie":
            assert value.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure"), value
            cookie, _, text = value.partition(";")[0].partition("=")
            assert cookie.startswith("__Host-")
            if text:
                kept[cookie] = text
    return kept


def told(answer: Received) -> dict[str, str]:
    """The headers that the application gets, without the assertion."""
    assert answer.status == 200, (answer.status, answer.body)
    return {name: value for name, value in answer.headers if name.startswith("remote-")}
