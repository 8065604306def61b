"""What a template shows of own texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.domain.languages import Language
from core.domain.texts.own_texts import NO_OWN_TEXTS, OPEN_TEXTS, TextKind, TextPlace
from core.domain.texts.rules import PLACEHOLDER, TextLink, paragraphs, parts
from core.frozen import Frozen
from entrypoints.http.pages.console.own_texts.text_forms import COMMON, PlaceTexts, field_of, label_of
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.texts.texts import OpenTextRecord

_HEADINGS = frozenset({TextKind.TITLE, TextKind.SUBJECT})


class ShownText(Frozen, kw_only=True):
    """One text, with its field."""

    key: str
    field: str
    label: str
    """What it is, in the reader's language."""
    ours: str
    text: str
    """What stands in the field."""
    is_own: bool
    has_paragraphs: bool
    placeholders: Sequence[str]
    """With their braces."""
    was_ours: str | None
    unlinked: bool
    preview: str
    """Where the page or mail stands that shows it, below the previews."""


class TextGroup(Frozen):
    """The texts of one page or mail."""

    heading: str
    page: str
    is_mail: bool
    texts: Sequence[ShownText]


def place_name(visit: PageVisit, place: TextPlace) -> str:
    return visit.text(f"console.own_texts.place_{place}")


def grouped(visit: PageVisit, texts: PlaceTexts, sent: Mapping[str, Any]) -> Sequence[TextGroup]:
    """In the order in which people meet them. `sent` has what stands in the fields."""
    if texts.place == COMMON:
        return [TextGroup("", "", False, [_shown(visit, texts, one, sent, place_name(visit, one.place)) for one in texts.listed])]
    pages = dict.fromkeys(one.page for one in texts.listed)
    groups = []
    for page in pages:
        of_page = [one for one in texts.listed if one.page == page]
        groups.append(
            TextGroup(_heading(visit, of_page), page, of_page[0].place.is_mail, [_shown(visit, texts, one, sent) for one in of_page])
        )
    return groups


def _shown(visit: PageVisit, texts: PlaceTexts, one: OpenTextRecord, sent: Mapping[str, Any], place: str = "") -> ShownText:
    kind = visit.text(label_of(OPEN_TEXTS[one.key]))
    return ShownText(
        key=one.key,
        field=field_of(one.key),
        # Footer and notice stand everywhere, and their names say what they are.
        label=visit.text("console.own_texts.of_place", place=place, kind=kind) if place and OPEN_TEXTS[one.key].has_ours else kind,
        ours=beneath(visit, texts, one),
        text=sent[field_of(one.key)],
        is_own=one.own is not None,
        has_paragraphs=one.kind.has_paragraphs,
        placeholders=[f"{{{name}}}" for name in one.placeholders],
        was_ours=one.was_ours,
        unlinked=one.unlinked,
        preview=f"mails/{one.page}/{texts.language}" if one.place.is_mail else f"pages/{one.page}/{texts.language}?key={one.key}",
    )


def beneath(visit: PageVisit, texts: PlaceTexts, one: OpenTextRecord) -> str:
    """What people read without the own text: for an organization, that of the installation, if it has one."""
    house = visit.postern.foundation.installation_words.current.texts if "org_slug" in visit.path else NO_OWN_TEXTS
    return house.of(texts.language).get(one.key, one.ours)


def _heading(visit: PageVisit, texts: Sequence[OpenTextRecord]) -> str:
    """What people read at the top of the page or mail, in the reader's language."""
    first = next((one for one in texts if one.kind in _HEADINGS), None)
    words = visit.postern.foundation.shipped_words.written(visit.call.language)
    if first is not None:
        return words[first.key]
    page = texts[0].page
    return next((words[key] for key in (f"{page}.page", f"{page}.title") if key in words), "") or place_name(visit, texts[0].place)


class Figure(Frozen):
    """A sign-in page and the mail of an invitation in one language, in short."""

    language: Language
    title: str
    subject: str
    footer: Sequence[Sequence[tuple[str, bool]]]
    """Paragraphs of words, each with whether it is a link."""


def figure_of(visit: PageVisit, texts: PlaceTexts, sent: Mapping[str, Any], name: str) -> Figure:
    said = {one.key: sent[field_of(one.key)].strip() or beneath(visit, texts, one) for one in texts.listed}
    values = {"organization": name}
    footer = [[_part(one) for one in parts(paragraph)] for paragraph in paragraphs(said["own.footer"]) if paragraph]
    return Figure(texts.language, said["sign_in.title"], _filled(said["mail_invitation.subject"], values), footer)


def _part(one: str | TextLink) -> tuple[str, bool]:
    return (one.words, True) if isinstance(one, TextLink) else (one, False)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
