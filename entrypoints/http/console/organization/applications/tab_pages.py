"""The tabs of an application with several lists: who has access, its secrets and keys, those of its users, and its plans."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from core.domain.services.api_keys import Permission
from core.domain.services.plans import priced, written
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import code, copied, listed, number, plain, when, yes_or_no
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, Choice, shape
from entrypoints.http.console.kit.lists import new_of
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.resource_pages import pages, record_page, section_pages
from entrypoints.http.console.kit.resources import Ending, Making, Resource, Section
from entrypoints.http.console.kit.undo import undo_pages
from entrypoints.http.console.kit.visit import DoneLink, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications import APPLICATION_LIST, slug_of
from entrypoints.http.console.organization.applications.people_there import PEOPLE_THERE, PROVISIONING_STATES
from entrypoints.http.console.organization.applications.rights import ASSIGNMENTS, PERMISSIONS, ROLES
from entrypoints.http.console.organization.applications.signals import SIGNALS
from entrypoints.http.console.organization.applications.states import STATES, State, names_in, purpose, setting_rows
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.routes.federation.provisioning import get_provisioning
from entrypoints.http.routes.federation.signals import get_signals
from entrypoints.http.routes.services.api_keys import create_api_key, delete_api_key, get_api_key, list_api_keys
from entrypoints.http.routes.services.client_secrets import create_client_secret, delete_client_secret, list_client_secrets
from entrypoints.http.routes.services.plans import change_plan, create_plan, delete_plan, list_plans
from entrypoints.http.routes.services.service_roles import list_assignments, list_service_permissions, list_service_roles
from entrypoints.http.routes.services.services import get_service, list_services
from entrypoints.http.routes.services.user_keys import (
    change_user_key_settings,
    delete_user_key,
    get_user_key,
    get_user_key_settings,
    list_user_keys,
)

CLIENT_SECRETS: Final = Resource(
    name="client_secrets",
    position=applications.CREDENTIALS_POSITION,
    at=applications.SECRETS,
    listed=list_client_secrets,
    columns=(code("prefix"), when("last_used_at"), when("created_at")),
    parameter="client_secret_id",
    called=attrgetter("prefix"),
    facts=(code("prefix"), when("last_used_at"), copied("id"), when("created_at")),
    making=Making(
        shape(create_client_secret),
        secret="client_secret",  # noqa: S106 - the name of a field
        explained="console.client_secrets.new_text",
    ),
    ending=Ending(delete_client_secret),
    crumbs=applications.above,
)


async def _permissions(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, one.value, visit.text(f"console.api_keys.{one.value.replace(':', '_')}")) for one in Permission]


async def _made(_visit: PageVisit, found: Any) -> Sequence[tuple[str, int]]:
    return (("console.api_keys.user_keys", len(found.user_keys or ())),)


API_KEYS: Final = Resource(
    name="api_keys",
    position=applications.CREDENTIALS_POSITION,
    at=applications.API_KEYS,
    listed=list_api_keys,
    rows="api_keys",
    columns=(plain("name"), code("prefix"), listed("permissions"), when("last_used_at"), when("expires_at")),
    parameter="api_key_id",
    record=get_api_key,
    facts=(
        code("prefix"),
        listed("permissions"),
        when("last_used_at"),
        when("expires_at"),
        listed(lambda found: [f"{one.name} ({one.prefix})" for one in found.user_keys or ()], "console.field.made_user_keys"),
        copied("id"),
        when("created_at"),
    ),
    making=Making(
        shape(
            create_api_key,
            "name",
            Asked("permissions", choices=_permissions),
            Asked("expires_in_days", hint="console.api_keys.expires_hint"),
        ),
        secret="key",  # noqa: S106 - the name of a field
    ),
    ending=Ending(delete_api_key, counts=_made),
    crumbs=applications.above,
)


_ENABLED: Final = Asked("enabled", label="console.user_keys.enabled")
_PREFIX: Final = Asked("prefix", label="console.user_keys.prefix", hint="console.user_keys.prefix_hint")
_MOST: Final = Asked("most_keys", label="console.user_keys.most_keys")
_LONGEST: Final = Asked("longest_days", label="console.user_keys.longest_days", hint="console.user_keys.longest_hint")
_RESOURCE: Final = Asked("resource", label="console.user_keys.resource", hint="console.user_keys.resource_hint")

USER_KEYS: Final = Resource(
    name="user_keys",
    position=applications.CREDENTIALS_POSITION,
    at=applications.USER_KEYS,
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
    beneath=(("console.user_key_settings.title", applications.USER_KEY_SETTINGS, get_user_key_settings),),
    crumbs=applications.above,
)

SETTINGS: Final = Resource(
    name="user_key_settings",
    position=applications.CREDENTIALS_POSITION,
    at=applications.LIST,
    page=applications.USER_KEY_SETTINGS,
    listed=list_services,
    columns=APPLICATION_LIST.columns,
    parameter="service_slug",
    key=slug_of,
    called=lambda _settings: "",
    record=get_user_key_settings,
    facts=(yes_or_no(_ENABLED, good=True), code(_PREFIX), number(_MOST), number(_LONGEST), code(_RESOURCE)),
    sections=(Section("change", shape(change_user_key_settings, _ENABLED, _PREFIX, _MOST, _LONGEST, _RESOURCE)),),
    crumbs=lambda visit: (*applications.above(visit), (USER_KEYS.text(visit, "title"), visit.here(applications.USER_KEYS))),
    titled=lambda visit, _settings: visit.text("console.user_key_settings.title"),
)


def _amount(plan: Any) -> str:
    return written(plan.price_cents, plan.currency)


def _price(plan: Any) -> str:
    return priced(plan.price_cents, plan.currency)


_FIELDS: Final = (
    "name",
    Asked("price_cents", label="console.plans.price", hint="console.plans.price_hint", shown=_amount, currency="currency"),
    Asked("currency", hint="console.plans.currency_hint"),
    Asked("features", hint="console.plans.features_hint"),
    Asked("billing_price_id", hint="console.plans.price_id_hint"),
)

PLANS: Final = Resource(
    name="plans",
    position=applications.ACCESS_POSITION,
    at=applications.PLANS,
    listed=list_plans,
    columns=(plain("name"), plain(_price, "console.plans.price"), listed("features"), number("subscription_count"), when("created_at")),
    parameter="plan_id",
    facts=(
        plain(_price, "console.plans.price"),
        listed("features"),
        code("billing_price_id"),
        number("subscription_count"),
        copied("id"),
        when("created_at"),
    ),
    making=Making(shape(create_plan, *_FIELDS)),
    sections=(Section("change", shape(change_plan, *_FIELDS)),),
    ending=Ending(delete_plan),
    crumbs=applications.above,
)


async def _user_keys(visit: PageVisit) -> str:
    is_on = visit.may(get_user_key_settings) and (await visit.ask(get_user_key_settings)).enabled
    return await (names_in(USER_KEYS) if is_on else purpose(applications.USER_KEYS))(visit)


async def _provisioning(visit: PageVisit) -> str:
    found = PEOPLE_THERE.of_record(await visit.ask(get_provisioning))
    if found is None:
        return PEOPLE_THERE.text(visit, "empty_title")
    state = visit.text(PROVISIONING_STATES[found.state][0])
    return f"{state} · {visit.text('console.people_there.count', count=found.active_there)}" if found.active_there else state


async def _signals(visit: PageVisit) -> str:
    found = SIGNALS.of_record(await visit.ask(get_signals))
    if found is None:
        return SIGNALS.text(visit, "empty_title")
    counts = (("events_count", found.events), ("streams_count", found.streams))
    return ", ".join(SIGNALS.text(visit, name, count=len(each)) for name, each in counts)


_STATES: Final[Mapping[str, State]] = {
    **{one.at: names_in(one) for one in (ASSIGNMENTS, ROLES, PERMISSIONS, PLANS, CLIENT_SECRETS, API_KEYS)},
    **STATES,
    applications.USER_KEYS: _user_keys,
    applications.PEOPLE_THERE: _provisioning,
    applications.SIGNALS: _signals,
}
_ACCESS: Final = (
    ("console.who.question", f"{applications.ONE}/who"),
    *((one.key_of("title"), one.at) for one in (ASSIGNMENTS, ROLES, PERMISSIONS, PEOPLE_THERE, SIGNALS, PLANS)),
)
_CREDENTIALS: Final = (
    (CLIENT_SECRETS.key_of("title"), applications.SECRETS),
    ("console.public_keys.title", applications.PUBLIC_KEYS),
    (API_KEYS.key_of("title"), applications.API_KEYS),
    (USER_KEYS.key_of("title"), applications.USER_KEYS),
)


async def _tab(visit: PageVisit, position: PagePosition, pages: Sequence[tuple[str, str]], first: Resource) -> Page:
    """A row for each page. What makes another of `first` is the act of the tab."""
    page = visit.show(
        "organization/applications/tab.html",
        position,
        Head(
            title=visit.text(position.tab.label),
            crumbs=applications.above(visit),
            main=new_of(first, visit),
            curl=visit.curl(first.listed),
        ),
        rows=await setting_rows(visit, pages, _STATES),
    )
    return Answer(page, 200)


@console.get(
    applications.ACCESS,
    of=list_service_roles,
    also=(list_assignments, list_service_permissions, list_plans, get_provisioning, get_signals),
)
async def show_access(call: Call[None, DoneLink, ServicePath, Any], postern: Postern) -> Page:
    """Show who has which role in an application, and what there is to have."""
    return await _tab(PageVisit(call, postern), applications.ACCESS_POSITION, _ACCESS, ASSIGNMENTS)


@console.get(applications.TOKENS, of=list_client_secrets, also=(list_api_keys, list_user_keys, get_user_key_settings, get_service))
async def show_credentials(call: Call[None, DoneLink, ServicePath, Any], postern: Postern) -> Page:
    """Show the client secrets and keys of an application."""
    return await _tab(PageVisit(call, postern), applications.CREDENTIALS_POSITION, _CREDENTIALS, CLIENT_SECRETS)


PAGES: Final = (
    *pages(CLIENT_SECRETS),
    *pages(API_KEYS),
    *pages(USER_KEYS),
    record_page(SETTINGS),
    *(one for section in SETTINGS.sections for one in section_pages(SETTINGS, section)),
    *(one for undoable in SETTINGS.undoables for one in undo_pages(undoable)),
    *pages(PLANS),
    show_access,
    show_credentials,
)
