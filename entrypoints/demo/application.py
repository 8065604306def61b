"""An application that leaves its sign-in to Postern: code flow with PKCE, a verified ID token, and sign-out. The application knows the
issuer and its client id, and nothing else of Postern.
"""

import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast
from urllib.error import URLError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import jwt

_COOKIE: Final = "postern_demo"
_PATIENCE: Final = 10.0
_MOST_BROWSERS: Final = 1000
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;
padding:0 1rem}}a.button{{display:inline-block;padding:.5rem 1rem;border-radius:.5rem;background:#0f5f5c;color:#fff;text-decoration:none}}
dt{{font-weight:600}}dd{{margin:0 0 .5rem;overflow-wrap:anywhere}}</style><h1>{title}</h1>{content}</html>"""


@dataclass
class _Browser:
    """The data that the application keeps for one browser."""

    state: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    id_token: str = ""
    access_token: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    person: Mapping[str, Any] = field(default_factory=dict)


class SignInFailed(Exception):
    """The message is shown to the person who signs in."""


class DemoServer(ThreadingHTTPServer):
    """A program of the demo. It listens on loopback alone."""

    daemon_threads = True
    title = "Demo"

    def __init__(self, port: int, requests: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", port), requests)

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class DemoApplication(DemoServer):
    title = "Demo Notes"
    scope = "openid email organization"
    welcome = "An application that has no passwords of its own."

    def __init__(self, port: int, issuer: str) -> None:
        super().__init__(port, _Requests)
        self.issuer = issuer
        self.client_id = ""
        self.browsers: dict[str, _Browser] = {}

    @property
    def more(self) -> Mapping[str, str]:
        """What else a sign-in asks with, and the code's redemption, too."""
        return {}

    def learned(self, browser: _Browser) -> Mapping[str, Any]:
        """What the page shows of the person."""
        return {**browser.claims, **browser.person}

    def metadata(self) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", fetched(f"{self.issuer}/.well-known/openid-configuration"))

    def begin(self) -> tuple[str, str]:
        """Begins a sign-in. Returns the browser's new cookie, and the URL to redirect the browser to."""
        while len(self.browsers) >= _MOST_BROWSERS:
            self.browsers.pop(next(iter(self.browsers)))
        cookie, browser = secrets.token_urlsafe(16), _Browser()
        self.browsers[cookie] = browser
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": f"{self.home}/callback",
            "scope": self.scope,
            **self.more,
            "state": browser.state,
            "nonce": browser.nonce,
            "code_challenge": urlsafe_b64encode(sha256(browser.verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return cookie, f"{self.metadata()['authorization_endpoint']}?{urlencode(asked)}"

    def complete(self, browser: _Browser, answer: Mapping[str, str]) -> None:
        """Raises `SignInFailed`."""
        if not secrets.compare_digest(answer.get("state", ""), browser.state):
            raise SignInFailed("This answer does not belong to your sign-in: begin again.")
        if "code" not in answer:
            raise SignInFailed(f"Postern says: {answer.get('error_description') or answer.get('error', 'nothing')}")
        metadata = self.metadata()
        fields = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": f"{self.home}/callback",
            "client_id": self.client_id,
            "code_verifier": browser.verifier,
            **self.more,
        }
        tokens = fetched(metadata["token_endpoint"], fields)
        key = jwt.PyJWKClient(metadata["jwks_uri"], timeout=_PATIENCE).get_signing_key_from_jwt(tokens["id_token"])
        claims = jwt.decode(tokens["id_token"], key, algorithms=["RS256", "ES256"], issuer=self.issuer, audience=self.client_id, leeway=10)
        if claims.get("nonce") != browser.nonce:
            raise SignInFailed("The ID token was made for another sign-in.")
        browser.access_token = tokens["access_token"]
        browser.person = self.person(browser, metadata)
        browser.id_token, browser.claims = tokens["id_token"], claims

    def person(self, browser: _Browser, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", fetched(metadata["userinfo_endpoint"], {"access_token": browser.access_token}))

    def farewell(self, browser: _Browser) -> str:
        asked = {"id_token_hint": browser.id_token, "post_logout_redirect_uri": f"{self.home}/"}
        return f"{self.metadata()['end_session_endpoint']}?{urlencode(asked)}"


def fetched(address: str, fields: Mapping[str, str] | None = None) -> Any:
    body = None if fields is None else urlencode(fields).encode()
    with urlopen(address, body, timeout=_PATIENCE) as answer:  # noqa: S310 - the issuer's own addresses
        return json.load(answer)


class DemoPages(BaseHTTPRequestHandler):
    """Shows pages, and leads on."""

    server: DemoServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Logs nothing, because the terminal shows the addresses and the password of the demo."""

    def show(self, content: str, status: int = 200) -> None:
        self.send(_PAGE.format(title=self.server.title, content=content).encode(), "text/html; charset=utf-8", status)

    def send(self, body: bytes, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, address: str, cookie: str = "") -> None:
        self.send_response(303)
        self.send_header("Location", address)
        if cookie:
            self.send_header("Set-Cookie", f"{_COOKIE}={cookie}; HttpOnly; SameSite=Lax; Path=/")
        self.send_header("Content-Length", "0")
        self.end_headers()


class _Requests(DemoPages):
    server: DemoApplication

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        cookie = self._cookie()
        browser = self.server.browsers.get(cookie)
        try:
            match asked.path:
                case "/":
                    self.show(self._front(browser))
                case "/sign-in":
                    cookie, address = self.server.begin()
                    self.redirect(address, cookie)
                case "/callback" if browser is not None:
                    self.server.complete(browser, {name: values[0] for name, values in parse_qs(asked.query).items()})
                    self.redirect("/")
                case "/sign-out" if browser is not None:
                    del self.server.browsers[cookie]
                    self.redirect(self.server.farewell(browser))
                case "/callback" | "/sign-out":
                    self.redirect("/")
                case _:
                    self.show("<p>There is nothing here. <a href='/'>Back</a></p>", 404)
        except SignInFailed as failure:
            self.show(f"<p>{escape(str(failure))}</p>{_BUTTON}", 400)
        except (URLError, TimeoutError, jwt.PyJWTError) as error:
            self.show(f"<p>Postern did not answer as it should: {escape(str(error))}</p>{_BUTTON}", 502)

    def _front(self, browser: _Browser | None) -> str:
        if browser is None or not browser.claims:
            return f"<p>{escape(self.server.welcome)}</p>{_BUTTON}"
        rows = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(json.dumps(value))}</dd>" for name, value in self.server.learned(browser).items()
        )
        who = escape(str(browser.person.get("email") or browser.claims["sub"]))
        return f"<p>Signed in as <strong>{who}</strong>. <a href='/sign-out'>Sign out</a></p><h2>What Postern told us</h2><dl>{rows}</dl>"

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return ""
        return "" if found is None else found.value


_BUTTON: Final = '<p><a class="button" href="/sign-in">Sign in with Postern</a></p>'
