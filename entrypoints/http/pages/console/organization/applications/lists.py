"""The list of an organization's applications."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.services.clients import is_address
from core.domain.services.services import ServiceType, SignInPolicy
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.cells import Tone, in_words, number, plain, signed, state, value_key, when, words
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.lists import list_page
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.resources import Filter, Resource
from entrypoints.http.pages.console.visit import ButtonLink, PageVisit
from entrypoints.http.routes.services.services import create_service, list_services

POLICY: Final[Mapping[SignInPolicy, tuple[str, Tone]]] = {one: (value_key("sign_in_policy", one), Tone.PLAIN) for one in SignInPolicy}


async def _kinds(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("service_type", one, visit.text)) for one in ServiceType]


def slug_of(application: Any) -> str:
    return str(application.slug)


def _new(visit: PageVisit) -> ButtonLink | None:
    """Making an application is a screen of its own."""
    if not visit.may(create_service):
        return None
    return ButtonLink(visit.text("console.applications.new"), visit.here(f"{application_tabs.LIST}/~new"))


APPLICATIONS: Final = Resource(
    name="applications",
    position=application_tabs.LIST_POSITION,
    at=application_tabs.LIST,
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

PAGES: Final[Sequence[Endpoint]] = (list_page(APPLICATIONS),)
