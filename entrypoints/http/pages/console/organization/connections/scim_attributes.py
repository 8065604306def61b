"""The attributes of the organization's directory that fill its fields: one table, with a field and its attribute in each row."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import Refusal
from core.domain.federation.scim.mappings import FITTING_KINDS, MAPPABLE
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import MOST_FIELDS, FieldWriter
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.connections.scim import ATTRIBUTES, TOKENS
from entrypoints.http.pages.console.organization.organization_tabs import DIRECTORIES_ENTRY, SCIM_TAB, position
from entrypoints.http.pages.console.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit
from entrypoints.http.routes.federation.scim_settings import ChangedScimSettings, change_scim_settings, get_scim_settings
from entrypoints.http.routes.tenancy.profile_fields import FieldRecord, list_fields

_Rows = Annotated[Sequence[str], msgspec.Meta(max_length=MOST_FIELDS)]


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


PAGES: Final = (show_scim_attributes, send_scim_attributes)
