"""Applications that send people here for sign-in, and the answers that come back to the applications."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from core.domain.federation.oauth.consents import ApplicationAccess
from core.domain.identifiers import ServiceId, UserId
from core.domain.record.events import Actor
from core.domain.secrets import Token
from ops.browser.page_reader import PageReader
from tests.http.browsing import Tab, Tabs
from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.people import BASE_URL, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenant, UsedService

AUTHORIZE: Final = "/oauth/authorize"
CALLBACK: Final = "https://app.example.com/callback"
CHALLENGE: Final = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
VERIFIER: Final = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
SESSION_COOKIE: Final = "__Host-postern_session"


class Arriving(Cast):
    """Acme with two applications: a public client on the web, and a desktop application."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acme = self.tenants.add("acme")
        self.app = self.application(self.acme, "app", CALLBACK)
        self.desktop = self.application(self.acme, "desktop", "http://127.0.0.1/callback", "com.example.app:/callback", kind="desktop")
        self.unlimited = unlimited(self.postern)

    def application(self, tenant: Tenant, slug: str, *redirect_uris: str, kind: str = "web") -> UsedService:
        service = self.tenants.service(tenant, slug, kind)
        self.people.change("update all_services set redirect_uris = %s where id = %s", list(redirect_uris), service.id)
        return service

    def set(self, service: UsedService, **columns: Any) -> None:
        for column, value in columns.items():
            self.people.change(f"update all_services set {column} = %s where id = %s", value, service.id)

    def client_id(self, service: UsedService) -> str:
        (row,) = self.people.rows("select coalesce(kept_client_id, client_id::text) as id from all_services where id = %s", service.id)
        return str(row["id"])

    def secret(self, service: UsedService) -> str:
        """Gives the application a secret, so that it is a client that authenticates."""
        secret = self.postern.foundation.secrets.key("cs")
        self.people.change(
            "insert into client_secrets (id, service_id, prefix, digest, created_at) values (%s, %s, 'cs_abcdef', %s, now())",
            self.postern.foundation.ids.new(),
            service.id,
            secret.digest(),
        )
        return secret.reveal()

    def asking(self, service: UsedService | None = None, /, **changes: str | None) -> str:
        """The authorization request: the address that an application sends people to."""
        asked: dict[str, str | None] = {
            "client_id": self.client_id(service or self.app),
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid email",
            "state": "a b&c",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changes,
        }
        return f"{AUTHORIZE}?{urlencode({name: value for name, value in asked.items() if value is not None})}"

    def browser(self) -> Tabs:
        return Tabs(self.unlimited)

    def signed_in(self, person: Person, *, age: float = 60, amr: str = "{pwd}") -> Tabs:
        """A browser in which the person signed in `age` seconds ago."""
        tabs = self.browser()
        token = self.postern.foundation.secrets.token()
        self.people.change(
            "update sessions set authenticated_by = %s, proved_at = now() - %s * interval '1 second' where id = %s",
            amr,
            age,
            person.session,
        )
        self.people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", token.digest(), person.session)
        tabs.cookies[SESSION_COOKIE] = token.reveal()
        return tabs

    def allow(self, person: Person, service: UsedService | None = None, scopes: str = "openid email") -> None:
        self.people.change(
            "insert into consents (id, user_id, service_id, scopes, granted_at) values (%s, %s, %s, %s, now())",
            self.postern.foundation.ids.new(),
            person.user,
            (service or self.app).id,
            scopes.split(),
        )

    async def id_token(self, person: Person, service: UsedService | None = None, **claims: Any) -> str:
        """An ID token that has expired, unless the claims say something else."""
        said: dict[str, Any] = {"iss": BASE_URL, "sub": str(person.user), "aud": self.client_id(service or self.app), "exp": 1000, "iat": 1}
        return await self.postern.foundation.token_signer.sign_id({**said, **claims})

    async def revoke(self, person: Person, service: UsedService | None = None) -> ApplicationAccess:
        """The person takes the consent back."""
        user = UserId(person.user)
        return await self.postern.federation.consents.revoke(user, ServiceId((service or self.app).id), Actor(user))

    def codes(self) -> list[dict[str, Any]]:
        return self.people.rows("select * from authorization_codes order by id")

    def code(self, code: str) -> dict[str, Any]:
        """The kept row of a code."""
        (row,) = self.people.rows("select * from authorization_codes where digest = %s", Token(code).digest())
        return row


def answer_in(location: str | None, redirect_uri: str = CALLBACK) -> Mapping[str, str]:
    """The parameters that the application gets in the query of its redirect URI."""
    assert location is not None
    assert location.startswith(f"{redirect_uri}?"), location
    pairs = parse_qsl(urlsplit(location).query, keep_blank_values=True, strict_parsing=True)
    answer = dict(pairs)
    assert len(answer) == len(pairs), pairs
    assert answer["iss"] == BASE_URL
    return answer


def told(answer: Received, redirect_uri: str = CALLBACK) -> Mapping[str, str]:
    """The parameters that come by a redirect."""
    assert answer.status == 303, answer.body
    return answer_in(answer.header("location"), redirect_uri)


def left(tab: Tab, redirect_uri: str = CALLBACK) -> Mapping[str, str]:
    """The parameters that come by a page of ours that leads away."""
    assert tab.status == 200, tab.shown.body
    page = tab.page
    assert page.refresh in page.links, page.text
    return answer_in(page.refresh, redirect_uri)


def posted(answer: Received, redirect_uri: str = CALLBACK) -> Mapping[str, str]:
    """The parameters that come by a form that is posted to the application."""
    assert answer.status == 200, answer.body
    (form,) = PageReader(answer.body).forms
    assert form.action == redirect_uri
    assert form.fields["iss"] == BASE_URL
    return form.fields


def is_page(answer: Received, status: int, words: str = "") -> None:
    assert answer.status == status, answer.body
    assert answer.header("location") is None
    assert answer.header("content-type") == "text/html; charset=utf-8"
    assert words in answer.body.decode(), answer.body
