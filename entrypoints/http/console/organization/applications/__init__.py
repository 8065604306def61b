"""The applications of an organization, the services that people sign in to: their list, and the tabs of each."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.services.clients import is_address
from core.domain.services.services import ServiceType, SignInPolicy
from entrypoints.http.console.kit.cells import Tone, copied, in_words, mark_of, number, plain, signed, state, value_key, when, words
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Choice
from entrypoints.http.console.kit.lists import list_page
from entrypoints.http.console.kit.navigation import PagePosition, Tab
from entrypoints.http.console.kit.resources import Filter, Resource
from entrypoints.http.console.kit.visit import ActLink, ButtonLink, PageVisit, RecordHead
from entrypoints.http.console.organization.organization_tabs import (
    APPLICATIONS,
    APPLICATIONS_ENTRY,
    APPLICATIONS_TAB,
    ORGANIZATION,
    position,
)
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.client_secrets import list_client_secrets
from entrypoints.http.routes.services.service_roles import list_service_roles
from entrypoints.http.routes.services.services import change_service, create_service, delete_service, get_service, list_services

LIST: Final = APPLICATIONS
ONE: Final = f"{LIST}/{{service_slug}}"
SETTINGS: Final = f"{ONE}/settings"
LOGO: Final = f"{ONE}/logo"
SIGN_IN: Final = f"{ONE}/sign-in"
SESSIONS: Final = f"{ONE}/sessions"
NOTICES: Final = f"{ONE}/logout-notices"
SECRETS: Final = f"{ONE}/secrets"
PUBLIC_KEYS: Final = f"{ONE}/public-keys"
API_KEYS: Final = f"{ONE}/api-keys"
USER_KEYS: Final = f"{ONE}/user-keys"
USER_KEY_SETTINGS: Final = f"{ONE}/user-key-settings"
ACCESS: Final = f"{ONE}/access"
ROLES: Final = f"{ONE}/roles"
PERMISSIONS: Final = f"{ONE}/permissions"
ASSIGNMENTS: Final = f"{ONE}/assignments"
TOKENS: Final = f"{ONE}/tokens"
CLAIMS: Final = f"{ONE}/claims"
PREVIEW: Final = f"{ONE}/token-preview"
SIGNALS: Final = f"{ONE}/signals"
PEOPLE_THERE: Final = f"{ONE}/people-there"
PLANS: Final = f"{ONE}/plans"
PROXY: Final = f"{ONE}/proxy"
PROXY_PREVIEW: Final = f"{ONE}/proxy-preview"
SAML: Final = f"{ONE}/saml"
SAML_CERTIFICATE: Final = f"{ONE}/saml-certificate"
SAML_EXCHANGES: Final = f"{ONE}/saml-exchanges"
REFUSALS: Final = f"{ONE}/refusals"
FIRST_SIGN_IN: Final = f"{ONE}/first-sign-in"
TEST_SIGN_IN: Final = f"{ONE}/test-sign-in"

_OVERVIEW: Final = Tab("console.tab.overview", ONE, get_service.caller)
_SIGN_IN: Final = Tab("console.tab.signing_in", SIGN_IN, get_service.caller)
_ACCESS: Final = Tab("console.tab.access", ACCESS, list_service_roles.caller)
_CREDENTIALS: Final = Tab("console.tab.tokens", TOKENS, list_client_secrets.caller)
_SETTINGS: Final = Tab("console.tab.settings", SETTINGS, change_service.caller)
_TABS: Final = (_OVERVIEW, _SIGN_IN, _ACCESS, _CREDENTIALS, _SETTINGS)


def _below(tab: Tab) -> PagePosition:
    return PagePosition(ORGANIZATION, APPLICATIONS_ENTRY, tab, _TABS, ONE)


LIST_POSITION: Final = position(APPLICATIONS_ENTRY, APPLICATIONS_TAB)
OVERVIEW_POSITION: Final = _below(_OVERVIEW)
SIGN_IN_POSITION: Final = _below(_SIGN_IN)
ACCESS_POSITION: Final = _below(_ACCESS)
CREDENTIALS_POSITION: Final = _below(_CREDENTIALS)
SETTINGS_POSITION: Final = _below(_SETTINGS)


def above_list(visit: PageVisit) -> tuple[tuple[str, str]]:
    """The crumbs of an application's own page."""
    return ((visit.text("console.applications.title"), visit.here(LIST)),)


def above(visit: PageVisit) -> tuple[tuple[str, str], tuple[str, str]]:
    """The crumbs of a page below an application."""
    return (*above_list(visit), (visit.named(ONE), visit.here(ONE)))


POLICY: Final[Mapping[SignInPolicy, tuple[str, Tone]]] = {one: (value_key("sign_in_policy", one), Tone.PLAIN) for one in SignInPolicy}
_KNOWN: Final = (copied("id"), when("created_at"))
_SIGNS_NOBODY_IN: Final = frozenset({ServiceType.API, ServiceType.METADATA})


async def _head(visit: PageVisit) -> RecordHead:
    return head_of(visit, await visit.ask(get_service))


console.name(ONE, _head)


def head_of(visit: PageVisit, service: Any) -> RecordHead:
    """The head of an application, on each of its tabs."""
    policy, tone = POLICY[service.sign_in_policy]
    end = ActLink(visit.text("console.application.end"), visit.here(f"{SETTINGS}/end"), asks=True, kind="danger")
    return RecordHead(
        name=service.name,
        mark=mark_of(service.name, service.id, service.logo or ""),
        state=(visit.text(policy), tone),
        main=_onward(visit, service.service_type),
        known=[(visit.text(one.label), one.cell(service, visit.text, visit.path)) for one in _KNOWN],
        endings=(end,) if visit.may(delete_service) else (),
    )


def _onward(visit: PageVisit, kind: ServiceType) -> ButtonLink | None:
    if kind is ServiceType.PROXY:
        return ButtonLink(visit.text("console.proxy.title"), visit.here(PROXY))
    if kind not in _SIGNS_NOBODY_IN and visit.may(preview_tokens):
        return ButtonLink(visit.text("console.test_sign_in.title"), visit.here(TEST_SIGN_IN))
    return None


async def _kinds(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("service_type", one, visit.text)) for one in ServiceType]


def slug_of(application: Any) -> str:
    return str(application.slug)


def _new(visit: PageVisit) -> ButtonLink | None:
    """Making an application is a screen of its own."""
    if not visit.may(create_service):
        return None
    return ButtonLink(visit.text("console.applications.new"), visit.here(f"{LIST}/~new"))


APPLICATION_LIST: Final = Resource(
    name="applications",
    position=LIST_POSITION,
    at=LIST,
    listed=list_services,
    rows="services",
    columns=(
        signed(
            plain("name", beside=lambda one: one.client_id if is_address(one.client_id) else one.slug),
            lambda one: (one.name, one.id, one.logo or ""),
        ),
        words("service_type", ServiceType),
        state("sign_in_policy", POLICY, "console.field.sign_in_policy"),
        number("plan_count"),
        number("subscription_count"),
        when("created_at"),
    ),
    filters=(Filter("service_type", "console.field.service_type", _kinds),),
    parameter="service_slug",
    key=slug_of,
    main=_new,
)

PAGES: Final[Sequence[Endpoint]] = (list_page(APPLICATION_LIST),)
