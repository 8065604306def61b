"""Own texts by place, a page with the texts of each in one language, and own texts that need a look, since ours has changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec

from core.domain.branding import POSTERN, Branding
from core.domain.errors import Conflict, Refusal
from core.domain.languages import Language
from core.domain.tenancy.members import Member
from core.domain.texts.own_texts import OPEN_TEXTS, TextPlace
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import linked, number, rows_of, sentence
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import WAS, Shape
from entrypoints.http.console.kit.own_texts import (
    COMMON,
    PlaceTexts,
    TextPages,
    faults_of,
    field_of,
    figure_of,
    grouped,
    name_of,
    place_name,
    place_texts,
    text_shape,
)
from entrypoints.http.console.kit.own_texts.names import label_of
from entrypoints.http.console.kit.sent_forms import WrongInput, body_of, changed, moved, sealed, sent_texts, texts_of
from entrypoints.http.console.kit.undo import OfferedUndo, Undoable, changing, noted, offered, undo_pages
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.routes.tenancy.texts import StoredTextRecord, TextsPatch, TextsRecord
from ports.texts import Text

_OF_NOTICE: Final = frozenset({COMMON, TextPlace.EVERYWHERE})


# More texts than these are counted in the notice, and not named.
_MOST_NAMED: Final = 3


class SavedTexts(DoneLink, frozen=True):
    """The query of a page of texts."""

    texts: Lines = ""
    """The keys of the texts that the form before has saved, with spaces between them."""


NOTHING_SAVED: Final = SavedTexts()


class PlaceRow(Frozen):
    """A line of the list."""

    place: TextPlace
    own: Sequence[tuple[Language, int]]
    """How many texts are own ones, by language."""


def place_pages(pages: TextPages) -> Sequence[Endpoint]:
    shape = text_shape(pages.changing)

    async def find(visit: PageVisit) -> PlaceTexts:
        return await place_texts(pages, visit)

    undoable = Undoable(
        name="texts",
        page=pages.page,
        at=pages.page,
        shape=shape,
        find=find,
        position=pages.position,
        fixed=lambda texts: {"language": texts.language.value},
    )

    async def show(call: AnyCall, postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        if "language" not in visit.path:
            visit.path = {**visit.path, "place": COMMON, "language": (await _languages(visit))[0].value}
        texts = await find(visit)
        present = texts_of(texts.inputs(shape), texts)
        undos = await offered(visit, texts, (undoable,))
        return Answer(await _page(pages, shape, visit, texts, present, done=call.query, undos=undos), 200)

    async def send(call: AnyCall, postern: Postern) -> Page:
        visit, texts = PageVisit(call, postern), await find(PageVisit(call, postern))
        inputs, form = texts.inputs(shape), call.body
        if form.back in texts.own:
            form = msgspec.structs.replace(form, **{field_of(form.back): ""})
        present, sent = texts_of(inputs, texts), sent_texts(inputs, form)
        own = [one for one in changed(inputs, form) if sent[one.field] != present[one.field]]
        if not own:
            return redirect(f"{visit.here(pages.page)}?done=unchanged")
        if others := [one for one in moved(inputs, form, texts) if one in own]:
            meanwhile = [(visit.text(one.label), present[one.field]) for one in others]
            return Answer(await _page(pages, shape, visit, texts, sent, meanwhile=meanwhile), status_of(Conflict()))
        try:
            async with changing(visit, noted(undoable, visit, own, texts, form)):
                fixed = {"language": texts.language.value, "version": texts.record.version or ""}
                await visit.ask(pages.changing, body=body_of(shape, form, only=own, fixed=fixed))
        except (WrongInput, Refusal) as problem:
            errors, status = faults_of(visit, problem, inputs)
            return Answer(await _page(pages, shape, visit, texts, sent, errors=errors), status)
        saved = quote_plus(" ".join(one.name for one in own))
        return redirect(f"{visit.here(pages.page)}?done=saved&texts={saved}")

    also = (pages.listing,)
    return (
        console.get(pages.at, of=pages.changing, also=also)(stated(show, f"list_{pages.name}", pages.at, query=SavedTexts)),
        console.get(pages.page, of=pages.changing, also=also)(stated(show, f"show_{pages.name}", pages.page, query=SavedTexts)),
        console.post(pages.page, of=pages.changing, also=also)(stated(send, f"send_{pages.name}", pages.page, body=shape.form)),
        *undo_pages(undoable),
    )


async def _languages(visit: PageVisit) -> Sequence[Language]:
    """Those that the organization speaks, its first one first; otherwise all, and the reader's first."""
    slug = visit.path.get("org_slug")
    brand = None if slug is None else await visit.postern.foundation.brandings.find(slug)
    if brand is not None and brand.languages:
        return brand.languages
    reader = visit.call.language
    return (reader, *(one for one in Language if one is not reader))


async def _page(
    pages: TextPages,
    shape: Shape,
    visit: PageVisit,
    texts: PlaceTexts,
    sent: Mapping[str, Any],
    *,
    errors: Mapping[str, str] = NO_ERRORS,
    meanwhile: Sequence[tuple[str, str]] = (),
    done: SavedTexts = NOTHING_SAVED,
    undos: Sequence[OfferedUndo] = (),
) -> bytes:
    is_list = texts.place == COMMON
    languages = await _languages(visit)
    others = [one for one in dict.fromkeys(each.language for each in texts.record.counts) if one not in languages]
    title = visit.text(pages.position.tab.title)
    example = {"language": texts.language.value, "texts": {texts.listed[0].key: "…"}}
    head = Head(
        title=title if is_list else place_name(visit, TextPlace(texts.place)),
        crumbs=() if is_list else ((title, visit.here(pages.at)),),
        curl=visit.curl(pages.changing, body=example),
        done=done.done,
        done_to=_named(visit, done.texts.split(), texts.language),
        errors=errors,
    )
    present = texts_of(texts.inputs(shape), texts)
    return visit.show(
        "own_texts/places.html" if is_list else "own_texts/place.html",
        pages.position,
        head,
        action=visit.here(pages.page),
        hidden={WAS: sealed(present)},
        meanwhile=meanwhile,
        undos=undos,
        text_groups=grouped(visit, texts, sent),
        spoken=texts.language,
        spoken_name=name_of(texts.language),
        languages=[(name_of(one), visit.here(pages.page, language=one.value), one is texts.language) for one in (*languages, *others)],
        preview=_preview_address(pages, visit),
        # The notice and its times are looked for in one place.
        below=[(visit.text("console.notice.title"), visit.here(pages.notice))] if pages.notice and texts.place in _OF_NOTICE else (),
        **(await _listed(pages, visit, texts, sent) if is_list else {}),
    )


def _named(visit: PageVisit, keys: Sequence[str], language: Language) -> str:
    """What the notice says of the texts that were saved. The keys stand in the address, so they may be anything."""
    names = [visit.text(label_of(OPEN_TEXTS[key])) for key in keys if key in OPEN_TEXTS]
    if not names:
        return ""
    named = "; ".join(names) if len(names) <= _MOST_NAMED else visit.text("console.own_texts.several", count=len(names))
    return visit.text("console.own_texts.in_language", texts=named, language=name_of(language))


def _preview_address(pages: TextPages, visit: PageVisit) -> str:
    """Where the pages and mails stand that somebody may look at; empty for nobody."""
    return visit.here(pages.at) if visit.may(pages.preview) else ""


async def _listed(pages: TextPages, visit: PageVisit, texts: PlaceTexts, sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the list of places shows besides the texts that most organizations change."""
    counts = texts.record.counts
    of_place = Counter(one.place for one in OPEN_TEXTS.values() if one.is_of_organizations or "org_slug" not in visit.path)
    rows = [PlaceRow(place, [(one.language, one.count) for one in counts if one.place is place]) for place in TextPlace if of_place[place]]

    def said(row: PlaceRow, text: Text) -> str:
        return ", ".join(text("console.own_texts.counted", language=name_of(one), count=count) for one, count in row.own)

    columns = (
        linked(
            sentence(lambda row, text: text(f"console.own_texts.place_{row.place}"), "console.own_texts.place"),
            lambda row, _path: visit.here(pages.page, place=row.place.value),
        ),
        sentence(said, "console.own_texts.own"),
        number(lambda row: of_place[row.place], "console.own_texts.open"),
    )
    caller = visit.call.caller
    name = caller.organization_name if isinstance(caller, Member) else "Acme"
    slug = visit.path.get("org_slug")
    brand = POSTERN if slug is None else await visit.postern.foundation.brandings.find(slug) or POSTERN
    return {
        "columns": columns,
        "rows": rows_of(columns, rows, visit.text, visit.path),
        "outdated": len(texts.record.outdated),
        "gone": len(texts.record.gone),
        "outdated_at": visit.here(pages.outdated),
        "waiting": _waiting(visit, brand) if texts.record.version is not None and brand != POSTERN else (),
        "figure": figure_of(visit, texts, sent, name),
        "stylesheet_of_look": shipped_pages().preview_stylesheet(brand.color, brand.look),
        "in_language": shipped_pages().text(texts.language),
    }


def _waiting(visit: PageVisit, brand: Branding) -> Sequence[str]:
    """Text keys of where a platform owner's yes to the organization's texts is missing."""
    if brand.texts_are_approved:
        return ()
    rules = visit.postern.foundation.installation_words.current.rules
    return [
        *(["console.own_texts.waiting_mails"] if rules.mails else []),
        *(["console.own_texts.waiting_pages"] if rules.pages else []),
    ]


_KEPT: Final = button("console.own_texts.keep")
_TAKEN: Final = button("console.own_texts.take")
_REMOVED: Final = button("console.own_texts.remove")


class ComparedForm(BoundForm, frozen=True, kw_only=True):
    """What somebody says of a text that needs a look."""

    key: Line = ""
    language: Line = ""
    version: Line = ""
    """Of the texts that the page showed."""
    step: Line = ""


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
        return Answer(await _page_outdated_page(pages, visit, await visit.ask(pages.listing), done=call.query.done), 200)

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
            return Answer(await _page_outdated_page(pages, visit, await visit.ask(pages.listing), errors=said), status)
        return redirect(f"{visit.here(pages.outdated)}?done={form.step if form.step in {_KEPT, _TAKEN, _REMOVED} else 'saved'}")

    at, also = pages.outdated, (pages.listing,)
    return (
        console.get(at, of=pages.changing, also=also)(stated(show, f"show_outdated_{pages.name}", at, query=DoneLink)),
        console.post(at, of=pages.changing, also=also)(stated(send, f"send_outdated_{pages.name}", at, body=ComparedForm)),
    )


async def _page_outdated_page(
    pages: TextPages, visit: PageVisit, record: TextsRecord, *, errors: Mapping[str, str] = NO_ERRORS, done: str = ""
) -> bytes:
    head = Head(
        title=visit.text("console.own_texts.outdated_title"),
        crumbs=((visit.text(pages.position.tab.title), visit.here(pages.at)),),
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
