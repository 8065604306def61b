"""The client secrets and the API keys of an application."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from core.domain.services.api_keys import Permission
from entrypoints.http.pages.console.cells import code, copied, listed, plain, when
from entrypoints.http.pages.console.forms import Asked, Choice, shape
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.services.api_keys import create_api_key, delete_api_key, get_api_key, list_api_keys
from entrypoints.http.routes.services.client_secrets import create_client_secret, delete_client_secret, list_client_secrets

CLIENT_SECRETS: Final = Resource(
    name="client_secrets",
    position=application_tabs.TOKENS_POSITION,
    at=application_tabs.SECRETS,
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
    crumbs=application_tabs.above,
)


async def _permissions(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, one.value, visit.text(f"console.api_keys.{one.value.replace(':', '_')}")) for one in Permission]


async def _made(_visit: PageVisit, found: Any) -> Sequence[tuple[str, int]]:
    return (("console.api_keys.user_keys", len(found.user_keys or ())),)


API_KEYS: Final = Resource(
    name="api_keys",
    position=application_tabs.TOKENS_POSITION,
    at=application_tabs.API_KEYS,
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
    crumbs=application_tabs.above,
)

PAGES: Final = (*pages(CLIENT_SECRETS), *pages(API_KEYS))
