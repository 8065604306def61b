"""What a rehearsal does in the migrated copy: an account, an organization, an application, a sign-in with tokens, and pages."""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import trio

from adapters.postgres.driver.connection import Connection
from core.domain.federation.oauth.authorization_codes import code_challenge
from core.domain.identifiers import ClientId, UserId
from core.domain.identity.devices import Client
from core.domain.mail import Email
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.daemon import http_settings
from entrypoints.demo.everything import organization_of, trusted_service
from entrypoints.failures import StartFailed
from entrypoints.http.application import PosternApplication

PAGES: Final = (
    "/ui",
    "/ui/platform",
    "/ui/platform/health",
    "/ui/platform/ends-soon",
    "/ui/platform/organizations",
    "/ui/platform/organizations/{organization}",
    "/ui/platform/people",
    "/ui/platform/people/{person}",
    "/ui/platform/jobs",
    "/ui/platform/signing-keys",
    "/ui/platform/hooks",
    "/ui/platform/risk",
    "/ui/platform/audit-log",
    "/ui/platform/settings",
    "/ui/platform/providers",
    "/ui/o/{slug}",
    "/ui/o/{slug}/people",
    "/ui/o/{slug}/applications",
    "/ui/o/{slug}/sign-in",
    "/ui/o/{slug}/audit-log",
)
"""Twenty pages that a rehearsal renders. Those of the platform show what was there before; an organization and a person are the newest."""

_SLUG: Final = "postern-rehearsal"
_HOME: Final = "https://rehearsal.invalid"
_CALLBACK: Final = f"{_HOME}/callback"
_ADDRESS: Final = "127.0.0.1"
_AGENT: Final = "postern upgrade rehearse"
_MOST_HOPS: Final = 8
_PATIENCE: Final = 60.0
# What the installation asks of everybody would need a person, or a call: the demands are taken out of the copy. Each statement returns a
# row for each, and the texts name them.
_DEMANDS: Final[Mapping[str, str]] = {
    "{} sign-in hooks of the installation": "delete from hooks where org_id is null returning 1",
    "{} terms of the installation": "update terms set ended_at = now() where organization_id is null and ended_at is null returning 1",
    "{} fields that the installation asks for": (
        "update all_profile_fields set asked_at = null, required = false"
        " where org_id is null and deleted_at is null and (asked_at is not null or required) returning 1"
    ),
    "{} risk policies of the installation": (
        "with had as (select jsonb_array_length(policies) as number from installation_risk_policies),"
        " gone as (delete from installation_risk_policies) select 1 from had, generate_series(1, had.number)"
    ),
}


class Failed(Exception):
    """A step did not succeed. The message is one sentence without its period."""


class PageSeen(Frozen):
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for one, value in self.headers if one == name), None)


async def leave_out_demands(url: str) -> Sequence[str]:
    """Takes what the installation asks of everybody out of the copy, and names it."""
    left = []
    async with await Connection.connect(url) as connection:
        for text, statement in _DEMANDS.items():
            number = len(await (await connection.execute(statement.encode())).fetchall())
            if number:
                left.append(text.format(number))
    return left


class Browser:
    """Speaks to the application in this process, and keeps cookies.

    Nothing listens. Requests go to the application in this process, as its server would hand them over.
    """

    def __init__(self, application: PosternApplication, base_url: str) -> None:
        self._application = application
        self._base = urlsplit(base_url)
        self._cookies: dict[str, str] = {}

    async def get(self, target: str) -> PageSeen:
        return await self._exchange("GET", target, b"", [])

    async def post(self, target: str, form: str) -> PageSeen:
        headers = [("content-type", "application/x-www-form-urlencoded")]
        return await self._exchange("POST", target, form.encode(), headers)

    async def open(self, target: str) -> tuple[str, PageSeen]:
        """Follows redirects to our own pages. Returns the address that the way ends at, which may be elsewhere."""
        return await self.follow(target, await self.get(target))

    async def follow(self, target: str, answer: PageSeen) -> tuple[str, PageSeen]:
        for _ in range(_MOST_HOPS):
            place = answer.header("location")
            if answer.status not in {302, 303} or place is None:
                return target, answer
            split = urlsplit(place)
            if split.netloc not in {"", self._base.netloc}:
                return place, answer
            target = f"{split.path}?{split.query}" if split.query else split.path
            answer = await self.get(target)
        raise Failed(f"{_shown(target)} redirects without end")

    async def _exchange(self, method: str, target: str, body: bytes, headers: Sequence[tuple[str, str]]) -> PageSeen:
        given = [
            *headers,
            ("host", self._base.netloc),
            ("user-agent", _AGENT),
            ("sec-fetch-site", "same-origin" if method == "POST" else "none"),
            *([("cookie", "; ".join(f"{name}={value}" for name, value in self._cookies.items()))] if self._cookies else []),
        ]
        path, _, query = target.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.1"},
            "http_version": "1.1",
            "method": method,
            "scheme": self._base.scheme,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given],
            "client": (_ADDRESS, 50_000),
            "server": (_ADDRESS, 8000),
            "extensions": {},
        }
        waiting, sent = [{"type": "http.request", "body": body, "more_body": False}], list[Mapping[str, Any]]()

        async def receive() -> dict[str, Any]:
            if not waiting:
                await trio.sleep_forever()
            return waiting.pop(0)

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        with trio.move_on_after(_PATIENCE) as patience:
            await self._application(scope, receive, send)  # type: ignore[arg-type]  # plain dicts in place of hypercorn's typed ones
        if patience.cancelled_caught or not sent:
            raise Failed(f"{_shown(target)} did not answer within {_PATIENCE:g} s")
        got = [(name.decode(), value.decode("latin-1")) for name, value in sent[0]["headers"]]
        for name, value in got:
            if name == "set-cookie":
                cookie, _, kept = value.partition(";")[0].partition("=")
                if "Max-Age=0" in value:
                    self._cookies.pop(cookie, None)
                else:
                    self._cookies[cookie] = kept
        return PageSeen(int(sent[0]["status"]), got, b"".join(message.get("body", b"") for message in sent[1:]))


class _Forms(HTMLParser):
    """The forms of a page: the address of each, and its fields with their values."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((unescape(given.get("action", "")), {}))
        elif tag in {"input", "button"} and self.forms and given.get("name") and given.get("type") not in {"checkbox", "radio"}:
            self.forms[-1][1].setdefault(given["name"], given.get("value", ""))


class Journey:
    """`say` gets the name of each step that begins."""

    def __init__(self, postern: Postern, url: str, say: Callable[[str], None]) -> None:
        self._postern = postern
        self._url = url
        self._say = say
        # The copy has the buckets of the rate limits as they were, and the rehearsal is one address.
        settings = replace(http_settings(postern.settings, postern.foundation.version), rate_limits=False)
        self._browser = Browser(PosternApplication(postern, settings), settings.base_url)

    async def sign_in(self) -> None:
        """Makes all that a sign-in needs and signs in, by password and in a browser, with a code and its refresh. Raises `Failed`."""
        email = Email(f"rehearsal-{secrets.token_hex(8)}@rehearsal.invalid")
        password = self._postern.foundation.secrets.password()
        self._say("Making an account, an organization and an application …")
        owner = await self._postern.platform.platform_owners.create(email, password)
        application = await self._organization(owner)
        self._say("Signing in …")
        client = Client(None, _AGENT)
        signed_in = await self._postern.identity.sign_in.with_password(email, password, client)
        tokens = getattr(signed_in, "tokens", None)
        if tokens is None:
            raise Failed("a new platform owner is asked for a second factor")
        await self._postern.foundation.token_verifier.verify_access(tokens.access_token.reveal())
        await self._postern.identity.sessions.refresh(tokens.refresh_token, client)
        await self._in_browser(email)
        await self._code(application)

    async def pages(self) -> int:
        """Renders the pages, and returns their number. Raises `Failed`."""
        named = await self._newest()
        for page in PAGES:
            target = page.format(**named)
            self._say(f"Rendering {page} …")
            _, answer = await self._browser.open(target)
            if answer.status != 200:
                raise Failed(f"the page {page} answers {answer.status}")
        return len(PAGES)

    async def _organization(self, owner: UserId) -> ClientId:
        async with self._postern.foundation.unit_of_work() as uow:
            organization = await organization_of(self._postern, uow, owner, _SLUG, "Rehearsal")
            service = await trusted_service(self._postern, uow, organization, "Rehearsal", _CALLBACK)
            await uow.commit()
        return service.client_id

    async def _in_browser(self, email: Email) -> None:
        link = urlsplit((await self._postern.identity.sign_in_links.issue(email)).reveal())
        place, answer = await self._browser.open(f"{link.path}?{link.query}")
        parsed = _Forms()
        parsed.feed(answer.body.decode())
        action, fields = next((form for form in parsed.forms if "token" in form[1]), ("", {}))
        if answer.status != 200 or not fields:
            raise Failed(f"the page of a sign-in link answers {answer.status}, without its form")
        place, answer = await self._browser.follow(action, await self._browser.post(action, urlencode(fields)))
        if answer.status != 200 or place.startswith("/ui/sign-in"):
            raise Failed(f"a sign-in in a browser ends at {_shown(place)} with {answer.status}")

    async def _code(self, application: ClientId) -> None:
        verifier = secrets.token_urlsafe(48)
        asked = {
            "response_type": "code",
            "redirect_uri": _CALLBACK,
            "scope": "openid email offline_access",
            "state": secrets.token_urlsafe(16),
            "code_challenge": code_challenge(Token(verifier)),
            "code_challenge_method": "S256",
        }
        place, answer = await self._browser.open(f"/oauth/authorize?client_id={application}&{urlencode(asked)}")
        code = parse_qs(urlsplit(place).query).get("code", [""])[0]
        if not place.startswith(_CALLBACK) or not code:
            raise Failed(f"an authorization ends at {_shown(place)} with {answer.status}, and not at the application")
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": _CALLBACK, "code_verifier": verifier}
        redeemed = await self._token("the redemption of a code", application, fields)
        if "refresh_token" not in redeemed:
            raise Failed("the redemption of a code brings no refresh token")
        await self._token("a refresh", application, {"grant_type": "refresh_token", "refresh_token": redeemed["refresh_token"]})

    async def _token(self, what: str, application: ClientId, fields: Mapping[str, str]) -> Mapping[str, Any]:
        answer = await self._browser.post("/auth/token", f"client_id={application}&{urlencode(fields)}")
        try:
            told = msgspec.json.decode(answer.body)
        except msgspec.DecodeError:
            told = {}
        if answer.status != 200 or "access_token" not in told:
            # Only the code of the refusal: a body may have a token in it.
            code = told.get("error") if isinstance(told, dict) else None
            raise Failed(f"{what} answers {answer.status}{f' {code}' if isinstance(code, str) and re.fullmatch('[a-z_]+', code) else ''}")
        return dict(told)

    async def _newest(self) -> Mapping[str, str]:
        """Of what was there before, if there was anything."""
        async with await Connection.connect(self._url) as connection:
            row = await (await connection.execute(_NEWEST, {"slug": _SLUG})).fetchone()
        if row is None:  # pragma: no cover - the statement has a row
            raise StartFailed("The copy cannot be read")
        return {"slug": _SLUG, "organization": str(row[0]), "person": str(row[1])}


def _shown(place: str) -> str:
    """Without the query, which may have a token or a code in it."""
    return urlsplit(place)._replace(query="", fragment="").geturl()


_NEWEST: Final = """
    select (select id from all_organizations where deleted_at is null order by slug = %(slug)s, id desc limit 1),
           (select id from users order by email_key like 'rehearsal-%%@rehearsal.invalid', id desc limit 1)
"""
