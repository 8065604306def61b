"""What makes pages: templates, styles and scripts that they share, and their rendering. Pages load nothing from another address.

A template contains no text of its own. It takes its texts from the catalogue, as in `{{ text("sign_in.title") }}`, and is rendered in the
reader's language, `call.language`. Moments are shown by `{{ moment(at) }}` and `{{ ago(at, now) }}`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from jinja2 import ChainableUndefined, Environment, FunctionLoader, StrictUndefined, Undefined
from markupsafe import Markup, escape

from adapters.compiled_templates import CompiledTemplates
from adapters.texts import ShippedTexts
from adapters.texts.catalogue import Catalogue
from core.domain.branding import NO_LINKS, PLAIN, POSTERN, Branding, Look, logo_path
from core.domain.identity.callers import Caller
from core.domain.languages import DEFAULT, Language, spoken_language
from core.domain.texts.own_texts import NO_OWN_TEXTS, NOTICE, InstallationWords, OwnTexts
from core.frozen import replace
from entrypoints.http.pages.kit import previews
from entrypoints.http.pages.kit.look import PageLook
from ports.texts import SpokenInstallationWords, Text

HTML: Final = "text/html; charset=utf-8"
FOREVER: Final = "public, max-age=31536000, immutable"
_FILES: Final = files(__name__)
# Pages and the console, with the texts and templates beside each page.
_HTTP: Final = Path(__file__).parents[2]
_ASSET_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_NO_WORDS: Final = InstallationWords()
_MOST_LOOKS: Final = 256
_MOST_LEAVING: Final = 256
_MOST_DEVICES: Final = 256
_WHERE_ADDRESSES_BREAK: Final = re.compile(r"(?<=[@.])(?=[^@.\d][^@.]{2})")
_LONG_NETWORK_ADDRESS: Final = re.compile(r"[\da-f:]{20,45}")
# The systems in the names that we give to devices; a person may have written any other.
_SYSTEMS: Final = frozenset(
    {"Windows", "Mac OS X", "Linux", "Ubuntu", "Debian", "Fedora", "Chrome OS", "FreeBSD", "Android", "iOS", "HarmonyOS", "KaiOS"}
)
_COMMENTS: Final = re.compile(rb"/\*.*?\*/", re.DOTALL)
# Between a selector and its rules, between declarations, and behind the name of a property.
_SPACES: Final = re.compile(rb" ?([{};,>]) ?|(?<=\w)(:) ")
# Somebody who wants light or dark pages in any case gets a stylesheet that does not ask the system.
_IN_DARK: Final = re.compile(rb"@media ?\(prefers-color-scheme: ?dark\)")
_OF_LOOK: Final = re.compile(r"(pages|preview)-([0-9a-z-]+)\.css")


class Pages:
    """Templates and assets, read once."""

    def __init__(self) -> None:
        self._texts = ShippedTexts(_HTTP)
        self._compiled = CompiledTemplates()
        self._templates: dict[tuple[Language, type[Undefined]], Environment] = {}
        self._words: SpokenInstallationWords | None = None
        self.passkeys_elsewhere = ""
        """The host that passkeys belong to, if browsers have to support related origins to use them on our pages."""
        self._assets = {file.name: file.read_bytes() for file in _FILES.iterdir() if file.name.rpartition(".")[2] in _ASSET_TYPES}
        tokens, frame, records, forms = ((_FILES / "look" / f"{name}.css").read_bytes() for name in ("tokens", "frame", "records", "forms"))
        self._assets["pages.css"] = _without_comments(tokens + self._assets["pages.css"])
        self._assets["documentation.css"] = _without_comments(tokens + self._assets["documentation.css"])
        # The styles of the account pages and of the console stand behind those of all pages, so that a page loads one stylesheet.
        self._assets["account.css"] = self._assets["pages.css"] + _without_comments(frame)
        self._assets["console.css"] = self._assets["account.css"] + _without_comments(self._assets["console.css"] + records + forms)
        for sheet in ("account", "console"):
            for look, when in ((b"light", b"not all"), (b"dark", b"all")):
                fixed = _IN_DARK.sub(b"@media " + when, self._assets[f"{sheet}.css"])
                self._assets[f"{sheet}-{look.decode()}.css"] = fixed.replace(b"color-scheme:light dark", b"color-scheme:" + look)
        for script in ("pages.js", "console.js", "puzzle.js"):
            self._assets[script] = _without_indents(self._assets[script])
        self._urls = {name: _url(name, content) for name, content in self._assets.items()}
        self.sign: Final = (_FILES / "postern.ico").read_bytes()
        self._kept_sheets: dict[str, tuple[str, bytes]] = {}
        self._sheet_url = lru_cache(_MOST_LOOKS)(self._made_sheet_url)
        # Those that were shown last are at the end.
        self._around_fields: dict[tuple[object, ...], tuple[bytes, bytes]] = {}

    def page(self, template: str, language: Language, *, brand: Branding = POSTERN, **values: Any) -> bytes:
        """Renders a template. `brand` is the branding of the organization that the page belongs to, if there is one: the page speaks one of
        the organization's languages, whatever it was asked for.
        """
        spoken = spoken_language(language, brand.languages)
        rendered = self._in(spoken).get_template(template)
        with self._laid_over(self._texts.on_page(spoken, html=True), brand):
            return rendered.render(brand=brand, **values).encode()

    def speak_for(self, words: SpokenInstallationWords) -> None:
        """From now on pages have the own texts of this installation."""
        self._words = words

    @property
    def words(self) -> InstallationWords:
        """What the installation says about own texts. A page that is kept is kept for these words."""
        return _NO_WORDS if self._words is None else self._words.current

    def _own(self, brand: Branding) -> list[OwnTexts]:
        """The own texts that stand over ours, the nearest first."""
        return self.words.over_ours(brand.texts, may_show=self.words.rules.show_on_pages(approved=brand.texts_are_approved))

    @contextmanager
    def _laid_over(self, text: Catalogue, brand: Branding) -> Iterator[None]:
        text.lay_over(*self._own(brand))
        try:
            yield
        finally:
            text.lay_over()

    def outcome(self, name: str, language: Language, *, good: bool, onward: str = "", brand: Branding = POSTERN, **values: Any) -> bytes:
        """The page for an outcome, with the texts `<name>.title` and `<name>.text`. The button after a good outcome leads to `onward`."""
        title = self.text(language, brand)(f"{name}.title", **values)
        explained = self.paragraphs(f"{name}.text", language, brand, **values)
        return self.said(title, explained, language, good=good, onward=onward, brand=brand)

    def said(
        self,
        title: str,
        explained: str,
        language: Language,
        *,
        good: bool,
        onward: str = "",
        label: str = "",
        brand: Branding = POSTERN,
        request: str = "",
        frames: Sequence[str] = (),
        beside: bool = False,
    ) -> bytes:
        """The page for an outcome, with the caller's own texts. `label` is the text on the button that leads on, in a new tab `beside` this
        page where that counts, `request` the id of the request if the page names it, and `frames` the pages of applications that it loads
        unseen.
        """
        values = {
            "title": title,
            "explained": explained,
            "good": good,
            "onward": onward,
            "label": label,
            "request": request,
            "beside": beside,
        }
        return self.page("outcome.html", language, brand=brand, frames=frames, **values)

    def leaving(
        self, language: Language, *, brand: Branding = POSTERN, action: str, fields: Mapping[str, str], title: str, label: str
    ) -> bytes:
        """The page whose form leads to another address. We render the page once for each address, and insert the fields each time."""
        spoken = self.words
        # Kept for these texts of the brand and of the installation, by their digests alone: a set of texts is large.
        named = brand if brand.texts is NO_OWN_TEXTS else replace(brand, texts=OwnTexts(brand.texts.digest))
        what = (language, named, action, title, label, spoken.texts.digest, spoken.rules)
        around = self._around_fields.pop(what, None) or self._made_around_fields(language, brand, action, title, label)
        self._around_fields[what] = around
        if len(self._around_fields) > _MOST_LEAVING:
            del self._around_fields[next(iter(self._around_fields))]
        before, after = around
        return before + "\n  ".join(_field(name, value) for name, value in fields.items()).encode() + after

    def _made_around_fields(self, language: Language, brand: Branding, action: str, title: str, label: str) -> tuple[bytes, bytes]:
        # The mark is random, so no text on the page can contain it.
        mark = token_hex()
        page = self.page("leave_form.html", language, brand=brand, action=action, hidden={mark: ""}, title=title, label=label)
        before, _, after = page.partition(_field(mark, "").encode())
        return before, after

    def stylesheet(self, brand: Branding) -> str:
        """The address of our stylesheet in the brand's looks. All looks have a whole stylesheet, so a page loads one and needs no inline
        style.
        """
        if brand.color == POSTERN.color and brand.look is PLAIN:
            return self._urls["pages.css"]
        return self._sheet_url(brand.color, brand.look)

    def _made_sheet_url(self, color: str, look: Look) -> str:
        page_look = PageLook.of(color, look)
        if page_look == PageLook():
            return self._urls["pages.css"]
        name = f"pages-{page_look.name}.css"
        self._kept_sheets.pop(name, None)
        self._kept_sheets[name] = self._sheet(name, page_look)
        if len(self._kept_sheets) > _MOST_LOOKS:
            del self._kept_sheets[next(iter(self._kept_sheets))]
        return self._kept_sheets[name][0]

    def _sheet(self, name: str, page_look: PageLook) -> tuple[str, bytes]:
        content = self._assets["pages.css"] + page_look.declarations()
        return _url(name, content), content

    @staticmethod
    def preview_stylesheet(color: str, look: Look) -> str:
        """The address of the stylesheet that shows these looks in the parts of a page with the class `preview`."""
        page_look = PageLook.of(color, look)
        return "" if page_look == PageLook() else _previewed(page_look)[0]

    def text(self, language: Language, brand: Branding = POSTERN) -> Text:
        """The texts for Python code that writes on a page of this brand. A template escapes them, like every value."""
        text, own = self._texts.on_page(spoken_language(language, brand.languages), html=False), self._own(brand)
        return _Worn(text, own) if own else text

    def event_label(self, name: str) -> str:
        """Returns the English label of an event, for the API. The console shows the same text."""
        return self._texts.written(DEFAULT)[f"console.event.{name}"]

    def paragraphs(self, key: str, language: Language, brand: Branding = POSTERN, **values: object) -> str:
        """A text for an element of its own: HTML if somebody has put their own in place of ours, since it may have links, else plain."""
        html = self._texts.on_page(spoken_language(language, brand.languages), html=True)
        with self._laid_over(html, brand):
            if html.has_own(key):
                return html.paragraphs(key, **values)
        return self.text(language, brand)(key, **values)

    def preview(self, page: str, language: Language, brand: Branding, key: str = "") -> bytes | None:
        """A page with made-up values, for those who look after its texts, whether anybody has said yes to these or not, and whether it is
        time for the notice or not. With a key, the page as it is where this text stands. None when there is no such page.
        """
        looks = brand
        if brand != POSTERN:
            looks = replace(brand, texts_are_approved=True, look=replace(brand.look, notice_from=None, notice_until=None))
        text = self.text(language, looks)
        values = {**previews.MADE_UP, **previews.SCENES.get(key, {}), **({} if brand == POSTERN else {"organization": brand.name})}
        template = previews.ELSEWHERE.get(key, previews.TEMPLATES.get(page, ""))
        if page == previews.STALE or key in previews.REFUSED:
            said = key if key in previews.REFUSED else "stale.text"
            return self.said(text("parts.problem"), self.paragraphs(said, language, looks), language, good=False, brand=looks)
        if template:
            values["title"] = text(key if key == "choose_password.title_first" else "choose_password.title_reset")
            with self._laid_over(self._texts.on_page(language, html=True), looks):
                made = self._in(language, ChainableUndefined).get_template(template).render({**values, "brand": looks})
            # Without scripts, what needs them stays unseen, and a preview has none.
            return made.replace(" hidden novalidate>", " novalidate>").encode()
        if page in previews.LEAVING:
            title, label = text(key if key in previews.TITLES else previews.LEAVING[page], **values), text("common.continue")
            return self.page("leave.html", language, brand=looks, title=title, label=label, address="#")
        if page in previews.OUTCOMES:
            named = "invitation_accepted.title_of" if page == "invitation_accepted" and brand != POSTERN else f"{page}.title"
            return self.said(text(named, **values), self.paragraphs(f"{page}.text", language, looks), language, good=True, brand=looks)
        return None

    def _in(self, language: Language, undefined: type[Undefined] = StrictUndefined) -> Environment:
        """Imported macros see the globals of the environment, and not the values of the template. So each language has an environment of
        its own, and all share the compiled templates.
        """
        made = self._templates.get((language, undefined))
        if made is None:
            made = _Environment(
                loader=FunctionLoader(_template),
                autoescape=True,
                undefined=undefined,
                trim_blocks=True,
                lstrip_blocks=True,
                auto_reload=False,
                bytecode_cache=self._compiled,
            )
            text = self._texts.on_page(language, html=True)
            made.filters["breakable"] = breakable
            made.filters["thin"] = thin
            made.filters["isolated"] = text.isolated
            made.filters["breakable_addresses"] = breakable_addresses
            made.filters["device"] = lru_cache(_MOST_DEVICES)(partial(device_in, text))
            made.globals |= {"language": language, "text": text, "moment": text.moment, "ago": text.ago}
            made.globals |= {"paragraphs": text.paragraphs, "notice_above": partial(self._notice_above, text)}
            made.globals |= {
                "asset": self.asset_url,
                "stylesheet": self.stylesheet,
                "ours": POSTERN,
                "no_links": NO_LINKS,
                "picture": logo_path,
                "passkeys_elsewhere": lambda: self.passkeys_elsewhere,
            }
            self._templates[language, undefined] = made
        return made

    def _notice_above(self, text: Catalogue, brand: Branding) -> str:
        """The own notice above a sign-in, while it stands there."""
        own = self._own(brand)
        if self._words is not None and not brand.look.has_notice_at(self._words.now()):
            # Without its text, the installation's stands there: an organization's times say nothing about that.
            own = [one for one in own if one is not brand.texts]
        text.lay_over(*own)
        try:
            return text.paragraphs(NOTICE)
        finally:
            text.lay_over(*self._own(brand))

    def asset_url(self, name: str) -> str:
        """The asset's address. It changes with the content, so browsers may keep the asset."""
        return self._urls[name]

    def asset(self, digest: str, name: str) -> tuple[bytes, str] | None:
        """The asset's content and media type. None when there is no such asset, or when the asset has changed since the page was made."""
        if name in self._assets:
            url, content = self._urls[name], self._assets[name]
        elif name in self._kept_sheets:
            url, content = self._kept_sheets[name]
        elif (said := _OF_LOOK.fullmatch(name)) and (page_look := PageLook.named(said[2])):
            # Made anew, and not kept: whoever asks may have made the address up.
            url, content = self._sheet(name, page_look) if said[1] == "pages" else _previewed(page_look)
        else:
            return None
        return (content, _ASSET_TYPES[name.rpartition(".")[2]]) if url == f"/assets/{digest}/{name}" else None


def _template(name: str) -> tuple[str, str, None] | None:
    """A template lies beside its page. One that pages share lies in a kit, which its name does not say: `console/list.html`."""
    folder, path = (_HTTP / "console", name.removeprefix("console/")) if name.startswith("console/") else (_HTTP / "pages", name)
    for file in (folder / path, folder / "kit" / path):
        if file.is_file():
            return file.read_text(encoding="utf-8"), str(file), None
    return None


def account_of(caller: Caller) -> dict[str, Any]:
    """The values for a page that says whose account it is, by `account` of `parts.html`. Only for pages of the person who is signed in."""
    return {"email": caller.email.address, "person_name": caller.profile.shown_name or ""}


def _previewed(page_look: PageLook) -> tuple[str, bytes]:
    content = page_look.declarations(".preview", ".preview", ".foot")
    return _url(f"preview-{page_look.name}.css", content), content


def breakable(value: str | Markup) -> str | Markup:
    """Lets an e-mail address or a host name break behind its @ or a dot when a line is too narrow, and a long network address behind a
    colon. Other values stay as they are. Fewer than three letters never stand alone.
    """
    if isinstance(value, Markup) or " " in value:
        return value
    if _LONG_NETWORK_ADDRESS.fullmatch(value):
        return Markup(":<wbr>").join(value.split(":"))
    return Markup("<wbr>").join(_WHERE_ADDRESSES_BREAK.split(value))


def breakable_addresses(text: str) -> Markup:
    """Lets the e-mail addresses in a sentence break as `breakable` does."""
    return Markup(" ").join(breakable(word) if "@" in word else word for word in text.split(" "))


def thin(value: int) -> str:
    """A number with thin spaces between its thousands."""
    return f"{value:,}".replace(",", "\u202f")


def device_in(text: Text, name: str) -> str:
    """The name of a device as the page says it. We name devices in English, by program and system, until somebody names them otherwise."""
    program, on, system = name.rpartition(" on ")
    return str(text("devices.named", program=program, system=system)) if on and system in _SYSTEMS else name


def _field(name: str, value: str) -> str:
    """A hidden field, written as in `leave_form.html`."""
    return f'<input type="hidden" name="{escape(name)}" value="{value if _is_plain(value) else escape(value)}">'


def _is_plain(value: str) -> bool:
    """True if the value contains nothing to escape, like base64. For a long value, this check is ten times as fast as escaping."""
    return not ("&" in value or "<" in value or ">" in value or '"' in value or "'" in value)


def _without_comments(stylesheet: bytes) -> bytes:
    """Our stylesheet as browsers get it: a fifth of the file is for the people who read it."""
    joined = b"".join(line.strip() for line in _COMMENTS.sub(b"", stylesheet).splitlines())
    return _SPACES.sub(rb"\1\2", joined).replace(b";}", b"}")


def _without_indents(script: bytes) -> bytes:
    """Our script as browsers get it: line by line, without the spaces and the lines that are for the people who read it."""
    lines = (line.strip() for line in script.splitlines())
    return b"\n".join(line for line in lines if line and not line.startswith(b"//"))


def _url(name: str, content: bytes) -> str:
    return f"/assets/{sha256(content).hexdigest()[:16]}/{name}"


@cache
def shipped_pages() -> Pages:
    """One instance for the process, since the addresses of the assets depend only on their content."""
    return Pages()


class _Worn:
    """Implements `ports.texts.Text` with own texts over the shipped ones."""

    def __init__(self, text: Catalogue, own: Sequence[OwnTexts]) -> None:
        self._text = text
        self._own = own

    @property
    def language(self) -> Language:
        return self._text.language

    def __call__(self, key: str, **values: object) -> str:
        self._text.lay_over(*self._own)
        try:
            return self._text(key, **values)
        finally:
            self._text.lay_over()

    def isolated(self, value: object) -> str:
        return self._text.isolated(value)

    def moment(self, at: datetime) -> str:
        return self._text.moment(at)

    def listed(self, things: Iterable[str]) -> str:
        return self._text.listed(things)

    def ago(self, at: datetime, now: datetime) -> str:
        return self._text.ago(at, now)


class _Environment(Environment):
    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Without this, Jinja would put a new map over the globals for each template, and each look-up would search both maps."""
        return self.globals if d is None else super().make_globals(d)
