"""Own texts that need a look: ours has changed beneath them, or no place is left for them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.errors import Refusal
from core.domain.languages import Language
from core.domain.texts.own_texts import OPEN_TEXTS
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.own_texts.shown_texts import place_name
from entrypoints.http.pages.console.own_texts.text_forms import TextPages, faults_of, name_of
from entrypoints.http.pages.console.visit import NO_ERRORS, AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.routes.tenancy.texts.texts import StoredTextRecord, TextsPatch, TextsRecord

_KEPT: Final = button("console.own_texts.keep")
_TAKEN: Final = button("console.own_texts.take")
_REMOVED: Final = button("console.own_texts.remove")


class ComparedForm(BoundForm, frozen=True, kw_only=True):
    """What somebody says of a text that needs a look."""

    key: str = ""
    language: str = ""
    version: str = ""
    """Of the texts that the page showed."""
    step: str = ""


class OutdatedText(Frozen):
    """A text with both versions of ours."""

    stored: StoredTextRecord
    language: str
    """The name of its language."""
    place: str
    ours: str
    at: str
    """The address of the page with its field."""


def outdated_pages(pages: TextPages) -> Sequence[Endpoint]:
    async def show(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        return Answer(await _page(pages, visit, await visit.ask(pages.listing), done=call.query.done), 200)

    async def send(call: AnyCall, postern: Postern) -> Page:
        visit, form = PageVisit(call, postern), call.body
        record = await visit.ask(pages.listing)
        one = next((one for one in (*record.outdated, *record.gone) if (one.key, one.language) == (form.key, form.language)), None)
        if one is None:
            # The form was sent twice, or somebody else was quicker.
            return redirect(f"{visit.here(pages.outdated)}?done=unchanged")
        text = one.text if form.step == _KEPT and one in record.outdated else None
        try:
            await visit.ask(pages.changing, body=TextsPatch(language=one.language, texts={one.key: text}, version=form.version))
        except Refusal as problem:
            errors, status = faults_of(visit, problem, ())
            said = {"": next(iter(errors.values()))}
            return Answer(await _page(pages, visit, await visit.ask(pages.listing), errors=said), status)
        return redirect(f"{visit.here(pages.outdated)}?done={form.step if form.step in {_KEPT, _TAKEN, _REMOVED} else 'saved'}")

    at, also = pages.outdated, (pages.listing,)
    return (
        console.get(at, of=pages.changing, also=also)(stated(show, f"show_outdated_{pages.name}", at, query=DoneLink)),
        console.post(at, of=pages.changing, also=also)(stated(send, f"send_outdated_{pages.name}", at, body=ComparedForm)),
    )


async def _page(pages: TextPages, visit: PageVisit, record: TextsRecord, *, errors: Mapping[str, str] = NO_ERRORS, done: str = "") -> bytes:
    head = Head(
        title=visit.text("console.own_texts.outdated_title"),
        crumbs=((visit.text("console.own_texts.title"), visit.here(pages.at)),),
        curl=visit.curl(pages.changing, body={"language": "de", "texts": {"sign_in.title": "…"}}),
        done=done,
        errors=errors,
    )
    return visit.show(
        "own_texts/outdated.html",
        pages.position,
        head,
        action=visit.here(pages.outdated),
        version=record.version or "",
        outdated=await _both(pages, visit, record),
        gone=record.gone,
        keep=_KEPT,
        take=_TAKEN,
        remove=_REMOVED,
    )


async def _both(pages: TextPages, visit: PageVisit, record: TextsRecord) -> Sequence[OutdatedText]:
    """The list of a language has ours as it is now."""
    ours: dict[tuple[str, str], Any] = {}
    for language in dict.fromkeys(one.language for one in record.outdated):
        listed = await visit.ask(pages.listing, query={"language": language})
        ours |= {(language, one.key): one.ours for one in listed.texts}
    found = []
    for one in record.outdated:
        language, place = Language(one.language), OPEN_TEXTS[one.key].place
        at = visit.here(pages.page, place=place.value, language=language.value)
        found.append(OutdatedText(one, name_of(language), place_name(visit, place), ours[language.value, one.key], at))
    return found
