"""The organization's directory by SCIM: tokens, the recorder of its requests, and what its groups are."""

import json
from collections.abc import Sequence
from typing import Final

from core.domain.federation.scim.groups import ScimGrouping
from entrypoints.http.pages.console.cells import Tone, code, number, plain, state, when
from entrypoints.http.pages.console.forms import Asked, Choice, shape
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES, DIRECTORIES_ENTRY, SCIM_TAB, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Ending, Making, Resource, Section
from entrypoints.http.pages.console.visit import ButtonLink, PageVisit
from entrypoints.http.routes.federation.scim_settings import change_scim_settings, get_scim_settings
from entrypoints.http.routes.federation.scim_tokens import create_scim_token, delete_scim_token, list_scim_exchanges, list_scim_tokens

_AT: Final = f"{DIRECTORIES}/scim"
_EXCHANGES: Final = f"{_AT}/exchanges"
_SETTINGS: Final = f"{_AT}/settings"
ATTRIBUTES: Final = f"{_AT}/attributes"
"""The template of the address of `scim_attributes.py`."""
_FIRST_REFUSAL: Final = 400
_STATES: Final = {True: ("console.state.taken", Tone.GOOD), False: ("console.state.refused", Tone.BAD)}

_OF_THE_DIRECTORY: Final = (
    ("console.scim_exchanges.title", _EXCHANGES, list_scim_exchanges),
    ("console.scim_settings.title", _SETTINGS, get_scim_settings),
    ("console.scim_attributes.title", ATTRIBUTES, get_scim_settings),
)


def _grouping(grouping: ScimGrouping) -> tuple[str, Tone]:
    return f"console.scim_groups.{grouping.value}", Tone.PLAIN


async def _groupings(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(f"console.scim_groups.{one.value}")) for one in ScimGrouping]


TOKENS: Final = Resource(
    name="scim_tokens",
    position=position(DIRECTORIES_ENTRY, SCIM_TAB),
    at=_AT,
    listed=list_scim_tokens,
    rows="tokens",
    columns=(plain("name"), code("prefix"), when("last_used_at"), when("expires_at"), when("created_at")),
    parameter="token_id",
    making=Making(shape(create_scim_token, "name", "expires_at"), secret="token"),  # noqa: S106 - the name of a field
    ending=Ending(delete_scim_token),
    elsewhere=lambda visit: (("console.scim_tokens.base_address", f"{visit.postern.foundation.public_url}/scim/v2"),),
    below=_OF_THE_DIRECTORY,
    beneath=_OF_THE_DIRECTORY,
)

EXCHANGES: Final = Resource(
    name="scim_exchanges",
    position=position(DIRECTORIES_ENTRY, SCIM_TAB),
    at=_EXCHANGES,
    listed=list_scim_exchanges,
    rows="exchanges",
    is_log=True,
    columns=(
        code(lambda one: f"{one.method} {one.path}", "console.field.request"),
        state(lambda one: one.status < _FIRST_REFUSAL, _STATES),
        number("status", "console.field.response_status_code"),
        plain("token_name"),
        when("occurred_at", "console.field.happened_at"),
    ),
    parameter="exchange_id",
    called=lambda one: f"{one.method} {one.path}",
    state=(lambda one: one.status < _FIRST_REFUSAL, _STATES.__getitem__),
    facts=(
        number("status", "console.field.response_status_code"),
        code("query"),
        code(lambda one: json.dumps(one.request, ensure_ascii=False, indent=1) if one.request else "", "console.field.request"),
        plain("reason"),
        plain("token_name"),
        when("occurred_at", "console.field.happened_at"),
    ),
    crumbs=lambda visit: ((TOKENS.text(visit, "title"), visit.here(_AT)),),
    main=lambda visit: ButtonLink(visit.text("console.scim_exchanges.again"), visit.here(_EXCHANGES), "quiet"),
)

GROUPS: Final = Resource(
    name="scim_settings",
    position=position(DIRECTORIES_ENTRY, SCIM_TAB),
    at=_SETTINGS,
    is_single=True,
    listed=get_scim_settings,
    columns=(state("groups", _grouping, "console.field.groups"),),
    sections=(Section("change", shape(change_scim_settings, Asked("groups", choices=_groupings)), whole=True),),
    crumbs=lambda visit: ((TOKENS.text(visit, "title"), visit.here(_AT)),),
)

PAGES: Final = (*pages(TOKENS), *pages(EXCHANGES), *pages(GROUPS))
