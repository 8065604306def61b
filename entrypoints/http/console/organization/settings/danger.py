"""The two things that cannot be undone by the person who does them: handing the organization over, and deleting it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.tenancy.members import Member
from core.domain.tenancy.organizations import OrganizationStatus, organization_suspended
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.resource_pages import EndingForm
from entrypoints.http.console.kit.visit import NO_ERRORS, Head, Page, PageVisit, button
from entrypoints.http.console.organization.organization_tabs import (
    DANGER,
    DELETE,
    DELETE_TAB,
    HOME,
    SETTINGS,
    SETTINGS_ENTRY,
    TRANSFER,
    TRANSFER_TAB,
    position,
)
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.callers import OWNER_IN_PERSON_OF_INACTIVE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.page_addresses import ORGANIZATIONS
from entrypoints.http.routes.services.end_users import list_end_users
from entrypoints.http.routes.tenancy.members import OwnershipTransfer, list_members, transfer_ownership
from entrypoints.http.routes.tenancy.organizations import delete_organization, get_organization

_TRANSFERRED: Final = button("console.danger.transfer")

_OFFERED: Final = 20


class HeirForm(BoundForm, frozen=True, kw_only=True):
    user_id: Annotated[str, msgspec.Meta(max_length=100)] = ""


class HeirQuery(msgspec.Struct, frozen=True):
    search: Annotated[str, msgspec.Meta(max_length=400)] = ""


@console.get(DANGER, of=OWNER_IN_PERSON_OF_INACTIVE)
async def leave_for_general(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Leave for the page whose menu hands the organization over, and deletes it"""
    return redirect(PageVisit(call, postern).here(SETTINGS))


@console.get(TRANSFER, of=transfer_ownership, also=(list_members,))
async def ask_for_heir(call: Call[None, HeirQuery, OrganizationPath, Member], postern: Postern) -> Page:
    """Ask which member becomes the owner"""
    return Answer(await _heirs(PageVisit(call, postern), call.query.search.strip()), 200)


@console.post(TRANSFER, of=transfer_ownership, also=(list_members,))
async def send_heir(call: Call[HeirForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Transfer ownership to another member"""
    visit = PageVisit(call, postern)
    try:
        heir = msgspec.convert({"new_owner_user_id": call.body.user_id}, OwnershipTransfer)
    except msgspec.ValidationError:
        return Answer(await _heirs(visit, "", {"user_id": visit.text("console.danger.choose")}), 400)
    try:
        await visit.ask(transfer_ownership, body=heir)
    except NotFound:
        return Answer(await _heirs(visit, "", {"user_id": visit.text("console.danger.gone")}), 404)
    except Refusal as refusal:
        if status_of(refusal) >= 500:
            raise
        return Answer(await _heirs(visit, "", {"": visit.said(refusal)}), status_of(refusal))
    return redirect(f"{visit.here(HOME)}?done={_TRANSFERRED}")


async def _heirs(visit: PageVisit, search: str, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    found = await visit.ask(list_members, query={"limit": _OFFERED, **({"search": search} if search else {})})
    members = [
        (str(one.user.id), one.user.name or one.user.email, one.user.email) for one in found.members if one.user.id != visit.person.user
    ]
    return visit.show(
        "organization/settings/transfer.html",
        position(SETTINGS_ENTRY, TRANSFER_TAB),
        Head(
            title=visit.text("console.danger.transfer"),
            curl=visit.curl(transfer_ownership, body={"new_owner_user_id": "…"}),
            errors=errors,
        ),
        members=members,
        is_more=found.pagination.total > _OFFERED or bool(search),
        sought_member=search,
        action=visit.here(TRANSFER),
        back=visit.here(SETTINGS),
    )


@console.get(DELETE, of=delete_organization, also=(get_organization, list_end_users))
async def ask_to_delete_organization(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Ask before an organization is deleted, and say what ends with it"""
    visit = PageVisit(call, postern)
    if await _is_suspended(visit):
        raise organization_suspended()
    return Answer(await _question(visit), 200)


@console.post(DELETE, of=delete_organization, also=(get_organization, list_end_users))
async def send_deletion_of_organization(call: Call[EndingForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Delete an organization and all its data permanently"""
    visit = PageVisit(call, postern)
    if call.body.typed.strip() != call.path.org_slug:
        return Answer(await _question(visit, {"typed": visit.text("console.not_the_name")}), 400)
    await visit.ask(delete_organization)
    return redirect(ORGANIZATIONS)


async def _question(visit: PageVisit, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    called, slug = visit.call.caller.organization_name, visit.path["org_slug"]
    return visit.show(
        "question.html",
        position(SETTINGS_ENTRY, DELETE_TAB),
        Head(
            title=visit.text("console.danger.delete_title", called=called),
            curl=visit.curl(delete_organization),
            errors=errors,
        ),
        explained=visit.text("console.danger.delete_text"),
        action=visit.here(DELETE),
        back=visit.here(SETTINGS),
        button=visit.text("console.danger.delete"),
        kind="final",
        ends=await _ends(visit),
        wanted=slug,
    )


async def _is_suspended(visit: PageVisit) -> bool:
    if visit.call.caller.organization_is_active:
        return False
    found = await visit.ask(get_organization)
    return bool(found.organization.status is OrganizationStatus.SUSPENDED)


async def _ends(visit: PageVisit) -> Sequence[str]:
    found = await visit.ask(get_organization)
    counts = [("members", found.member_count), ("applications", found.service_count)]
    if visit.call.caller.organization_is_active and visit.may(list_end_users):
        counts.append(("end_users", (await visit.ask(list_end_users, query={"limit": 1})).pagination.total))
    return [visit.text(f"console.danger.{name}", count=count) for name, count in counts if count]


PAGES: Final = (leave_for_general, ask_for_heir, send_heir, ask_to_delete_organization, send_deletion_of_organization)
