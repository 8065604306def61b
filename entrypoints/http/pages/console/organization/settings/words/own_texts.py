"""The texts that the organization puts in place of ours, and from when until when its notice stands."""

from typing import Final

from entrypoints.http.pages.console.cells import when
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization.organization_tabs import SETTINGS_ENTRY, TEXTS, TEXTS_TAB, position
from entrypoints.http.pages.console.own_texts.outdated_pages import outdated_pages
from entrypoints.http.pages.console.own_texts.place_pages import place_pages
from entrypoints.http.pages.console.own_texts.preview_pages import preview_pages
from entrypoints.http.pages.console.own_texts.text_forms import TextPages
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource, Section
from entrypoints.http.routes.tenancy.texts.notices import get_notice, set_notice
from entrypoints.http.routes.tenancy.texts.previews import preview_texts, test_organization_mail
from entrypoints.http.routes.tenancy.texts.texts import change_texts, list_texts

_POSITION: Final = position(SETTINGS_ENTRY, TEXTS_TAB)
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

PAGES: Final = (*place_pages(OWN_TEXTS), *outdated_pages(OWN_TEXTS), *preview_pages(OWN_TEXTS), *pages(NOTICE))
