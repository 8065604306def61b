"""Pages and mails with own texts, for those who look after the texts.

The HTML part of a mail as a page.

Programs for mail want styles in attributes, and pages of ours let no such styles in. So the styles move into the one style sheet of the
mail, and the page lets this sheet in by its hash.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.texts.own_texts import OPEN_TEXTS
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.own_texts import TextPages, language_named, name_of, place_name
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.machinery.answers import Answer, PagePolicy, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import Line
from entrypoints.http.pages.kit.declaring import PLAIN
from entrypoints.http.routes.tenancy.texts import OwnMail

# In a program for mail, the mail is one article of many. Here it is what the page is about.
_ARTICLE: Final = '<div role="article"'
_MAIN: Final = '<div role="main"'
# Each value in a mail has its quotation marks escaped, so no value can be taken for an attribute.
_STYLE: Final = re.compile(r' style="([^"]*)"')


def mail_as_page(html: str) -> tuple[bytes, PagePolicy]:
    """The page, and the policy that lets its style sheet in."""
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f' data-style="{numbers.setdefault(found[1], len(numbers))}"'

    before, begin, rest = _STYLE.sub(numbered, html.replace(_ARTICLE, _MAIN, 1)).partition("<style>")
    sheet, end, after = rest.partition("</style>")
    sheet += "".join(f'[data-style="{number}"] {{ {style} }}\n' for style, number in numbers.items())
    digest = b64encode(sha256(sheet.encode()).digest()).decode()
    return f"{before}{begin}{sheet}{end}{after}".encode(), PagePolicy(styles=(f"'sha256-{digest}'",))


_SENT: Final = button("console.own_texts.send_to_me")
_MAILS: Final = {one.page: one.place for one in OPEN_TEXTS.values() if one.place.is_mail}
# A preview is looked at, and does nothing.
_SCRIPT: Final = re.compile(r"<script\b[^>]*></script>")


class PreviewedText(msgspec.Struct, frozen=True, kw_only=True):
    """The query of the preview of a page."""

    key: Line = ""
    """The text that it must show. Not each form of a page has each of its texts."""


def preview_pages(pages: TextPages) -> Sequence[Endpoint]:
    page_at, mail_at = f"{pages.at}/pages/{{page}}/{{language}}", f"{pages.at}/mails/{{mail}}/{{language}}"
    html_at = f"{mail_at}/html"

    async def show_page(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        asked = {"on_page": visit.path["page"], "key": call.query.key, "language": language_named(visit).value}
        preview = await visit.ask(pages.preview, query=asked)
        return Answer(_SCRIPT.sub("", preview.html).encode(), 200)

    async def show_mail(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await _mail_page(pages, visit, mail_at, done=call.query.done), 200)

    async def show_html(call: AnyCall, postern: Postern) -> Page:
        preview = await _mail(pages, PageVisit(call, postern))
        page, policy = mail_as_page(preview.html)
        return Answer(page, 200, policy=policy)

    looking = (
        console.get(page_at, of=pages.preview, policy=PLAIN)(
            stated(show_page, f"preview_page_with_{pages.name}", page_at, query=PreviewedText)
        ),
        console.get(mail_at, of=pages.preview, also=() if pages.sending is None else (pages.sending,))(
            stated(show_mail, f"preview_mail_with_{pages.name}", mail_at, query=DoneLink)
        ),
        console.get(html_at, of=pages.preview, policy=PLAIN)(stated(show_html, f"preview_html_with_{pages.name}", html_at)),
    )
    if pages.sending is None:
        return looking
    sending = pages.sending

    async def send(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        try:
            await visit.ask(sending, body=OwnMail(language=language_named(visit)))
        except Refusal as problem:
            errors, status = explained(visit, problem)
            return Answer(await _mail_page(pages, visit, mail_at, errors={"": next(iter(errors.values()))}), status)
        return redirect(f"{visit.here(mail_at)}?done={_SENT}")

    sent = console.post(mail_at, of=sending, also=(pages.preview,))(stated(send, "send_own_mail", mail_at, body=BoundForm))
    return (*looking, sent)


async def _mail(pages: TextPages, visit: PageVisit) -> Any:
    """The mail that the page's address names. Raises `NotFound`, also for mails without a text that can be changed."""
    mail = visit.path["mail"]
    if mail not in _MAILS:
        raise NotFound
    return await visit.ask(pages.preview, query={"mail": mail, "language": language_named(visit).value})


async def _mail_page(pages: TextPages, visit: PageVisit, at: str, *, errors: Mapping[str, str] = NO_ERRORS, done: str = "") -> bytes:
    preview, language = await _mail(pages, visit), language_named(visit)
    place = _MAILS[visit.path["mail"]]
    crumbs = (
        (visit.text(pages.position.tab.title), visit.here(pages.at)),
        (place_name(visit, place), visit.here(pages.page, place=place.value)),
    )
    head = Head(
        title=preview.subject,
        crumbs=crumbs,
        curl=visit.curl(pages.preview) if pages.sending is None else visit.curl(pages.sending, body={"language": language.value}),
        done=done,
        errors=errors,
    )
    return visit.show(
        "own_texts/mail.html",
        pages.position,
        head,
        action="" if pages.sending is None else visit.here(at),
        spoken=language,
        spoken_name=name_of(language),
        said=preview.text,
        html_at=visit.here(f"{at}/html"),
    )
