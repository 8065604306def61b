"""Own texts, of an organization or of the installation: their form, and what templates show of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.languages import Language
from core.domain.texts.own_texts import FOOTER, NO_OWN_TEXTS, OPEN_TEXTS, OpenText, TextKind, TextPlace
from core.domain.texts.rules import PLACEHOLDER, TextLink, TextsRefused, paragraphs, parts
from core.frozen import Frozen
from entrypoints.http.console.kit.forms import STEP, WAS, Input, InputKind, Shape
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.own_texts.names import label_of
from entrypoints.http.console.kit.sent_forms import Problem, explained
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.pages.kit.previews import MADE_UP
from entrypoints.http.routes.tenancy.texts import OpenTextRecord, TextsRecord

COMMON: Final = "common"
"""In place of a place: the texts that most organizations change, on one page."""
COMMON_KEYS: Final = ("sign_in.title", "sign_in.title_to", "mail_invitation.subject", FOOTER)
BACK: Final = "back"
"""The name of the buttons that take one of ours back. Their value is the key."""


class TextPages(Frozen, kw_only=True):
    """Whose texts they are, and the endpoints that the pages stand for."""

    name: str
    at: str
    """The template of the address of the list of places."""
    position: PagePosition
    listing: Endpoint
    changing: Endpoint
    preview: Endpoint
    sending: Endpoint | None = None
    """Sends a mail to whoever looks at it."""
    notice: str = ""
    """The template of the address of the notice's times. Empty where it has none."""

    @property
    def page(self) -> str:
        """The template of the address of one place in one language."""
        return f"{self.at}/{{place}}/{{language}}"

    @property
    def outdated(self) -> str:
        return f"{self.at}/outdated"


class PlaceTexts(Frozen):
    """What a page of texts shows."""

    place: str
    language: Language
    record: TextsRecord
    listed: Sequence[OpenTextRecord]
    own: Mapping[str, str]
    """By key. What is not there is ours."""

    def inputs(self, shape: Shape) -> Sequence[Input]:
        fields = {one.name: one for one in shape.inputs}
        return [fields[one.key] for one in self.listed]


def text_shape(changing: Endpoint) -> Shape:
    inputs = tuple(map(_input, OPEN_TEXTS.values()))
    fields = [(WAS, Lines, ""), (BACK, Line, ""), *((one.field, Lines, "") for one in inputs)]
    form: Any = msgspec.defstruct("OwnTextsForm", fields, bases=(BoundForm,), frozen=True, kw_only=True)
    return Shape(changing, inputs, form)


def _input(opened: OpenText) -> Input:
    """A field that is empty while ours is shown."""
    key = opened.key
    return Input(
        name=key,
        kind=InputKind.LONG if opened.kind.has_paragraphs else InputKind.TEXT,
        required=False,
        nullable=True,
        allowed=(),
        choices=None,
        # A longer text is refused in words, and not cut off in silence.
        attributes={},
        label=label_of(opened),
        hint="",
        default=None,
        shown=lambda texts: texts.own.get(key),
        stands_for=lambda text: {"texts": {key: text}},
    )


def field_of(key: str) -> str:
    """The name of the HTML field."""
    return key.replace(".", STEP)


def language_named(visit: PageVisit) -> Language:
    """The language in the address. Raises `NotFound`."""
    found = next((one for one in Language if one.value == visit.path["language"]), None)
    if found is None:
        raise NotFound
    return found


def name_of(language: Language) -> str:
    """As its own speakers call it."""
    return language.own_name


async def place_texts(pages: TextPages, visit: PageVisit) -> PlaceTexts:
    """The texts of the place and language in the address. Raises `NotFound`."""
    place, language = visit.path["place"], language_named(visit)
    if place != COMMON and place not in frozenset(TextPlace):
        raise NotFound
    asked = {"language": language.value} | ({} if place == COMMON else {"place": place})
    record: TextsRecord = await visit.ask(pages.listing, query=asked)
    listed = record.texts
    if place == COMMON:
        by_key = {one.key: one for one in listed}
        listed = [by_key[key] for key in COMMON_KEYS]
    if not listed:
        raise NotFound
    return PlaceTexts(place, language, record, listed, {one.key: one.own for one in listed if one.own is not None})


def faults_of(visit: PageVisit, problem: Problem, inputs: Sequence[Input]) -> tuple[Mapping[str, str], int]:
    """The errors of the form, each at its field. Of a text with two faults, the first stands."""
    if isinstance(problem, TextsRefused):
        said = {
            field_of(one.key): visit.said(BadRequest(one.message, words=one.words, values=one.values)) for one in reversed(problem.faults)
        }
        return dict(reversed(said.items())), status_of(problem)
    return explained(visit, problem, inputs)


_HEADINGS = frozenset({TextKind.TITLE, TextKind.SUBJECT})
# Mails of one place whose subjects read alike.
_ALIKE: Final = frozenset({"welcome", "joined"})


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
    page = texts[0].page
    if page in _ALIKE:
        return visit.text(f"console.own_texts.mail_{page}")
    if first is not None:
        return words[first.key]
    return next((words[key] for key in (f"{page}.page", f"{page}.title") if key in words), "") or place_name(visit, texts[0].place)


class Figure(Frozen):
    """A sign-in page and the mail of an invitation in one language, in short."""

    language: Language
    title: str
    title_to: str
    """On the way to an application."""
    subject: str
    footer: Sequence[Sequence[tuple[str, bool]]]
    """Paragraphs of words, each with whether it is a link."""


def figure_of(visit: PageVisit, texts: PlaceTexts, sent: Mapping[str, Any], name: str) -> Figure:
    said = {one.key: sent[field_of(one.key)].strip() or beneath(visit, texts, one) for one in texts.listed}
    values = {"organization": name, "service": MADE_UP["service"]}
    footer = [[_part(one) for one in parts(paragraph)] for paragraph in paragraphs(said["own.footer"]) if paragraph]
    title_to = _filled(said["sign_in.title_to"], values)
    return Figure(texts.language, said["sign_in.title"], title_to, _filled(said["mail_invitation.subject"], values), footer)


def _part(one: str | TextLink) -> tuple[str, bool]:
    return (one.words, True) if isinstance(one, TextLink) else (one, False)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
