"""The organization's directory by SCIM: tokens, the recorder of its requests, its groups, and the attributes that fill fields."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import Refusal
from core.domain.federation.scim.groups import ScimGrouping
from core.domain.federation.scim.mappings import FITTING_KINDS, MAPPABLE
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import MOST_FIELDS, FieldWriter
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, code, number, plain, state, when
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, Choice, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Ending, Making, Resource, Section
from entrypoints.http.console.kit.visit import NO_ERRORS, ButtonLink, DoneLink, Head, Page, PageVisit
from entrypoints.http.console.organization.organization_tabs import DIRECTORIES, DIRECTORIES_ENTRY, SCIM_TAB, position
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, OrganizationPath
from entrypoints.http.routes.federation.scim_settings import (
    ChangedScimSettings,
    change_scim_settings,
    create_scim_token,
    delete_scim_token,
    get_scim_settings,
    list_scim_exchanges,
    list_scim_tokens,
)
from entrypoints.http.routes.tenancy.profile_fields import FieldRecord, list_fields

_AT: Final = f"{DIRECTORIES}/scim"
_EXCHANGES: Final = f"{_AT}/exchanges"
_SETTINGS: Final = f"{_AT}/settings"
ATTRIBUTES: Final = f"{_AT}/attributes"
"""The template of the address of the page of attributes."""
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


_Rows = Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_FIELDS)]


class MappingForm(BoundForm, frozen=True, kw_only=True):
    """The rows of the table. An empty attribute maps nothing to its field."""

    field: _Rows = ()
    attribute: _Rows = ()


@console.get(ATTRIBUTES, of=get_scim_settings, also=(list_fields,))
async def show_scim_attributes(call: Call[None, DoneLink, OrganizationPath, Member], postern: Postern) -> Page:
    """See which fields the attributes of the directory fill"""
    return Answer(await _table(PageVisit(call, postern), done=call.query.done), 200)


@console.post(ATTRIBUTES, of=change_scim_settings, also=(get_scim_settings, list_fields))
async def send_scim_attributes(call: Call[MappingForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Say which fields the attributes of the directory fill"""
    visit = PageVisit(call, postern)
    given = dict(zip(call.body.field, call.body.attribute, strict=False))
    chosen = [attribute for attribute in given.values() if attribute]
    twice = {key: visit.text("console.scim_attributes.twice") for key, one in given.items() if one and chosen.count(one) > 1}
    if twice:
        return Answer(await _table(visit, given=given, errors=twice), 400)
    # The table does not show fields that are gone, or that the directory may not write now.
    unseen = {one: key for one, key in (await _mapping(visit)).items() if key not in given and one not in chosen}
    mapping = {**unseen, **{attribute: key for key, attribute in given.items() if attribute}}
    try:
        await visit.ask(change_scim_settings, body=ChangedScimSettings(profile_mapping=mapping))
    except Refusal as refusal:
        return Answer(await _table(visit, given=given, errors={"": visit.said(refusal)}), status_of(refusal))
    return redirect(f"{visit.here(ATTRIBUTES)}?done=saved")


async def _mapping(visit: PageVisit) -> Mapping[str, str]:
    mapping: Mapping[str, str] = (await visit.ask(get_scim_settings)).profile_mapping
    return mapping


async def _table(
    visit: PageVisit, *, done: str = "", given: Mapping[str, str] | None = None, errors: Mapping[str, str] = NO_ERRORS
) -> bytes:
    fields: Sequence[FieldRecord] = await visit.ask(list_fields)
    mapped = {key: attribute for attribute, key in (await _mapping(visit)).items()} if given is None else given
    head = Head(
        title=visit.text("console.scim_attributes.title"),
        crumbs=((TOKENS.text(visit, "title"), visit.here(TOKENS.at)),),
        curl=visit.curl(get_scim_settings),
        done=done,
        errors=errors,
    )
    return visit.show(
        "organization/connections/scim_attributes.html",
        position(DIRECTORIES_ENTRY, SCIM_TAB),
        head,
        action=visit.here(ATTRIBUTES),
        may_write=visit.may(change_scim_settings),
        attributes=list(MAPPABLE),
        rows=[
            (one, mapped.get(one.key, ""), errors.get(one.key, ""))
            for one in fields
            if FieldWriter.DIRECTORY in one.written_by and one.kind in FITTING_KINDS
        ],
    )


PAGES: Final = (*pages(TOKENS), *pages(EXCHANGES), *pages(GROUPS), show_scim_attributes, send_scim_attributes)
