"""The browser of the person who signs in: it stops where an application's address begins, or at a page that has nothing to fill in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import httpx

from ops.browser.page_reader import PageReader

APPLICATION: Final = "https://app.example/"
"""Nothing listens here, since the browser stops before it."""
_MOST_PAGES: Final = 12


class _Reader(PageReader):
    """Reads also how the page sends its first form, and the addresses of its frames."""

    method = ""

    def __init__(self, body: bytes) -> None:
        self.frames: list[str] = []
        super().__init__(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            self.frames.append(dict(attrs).get("src") or "")
        if tag == "form" and not self.forms:
            self.method = (dict(attrs).get("method") or "get").upper()
        super().handle_starttag(tag, attrs)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request to an address of the application."""

    address: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    content_type: str = ""
    fragment: str = ""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page at which the way ends."""

    status: int
    text: str


@dataclass
class PersonsBrowser:
    """Keeps its cookies. `asked` are the fields that the person was asked for since the last address."""

    client: httpx.Client
    email: str
    password: str
    asked: list[frozenset[str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Of the pages with a form."""
    frames: list[Arrival] = field(default_factory=list)
    """What the pages on the way load in frames."""
    answers: Mapping[str, str] = field(default_factory=lambda: {"logout": "yes", "sign-out": "yes"})
    consent: str = "allow"

    @property
    def was_asked_to_sign_in(self) -> bool:
        return any("password" in fields for fields in self.asked)

    def visit(self, address: str, form: Mapping[str, str] | None = None) -> Arrival | ShownPage:
        """Opens the address, or sends this form there, and fills in every form on the way."""
        self.asked.clear()
        self.texts.clear()
        self.frames.clear()
        answer = self.client.get(address) if form is None else self.client.post(address, data=dict(form))
        for _ in range(_MOST_PAGES):
            page = _Reader(answer.content) if not answer.has_redirect_location else None
            self.frames += [] if page is None else map(_arrival, page.frames)
            onward = answer.headers["Location"] if page is None else page.refresh
            if onward:
                onward = str(answer.url.join(onward))
                if onward.startswith(APPLICATION):
                    return _arrival(onward)
                answer = self.client.get(onward)
            elif page is None or not page.forms or answer.status_code != 200:
                return ShownPage(answer.status_code, "" if page is None else page.text)
            elif page.forms[0].action.startswith(APPLICATION):
                return _posted(page)
            else:
                answer = self._filled_in(answer, page)
        raise AssertionError(f"never ends, but comes to {answer.url}")

    def upload(self, address: str, name: str, content: bytes) -> None:
        """Signs in on the way to the form at this address, and sends it with this file."""
        answer = self.client.get(address, follow_redirects=True)
        for _ in range(_MOST_PAGES):
            page = PageReader(answer.content)
            sender = next((form for form in page.forms if form.with_file), None)
            if sender is not None:
                fields = {field: value for field, value in sender.fields.items() if field != name}
                sent = self.client.post(answer.url.join(sender.action), data=fields, files={name: ("picture.png", content, "image/png")})
                assert sent.has_redirect_location, sent.text
                return
            answer = self._filled_in(answer, page)
            while answer.has_redirect_location:
                answer = self.client.get(answer.url.join(answer.headers["Location"]))
        raise AssertionError(f"no form for a file, but {answer.url}")

    def _filled_in(self, answer: httpx.Response, page: PageReader) -> httpx.Response:
        form = page.forms[0]
        known = {"email": self.email, "password": self.password}
        self.asked.append(frozenset(form.fields))
        self.texts.append(page.text)
        filled = {name: known.get(name, value) for name, value in form.fields.items()}
        if not known.keys() & form.fields.keys():
            filled["answer"] = next((said for word, said in self.answers.items() if word in form.action), self.consent)
        return self.client.post(answer.url.join(form.action), data=filled)


def _arrival(address: str) -> Arrival:
    parts = urlsplit(address)
    query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    return Arrival(parts._replace(query="", fragment="").geturl(), query, fragment=parts.fragment)


def _posted(page: _Reader) -> Arrival:
    form = page.forms[0]
    came = _arrival(form.action)
    kind = "multipart/form-data" if form.with_file else "application/x-www-form-urlencoded"
    fields = {name: str(value) for name, value in form.fields.items() if name}
    return Arrival(came.address, came.query, fields, page.method, kind)
