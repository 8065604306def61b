"""End users of the organization's applications."""

from typing import Final

from entrypoints.http.pages.console.cells import copied, listed, number, plain, signed, when, yes_or_no
from entrypoints.http.pages.console.organization.organization_tabs import AUDIT_LOG, END_USERS_TAB, PEOPLE, PEOPLE_ENTRY, position
from entrypoints.http.pages.console.organization.people.one_person import ASKED, TEMPLATE, as_member, of_end_user
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Act, Ending, Filter, Resource
from entrypoints.http.routes.record.audit import list_audit_log
from entrypoints.http.routes.services.end_users import get_end_user, list_end_users, lock_end_user, revoke_end_user_sessions
from entrypoints.http.routes.tenancy.members import get_member

END_USERS: Final = Resource(
    name="end_users",
    position=position(PEOPLE_ENTRY, END_USERS_TAB),
    at=f"{PEOPLE}/users",
    listed=list_end_users,
    rows="users",
    columns=(
        signed(
            plain(lambda one: one.name or one.email, "console.field.person", beside=lambda one: one.email if one.name else ""),
            lambda one: (one.name or str(one.email), one.id),
        ),
        listed("services", "console.field.applications"),
        yes_or_no("mfa_enabled", good=True),
        when("last_login_at"),
        when("created_at"),
    ),
    filters=(Filter("search", "console.field.search"),),
    parameter="user_id",
    record=get_end_user,
    called=lambda one: one.name or str(one.email),
    facts=(
        plain("email"),
        yes_or_no("email_verified"),
        number("sessions.active_count", "console.field.active_sessions"),
        yes_or_no("mfa_enabled", good=True),
        listed(lambda one: [identity.provider for identity in one.linked_identities], "console.field.linked_identities"),
        when("last_login_at"),
        copied("id"),
        when("created_at"),
    ),
    exported=True,
    template=TEMPLATE,
    more=of_end_user,
    also=(*ASKED, get_member),
    instead=as_member,
    acts=(Act("lock", lock_end_user, asks=True, kind="danger"),),
    ending=Ending(revoke_end_user_sessions),
    below=(
        # `get_person_values` admits every member, and then asks for the capability by which this endpoint is called.
        ("console.values.title", f"{PEOPLE}/{{user_id}}/fields", revoke_end_user_sessions),
        ("console.person.what_happened", f"{AUDIT_LOG}?target_type=user&target_id={{user_id}}", list_audit_log),
    ),
)

PAGES: Final = pages(END_USERS)
