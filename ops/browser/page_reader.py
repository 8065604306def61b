"""What a browser without scripts reads on a page: its forms with what a browser would send, its links, and its text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


@dataclass
class PageForm:
    action: str
    with_file: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    """A checkbox that is ticked has a list, as several may share a name. So have fields that share a name."""

    def take(self, name: str, value: str) -> None:
        if name in self.fields:
            kept = self.fields[name]
            self.fields[name] = [*(kept if isinstance(kept, list) else [kept]), value]
        else:
            self.fields[name] = value


class PageReader(HTMLParser):
    """Reads a page's forms with the values that a browser would send, its links, and its text."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.forms: list[PageForm] = []
        self.links: list[str] = []
        self.refresh = ""
        self.inputs: dict[str, dict[str, str | None]] = {}
        self._texts: list[str] = []
        self._goes_on = False
        self._silent = 0
        self._writing = ""
        self._choosing = ""
        self._chosen: str | None = None
        self._inert = 0
        self.feed(body.decode())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).replace("\u2060", "").split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inert += tag == "template"
        if self._inert:
            return
        if tag == "form":
            self.forms.append(PageForm(given.get("action") or "", given.get("enctype") == "multipart/form-data"))
        elif tag in {"input", "textarea", "select", "option"} and self.forms:
            self._take(tag, given)
        elif tag == "a":
            self.links.append(given.get("href") or "")
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self.refresh = (given.get("content") or "").partition("url=")[2]
        elif tag in {"style", "script"}:
            self._silent += 1
        elif tag == "wbr":
            self._goes_on = True

    def _take(self, tag: str, given: dict[str, str | None]) -> None:
        """Takes a field of the form, with its value."""
        fields, name = self.forms[-1].fields, given.get("name") or ""
        # A browser sends nothing of a field without a name. An option has none of its own.
        if not name and tag != "option":
            return
        if tag == "input":
            self.inputs[name] = given
            kind = given.get("type")
            if kind == "checkbox" and "checked" in given:
                fields.setdefault(name, []).append(given.get("value") or "on")
            elif kind != "checkbox" and (kind != "radio" or "checked" in given):
                self.forms[-1].take(name, given.get("value") or "")
        elif tag == "textarea":
            self._writing, fields[name] = name, ""
        elif tag == "select":
            self._choosing, self._chosen = name, None
        elif "selected" in given or self._chosen is None:
            self._chosen = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if self._inert:
            self._inert -= tag == "template"
            return
        if tag == "select" and self.forms and self._chosen is not None:
            self.forms[-1].take(self._choosing, self._chosen)
        if tag == "textarea":
            self._writing = ""
        if tag in {"style", "script"}:
            self._silent -= 1

    def handle_data(self, data: str) -> None:
        if self._inert:
            return
        if self._writing:
            # A browser leaves the first line break of a text area out.
            self.forms[-1].fields[self._writing] = (self.forms[-1].fields[self._writing] + data).removeprefix("\n")
            return
        if self._goes_on and self._texts:
            data = self._texts.pop() + data
        self._goes_on = False
        if not self._silent:
            self._texts.append(data)
