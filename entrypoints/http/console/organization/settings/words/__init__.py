"""The languages of the organization, its texts in place of ours, and from when until when its notice stands."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.languages import Language
from entrypoints.http.console.kit.cells import listed, listed_in_words, sentence, when
from entrypoints.http.console.kit.forms import Asked, shape
from entrypoints.http.console.kit.own_texts import TextPages
from entrypoints.http.console.kit.own_texts.place_pages import outdated_pages, place_pages
from entrypoints.http.console.kit.own_texts.preview_pages import preview_pages
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Resource, Section
from entrypoints.http.console.kit.rows import Row, RowField, Rows
from entrypoints.http.console.organization.organization_tabs import BRANDING_ENTRY, LANGUAGES_TAB, SETTINGS, TEXTS, TEXTS_TAB, position
from entrypoints.http.routes.tenancy.branding import change_languages, get_languages
from entrypoints.http.routes.tenancy.texts import change_texts, get_notice, list_texts, preview_texts, set_notice, test_organization_mail
from ports.texts import Text


def _spoken(record: Any, text: Text) -> Sequence[str]:
    return [one.own_name for one in record.languages] or [text("console.languages.all")]


def _first(record: Any, _text: Text) -> str:
    first: Language = next(iter(record.languages or (Language.ENGLISH,)))
    return first.own_name


def _not_reviewed(record: Any) -> Sequence[str]:
    return [one.own_name for one in record.languages or Language if not one.reviewed]


def _rows(record: Any) -> Sequence[Row]:
    return [{"language": one.value} for one in record.languages]


def _languages_of(rows: Sequence[Row]) -> Mapping[str, Any]:
    return {"languages": [one["language"] for one in rows]}


def _said(_text: Text, row: Row) -> tuple[str, str]:
    language = Language.of(row["language"])
    return (row["language"] if language is None else language.own_name), ""


_ROWS: Final = Rows(
    fields=(
        RowField(
            name="language",
            label="console.languages.language",
            # Each is called by its own name, in whatever language the page is.
            options=(("", "console.languages.choose"), *((one.value, f"console.languages.name_{one}") for one in Language)),
        ),
    ),
    one="console.languages.number",
    add="console.languages.add",
    more="console.more_choices",
    said=_said,
)

LANGUAGES: Final = Resource(
    name="languages",
    position=position(BRANDING_ENTRY, LANGUAGES_TAB),
    at=f"{SETTINGS}/languages",
    is_single=True,
    listed=get_languages,
    columns=(
        # Lists, since one name from right to left would turn a sentence.
        listed_in_words(_spoken, "console.languages.spoken"),
        sentence(_first, "console.languages.first"),
        listed(_not_reviewed, "console.languages.not_reviewed"),
    ),
    sections=(
        Section(
            "change",
            shape(
                change_languages,
                Asked("languages", rows=_ROWS, shown=_rows, stands_for=_languages_of, hint="console.languages.hint", at_once=True),
            ),
        ),
    ),
)


_POSITION: Final = position(BRANDING_ENTRY, TEXTS_TAB)
_BEGINS: Final = Asked("begins_at", label="console.notice.begins_at", hint="console.notice.begins_hint")
_ENDS: Final = Asked("ends_at", label="console.notice.ends_at", hint="console.notice.ends_hint")

NOTICE: Final = Resource(
    name="notice",
    position=_POSITION,
    at=f"{TEXTS}/notice",
    is_single=True,
    listed=get_notice,
    columns=(when(_BEGINS), when(_ENDS)),
    sections=(Section("change", shape(set_notice, _BEGINS, _ENDS), whole=True),),
    # Every member may read when it stands, and not everybody may change texts.
    crumbs=lambda visit: ((visit.text("console.own_texts.title"), visit.here(TEXTS)),) if visit.may(change_texts) else (),
)
OWN_TEXTS: Final = TextPages(
    name="organization_texts",
    at=TEXTS,
    position=_POSITION,
    listing=list_texts,
    changing=change_texts,
    preview=preview_texts,
    sending=test_organization_mail,
    notice=NOTICE.at,
)


PAGES: Final = (*pages(LANGUAGES), *place_pages(OWN_TEXTS), *outdated_pages(OWN_TEXTS), *preview_pages(OWN_TEXTS), *pages(NOTICE))
