"""People who sign in through providers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from core.domain.identifiers import UserId
from core.domain.secrets import Token
from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_providers import PEOPLE, FakeProvider
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK, CHALLENGE, Arriving
from tests.http.people import BASE_URL, Person

Fakes = Mapping[str, FakeProvider]
ADA: Final = "ada@example.org"
CONNECTIONS: Final = f"{BASE_URL}/ui/settings/connections"


@dataclass
class UpstreamScene(Arriving):
    fakes: Fakes = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for fake in self.fakes.values():
            self.log.remember(fake.client_secret)
        self.word = "websuite"

    def sits(self, email: str = ADA, *, word: str | None = None, verified: bool = True, **more: Any) -> FakeProvider:
        """Sets the person at the provider."""
        word = word or self.word
        fake = self.fakes[word]
        if word == "own":
            fake.person = {"sub": "u-1", "email": email, "email_verified": verified, **more}
        else:
            fake.person = {**PEOPLE[word](email, verified), **more}
        return fake

    def direct(self, service: str = "app", **changes: str) -> str:
        """The address to which an application's own page leads."""
        asked = {
            "org": "acme",
            "service": service,
            "redirect_uri": CALLBACK,
            "state": "a b&c",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changes,
        }
        return f"?{urlencode({name: value for name, value in asked.items() if value})}"

    async def leave(self, tabs: Tabs, query: str = "", *, word: str | None = None) -> str:
        """Leaves for the provider. Returns the address there."""
        answer = await tabs.request("GET", f"/auth/{word or self.word}{query}")
        if answer.status == 200:
            # Only a button leads to an organization's own provider.
            answer = await tabs.request("GET", next(link for link in PageReader(answer.body).links if link.startswith("/auth/")))
        assert answer.status == 302, answer.body
        location = answer.header("location")
        assert location is not None
        return location

    async def go(self, tabs: Tabs, query: str = "", *, word: str | None = None, **person: Any) -> Received:
        """Goes to the provider and back. Returns the callback's answer."""
        word = word or self.word
        fake = self.fakes["own" if word not in self.fakes else word]
        return await tabs.request("GET", fake.consent(await self.leave(tabs, query, word=word), **person))

    async def who(self, tabs: Tabs) -> UserId | None:
        caller = await self.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
        return None if caller is None else caller.user

    def identities(self) -> list[dict[str, Any]]:
        return self.people.rows("select user_id, provider, issuer, subject, email from identities order by id")

    def verified(self, email: str = ADA, *, password: bool = True) -> Person:
        """An account whose address was proved."""
        person = self.people.add(email)
        self.people.change(
            "update users set email_verified_at = now() - interval '1 hour', password_hash = %s where id = %s",
            "not a hash" if password else None,
            person.user,
        )
        self.people.change("delete from sessions where id = %s", person.session)
        return person

    async def own_provider(self, fake: FakeProvider | None = None, domain: str = "example.org") -> str:
        """Acme's own provider, with the domain proved. Returns the provider's id."""
        fake = fake or self.fakes["own"]
        boss = self.resident(self.acme, "owner", "keeper")
        body = {"name": "Acme login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
        made = (await self.request("POST", "/api/organizations/acme/upstream-providers", body, by=boss)).ok(201)
        if domain:
            self.people.change(
                "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
                " values (%s, %s, %s, 'token', now(), now() + interval '7 days', now(), now())",
                self.postern.foundation.ids.new(),
                self.acme.id,
                domain,
            )
        return str(made["id"])


def told_in(location: str | None) -> tuple[str, dict[str, str]]:
    """The answer's location and its query."""
    assert location is not None
    parts = urlsplit(location)
    return f"{parts.scheme}://{parts.netloc}{parts.path}", dict(parse_qsl(parts.query, strict_parsing=True))
