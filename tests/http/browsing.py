"""A browser without scripts: it keeps cookies, follows redirects to our own pages, and sends the forms that a page has."""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from urllib.parse import urlencode

from ops.browser.page_reader import PageReader
from tests.http.client import Client, Received
from tests.http.signing_in import FIREFOX

# If a field has several values, all of them are sent. Bytes are the content of a file.
Fields = Mapping[str, str | bytes | Sequence[str]]
_BOUNDARY = "----browser7MA4YWxkTrZu0gW"


def secret_on(body: bytes) -> str:
    """The secret of an authenticator app that the page shows in groups of four."""
    _, _, shown = body.decode().partition('id="secret">')
    return "".join(re.findall(r'<span class="four">([A-Z2-7]{4})</span>', shown.partition("</code>")[0]))


def choices(tab: "Tab") -> dict[str, str]:
    """The sessions of the accounts that a page with a choice of accounts offers, by the address on their buttons."""
    buttons = re.findall(r'<button([^>]*)name="account" value="([0-9a-f-]{36})"([^>]*)>(.*?)</button>', tab.shown.body.decode())
    said = ((unescape(re.sub(r"<[^>]*>", "", f"{before} {after} {label}")), session) for before, session, after, label in buttons)
    return {found[0]: session for text, session in said if (found := re.findall(r"[\w.+-]+@[\w.-]+\w", text))}


def with_files(fields: Fields) -> bytes:
    """A form as browsers send it if it has a file (RFC 7578). A file that the person did not choose is empty."""
    body = b""
    for name, value in fields.items():
        file = '; filename="photo.png"\r\nContent-Type: image/png' if isinstance(value, bytes) else ""
        content = value if isinstance(value, bytes) else str(value).encode()
        body += f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n"
    return body + f"--{_BOUNDARY}--\r\n".encode()


class Tabs:
    """A browser whose tabs share the cookies."""

    def __init__(self, client: Client, agent: str = FIREFOX, language: str = "") -> None:
        self.client = client
        self.agent = agent
        self.language = language
        self.cookies: dict[str, str] = {}

    def tab(self) -> "Tab":
        return Tab(self)

    async def request(self, method: str, target: str, fields: Fields | None = None, *, with_file: bool = False) -> Received:
        headers = [("user-agent", self.agent), ("sec-fetch-site", "same-origin" if method == "POST" else "none")]
        if self.language:
            headers.append(("accept-language", self.language))
        if self.cookies:
            headers.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        body = None
        if fields is not None and with_file:
            headers.append(("content-type", f"multipart/form-data; boundary={_BOUNDARY}"))
            body = with_files(fields)
        elif fields is not None:
            headers.append(("content-type", "application/x-www-form-urlencoded"))
            body = urlencode(fields, doseq=True).encode()
        answer = await self.client.request(method, target, body=body, headers=headers)
        for name, value in answer.headers:
            if name == "set-cookie":
                cookie, _, kept = value.partition(";")[0].partition("=")
                if "Max-Age=0" in value:
                    self.cookies.pop(cookie, None)
                else:
                    self.cookies[cookie] = kept
        return answer

    @property
    def session(self) -> str | None:
        return self.cookies.get("__Host-postern_session")


class Tab:
    """One tab: its address, and the page that it shows."""

    def __init__(self, tabs: Tabs) -> None:
        self.tabs = tabs
        self.place = ""
        self.answer: Received | None = None

    @property
    def shown(self) -> Received:
        assert self.answer is not None
        return self.answer

    @property
    def page(self) -> PageReader:
        return PageReader(self.shown.body)

    @property
    def status(self) -> int:
        return self.shown.status

    async def open(self, target: str) -> "Tab":
        return await self._go("GET", target)

    async def send(self, form: int = 0, /, **fields: str | bytes | Sequence[str]) -> "Tab":
        """Sends the page's form, with these fields filled in."""
        sent = self.page.forms[form]
        return await self._go("POST", sent.action, {**sent.fields, **fields}, with_file=sent.with_file)

    async def _go(self, method: str, target: str, fields: Fields | None = None, *, with_file: bool = False) -> "Tab":
        answer = await self.tabs.request(method, target, fields, with_file=with_file)
        place = target
        for _ in range(5):
            location = answer.header("location")
            if location is None or not location.startswith("/"):
                break
            assert answer.status == 303
            place = location
            answer = await self.tabs.request("GET", location)
        self.place, self.answer = place, answer
        return self
