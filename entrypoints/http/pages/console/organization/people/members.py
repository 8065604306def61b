"""Members of the organization, and the page of one of them."""

from collections.abc import Sequence
from typing import Any, Final

from core.domain.tenancy.members import MembershipOrigin
from core.domain.tenancy.roles import BuiltInRole
from entrypoints.http.pages.console.cells import Tone, copied, number, plain, role, signed, when, words
from entrypoints.http.pages.console.forms import Asked, Choice, shape
from entrypoints.http.pages.console.organization.organization_tabs import AUDIT_LOG, MEMBERS_TAB, PEOPLE, PEOPLE_ENTRY, position
from entrypoints.http.pages.console.organization.people.choices import roles
from entrypoints.http.pages.console.organization.people.one_person import ASKED, TEMPLATE, of_member
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Bulk, Filter, Resource, Section
from entrypoints.http.pages.console.visit import ButtonLink, PageVisit
from entrypoints.http.routes.record.audit import list_audit_log
from entrypoints.http.routes.services.end_users import get_end_user, lock_member, revoke_member_sessions
from entrypoints.http.routes.tenancy.invitations import create_invitation
from entrypoints.http.routes.tenancy.members import (
    change_member_role,
    get_member,
    list_members,
    remove_member,
)


def _standing(one: Any) -> tuple[str, Tone]:
    """The role in words; of a role that the organization has named itself, only that the person is a member."""
    if one.own_since is None:
        return "console.state.listed", Tone.WARN
    role = one.membership.role
    return (f"roles.{role}" if role in frozenset(BuiltInRole) else "console.state.own"), Tone.PLAIN


def called(one: Any) -> str:
    return one.user.name or str(one.user.email)


async def _all_roles(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(BuiltInRole.OWNER.value, visit.text("roles.owner")), *await roles(visit)]


MEMBERS: Final = Resource(
    name="members",
    position=position(PEOPLE_ENTRY, MEMBERS_TAB),
    at=PEOPLE,
    listed=list_members,
    rows="members",
    columns=(
        signed(
            plain(
                lambda one: one.user.name or one.user.email,
                "console.field.person",
                beside=lambda one: one.user.email if one.user.name else "",
            ),
            lambda one: (called(one), one.user.id),
        ),
        role("membership.role"),
        when("membership.created_at", "console.field.since"),
    ),
    filters=(Filter("search", "console.field.search"), Filter("role", "console.field.role", _all_roles)),
    parameter="user_id",
    key=lambda one: one.user.id,
    record=get_member,
    called=called,
    state=(lambda one: one, _standing),
    facts=(
        plain("user.email"),
        role("membership.role"),
        words("came_by", MembershipOrigin),
        when("membership.created_at", "console.field.since"),
        number("active_sessions"),
        copied("user.id", "console.field.id"),
    ),
    sections=(Section("role", shape(change_member_role, Asked("role", choices=roles, shown=lambda one: one.membership.role))),),
    acts=(
        Act("end-sessions", revoke_member_sessions, asks=True, shows=lambda one: one.active_sessions > 0),
        Act("lock", lock_member, asks=True, kind="danger"),
        Act("remove", remove_member, asks=True, kind="danger", leaves=True),
    ),
    bulks=(Bulk("remove", remove_member),),
    exported=True,
    template=TEMPLATE,
    more=of_member,
    also=(*ASKED, get_end_user),
    below=(
        # `get_person_values` admits every member, and then asks for the capability by which this endpoint is called.
        ("console.values.title", f"{PEOPLE}/{{user_id}}/fields", remove_member),
        ("console.person.what_they_did", f"{AUDIT_LOG}?actor_id={{user_id}}", list_audit_log),
        ("console.person.what_happened", f"{AUDIT_LOG}?target_type=user&target_id={{user_id}}", list_audit_log),
    ),
    main=lambda visit: (
        ButtonLink(visit.text("console.invitations.new"), visit.here(f"{PEOPLE}/invitations/~new"))
        if visit.may(create_invitation)
        else None
    ),
)

PAGES: Final = pages(MEMBERS)
