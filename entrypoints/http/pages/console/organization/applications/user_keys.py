"""The keys that an application's users have for its API, and how they make them."""

from typing import Final

from entrypoints.http.pages.console.cells import code, copied, listed, number, plain, when, yes_or_no
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.lists import APPLICATIONS, slug_of
from entrypoints.http.pages.console.records import record_page, section_pages
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Resource, Section
from entrypoints.http.pages.console.undo.undo_pages import undo_pages
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.services.user_keys import (
    change_user_key_settings,
    delete_user_key,
    get_user_key,
    get_user_key_settings,
    list_user_keys,
)

_ENABLED: Final = Asked("enabled", label="console.user_keys.enabled")
_PREFIX: Final = Asked("prefix", label="console.user_keys.prefix", hint="console.user_keys.prefix_hint")
_MOST: Final = Asked("most_keys", label="console.user_keys.most_keys")
_LONGEST: Final = Asked("longest_days", label="console.user_keys.longest_days", hint="console.user_keys.longest_hint")
_RESOURCE: Final = Asked("resource", label="console.user_keys.resource", hint="console.user_keys.resource_hint")

USER_KEYS: Final = Resource(
    name="user_keys",
    position=application_tabs.TOKENS_POSITION,
    at=application_tabs.USER_KEYS,
    listed=list_user_keys,
    rows="user_keys",
    columns=(plain("name", beside="email"), code("prefix"), listed("scopes"), when("last_used_at"), when("expires_at")),
    parameter="user_key_id",
    record=get_user_key,
    facts=(
        plain("email"),
        code("prefix"),
        listed("scopes"),
        when("last_used_at"),
        when("expires_at"),
        copied("id"),
        when("created_at"),
    ),
    ending=Ending(delete_user_key),
    beneath=(("console.user_key_settings.title", application_tabs.USER_KEY_SETTINGS, get_user_key_settings),),
    crumbs=application_tabs.above,
)

SETTINGS: Final = Resource(
    name="user_key_settings",
    position=application_tabs.TOKENS_POSITION,
    at=application_tabs.LIST,
    page=application_tabs.USER_KEY_SETTINGS,
    listed=list_services,
    columns=APPLICATIONS.columns,
    parameter="service_slug",
    key=slug_of,
    called=lambda _settings: "",
    record=get_user_key_settings,
    facts=(yes_or_no(_ENABLED, good=True), code(_PREFIX), number(_MOST), number(_LONGEST), code(_RESOURCE)),
    sections=(Section("change", shape(change_user_key_settings, _ENABLED, _PREFIX, _MOST, _LONGEST, _RESOURCE)),),
    crumbs=lambda visit: (*application_tabs.above(visit), (USER_KEYS.text(visit, "title"), visit.here(application_tabs.USER_KEYS))),
    titled=lambda visit, _settings: visit.text("console.user_key_settings.title"),
)

PAGES: Final = (
    *pages(USER_KEYS),
    record_page(SETTINGS),
    *(one for section in SETTINGS.sections for one in section_pages(SETTINGS, section)),
    *(one for undoable in SETTINGS.undoables for one in undo_pages(undoable)),
)
