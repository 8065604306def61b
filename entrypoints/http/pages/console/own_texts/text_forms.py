"""The form of own texts: a field for each open text. A page shows those of one place, in one language."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.languages import Language
from core.domain.texts.own_texts import FOOTER, OPEN_TEXTS, OpenText, TextPlace
from core.domain.texts.rules import TextsRefused
from core.frozen import Frozen
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.pages.console.forms import STEP, WAS, Input, InputKind, Shape
from entrypoints.http.pages.console.navigation import PagePosition
from entrypoints.http.pages.console.sent_forms import Problem, explained
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.texts.texts import OpenTextRecord, TextsRecord

COMMON: Final = "common"
"""In place of a place: the texts that most organizations change, on one page."""
COMMON_KEYS: Final = ("sign_in.title", "sign_in.title_to", "mail_invitation.subject", FOOTER)
_OF_TABS: Final = frozenset({"page", "open_page"})
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
    fields = [(WAS, str, ""), (BACK, str, ""), *((one.field, str, "") for one in inputs)]
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


def label_of(opened: OpenText) -> str:
    """The key of what the text is called. The title of a tab often reads as the heading of its page, and what lists of mails show below a
    subject is none.
    """
    name = opened.key.rpartition(".")[2]
    kind = "tab" if name in _OF_TABS else "preview" if name == "preview" else opened.kind
    return f"console.own_texts.kind_{kind}"


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
