"""Members and end users of an organization, the page of one, the pages below it, and the fields of what is known of people."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.identity.profiles import Portrait
from core.domain.tenancy.members import Member, MembershipOrigin
from core.domain.tenancy.profile_fields import FieldKind, FieldWriter
from core.domain.tenancy.roles import BuiltInRole
from core.domain.tenancy.sign_in_rules import AdminFactor, AllFactor, MfaPolicy
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import (
    Cell,
    Tone,
    copied,
    linked,
    listed,
    mark_of,
    number,
    plain,
    role,
    rows_of,
    sentence,
    signed,
    when,
    words,
    yes_or_no,
)
from entrypoints.http.console.kit.declaring import console, led_to
from entrypoints.http.console.kit.forms import FIELD_ASKED, FIELD_BOUNDS, FIELD_COLUMNS, FIELD_FACTS, NEW_FIELD, Asked, Choice, shape
from entrypoints.http.console.kit.lists import latest_of
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Bulk, Ending, Filter, Making, Resource, Section
from entrypoints.http.console.kit.visit import NO_ERRORS, ButtonLink, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications import people_there
from entrypoints.http.console.organization.applications.claims import verdict_of
from entrypoints.http.console.organization.organization_tabs import (
    AUDIT_LOG,
    END_USERS_TAB,
    FIELDS_TAB,
    MEMBERS_TAB,
    PEOPLE,
    PEOPLE_ENTRY,
    SETTINGS_ENTRY,
    position,
)
from entrypoints.http.console.organization.people import agent_grants
from entrypoints.http.console.organization.people.roles import roles
from entrypoints.http.console.organization.settings.audit_sentences import sentence_of
from entrypoints.http.console.organization.settings.entry_receivers import of_person as offboarding_of
from entrypoints.http.console.organization.sign_ins import OF_PERSON, SIGN_IN_LOG
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line
from entrypoints.http.routes.federation.agent_grants import list_agent_grants
from entrypoints.http.routes.federation.provisioning import get_provisioning
from entrypoints.http.routes.federation.provisioning.runs import list_systems_of_person
from entrypoints.http.routes.federation.token_preview import list_sign_in_verdicts
from entrypoints.http.routes.identity.mfa import StatedReason
from entrypoints.http.routes.platform.sign_ins import list_sign_ins
from entrypoints.http.routes.record.audit import list_audit_log
from entrypoints.http.routes.record.entry_receivers import list_offboarding
from entrypoints.http.routes.services.end_users import (
    get_end_user,
    list_end_users,
    lock_end_user,
    lock_member,
    revoke_end_user_sessions,
    revoke_member_sessions,
)
from entrypoints.http.routes.tenancy.joining import create_invitation
from entrypoints.http.routes.tenancy.members import (
    MemberPath,
    change_member_role,
    disable_mfa_of_member,
    get_member,
    list_members,
    remove_member,
)
from entrypoints.http.routes.tenancy.profile_fields import (
    FieldValuesPatch,
    KeptOfPath,
    change_field,
    change_person_values,
    create_field,
    delete_field,
    get_person_values,
    list_fields,
)
from entrypoints.http.routes.tenancy.sign_in_rules import get_sign_in_rules

PERSON_TEMPLATE: Final = "organization/people/one_person.html"
ASKED_OF_PERSON: Final = (
    *(list_sign_ins, list_sign_in_verdicts, list_audit_log, list_agent_grants, list_systems_of_person, get_provisioning),
    *(get_sign_in_rules, list_offboarding),
)
_MOST_HAPPENED: Final = 10
_HAPPENED: Final = (
    linked(
        sentence(sentence_of, "console.field.happened"),
        lambda one, path: address(f"{AUDIT_LOG}/{{entry_id}}", {**path, "entry_id": str(one.id)}),
    ),
    when("created_at", "console.field.happened_at"),
)


class PersonsApplication(NamedTuple):
    """An application that the person may sign in to, or has used."""

    name: str
    at: str
    mark: Portrait
    verdict: tuple[str, str, Tone] | None = None
    was_there: bool = False
    last_at: datetime | None = None


async def of_member(visit: PageVisit, member: Any) -> Mapping[str, Any]:
    used = await _used(visit, member.user.id)
    loses_factor = member.mfa_enabled and visit.may(disable_mfa_of_member)
    return {
        **await _shared(visit, member.user, used),
        "is_member": True,
        "factor": await _factor(visit, member),
        "second_factor": visit.here(f"{PEOPLE}/{{user_id}}/second-factor") if loses_factor else "",
        "teams": [(slug, visit.here(f"{PEOPLE}/teams/{{team_slug}}", team_slug=slug)) for slug in member.teams],
    }


async def of_end_user(visit: PageVisit, user: Any) -> Mapping[str, Any]:
    return {**await _shared(visit, user, user), "is_member": False, "factor": None, "second_factor": "", "teams": ()}


async def _factor(visit: PageVisit, member: Any) -> tuple[str, Cell] | None:
    """The second factor in words: bad where a rule of the organization asks for one and there is none."""
    if member.mfa_enabled is None:
        return None
    label = visit.text("console.field.mfa_enabled")
    if member.mfa_enabled:
        return label, Cell("state", visit.text("console.one_person.has_factor"), tone=Tone.GOOD)
    rules = await visit.ask(get_sign_in_rules) if visit.may(get_sign_in_rules) else None
    governs = member.membership.role in {BuiltInRole.OWNER, BuiltInRole.ADMIN}
    asked = rules is not None and (
        rules.mfa_policy is MfaPolicy.REQUIRED
        or rules.all_factor is AllFactor.PASSKEY
        or (governs and rules.admin_factor is not AdminFactor.OPTIONAL)
    )
    return label, Cell(
        "state",
        visit.text("console.one_person.lacks_factor" if asked else "console.one_person.no_factor"),
        tone=Tone.BAD if asked else Tone.PLAIN,
    )


async def as_member(visit: PageVisit) -> str:
    """The page of the person as a member. Empty for others."""
    if not visit.may(get_member):
        return ""
    try:
        await visit.ask(get_member)
    except NotFound:
        return ""
    return visit.here(f"{PEOPLE}/{{user_id}}")


async def _shared(visit: PageVisit, person: Any, used: Any) -> Mapping[str, Any]:
    return {
        "likeness_of": mark_of(person.name or str(person.email), person.id, getattr(person, "picture", None) or ""),
        "latest": await latest_of(SIGN_IN_LOG, visit, OF_PERSON, person=person.id) if visit.may(list_sign_ins) else None,
        "agents": await agent_grants.of_person(visit, person.id),
        "systems": await people_there.of_person(visit, person.id),
        "applications": await _applications(visit, person.id, used),
        "why": led_to(visit, f"{PEOPLE}/users/{{user_id}}/why", user_id=person.id),
        "opens": led_to(visit, f"{PEOPLE}/users/{{user_id}}/opens", user_id=person.id),
        "offboarding": await offboarding_of(visit, person.id),
        "happened": await _happened(visit, person.id) if visit.may(list_audit_log) else None,
    }


async def _applications(visit: PageVisit, user: UUID, used: Any) -> Sequence[PersonsApplication]:
    """Whether the person may sign in to each application, and when they were there; by name."""
    found: dict[str, PersonsApplication] = {}
    for one in await _verdicts(visit, user):
        found[one.slug] = PersonsApplication(one.name, _at(visit, one.slug), mark_of(one.name, one.service_id), verdict_of(visit, one))
    for one in () if used is None else used.services:
        known = found.get(one.slug) or PersonsApplication(one.name, _at(visit, one.slug), mark_of(one.name, one.id))
        found[one.slug] = known._replace(was_there=True, last_at=one.last_login_at)
    return sorted(found.values(), key=lambda one: one.name.casefold())


def _at(visit: PageVisit, slug: str) -> str:
    return visit.here(applications.ONE, service_slug=slug)


async def _verdicts(visit: PageVisit, user: UUID) -> Sequence[Any]:
    if not visit.may(list_sign_in_verdicts):
        return ()
    try:
        return (await visit.ask(list_sign_in_verdicts, user_id=user)).services  # type: ignore[no-any-return]
    except NotFound:
        return ()  # There is no application yet.


async def _happened(visit: PageVisit, user: UUID) -> Any:
    """What happened to the person lately: columns and rows."""
    found = await visit.ask(list_audit_log, query={"target_type": "user", "target_id": str(user), "limit": _MOST_HAPPENED})
    return _HAPPENED, rows_of(visit.reachable(_HAPPENED), found.logs, visit.text, visit.path)


async def _used(visit: PageVisit, user: UUID) -> Any:
    if not visit.may(get_end_user):
        return None
    try:
        return await visit.ask(get_end_user, user_id=user)
    except NotFound:
        return None


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
    template=PERSON_TEMPLATE,
    more=of_member,
    also=(*ASKED_OF_PERSON, get_end_user),
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
    template=PERSON_TEMPLATE,
    more=of_end_user,
    also=(*ASKED_OF_PERSON, get_member),
    instead=as_member,
    acts=(Act("lock", lock_end_user, asks=True, kind="danger"),),
    ending=Ending(revoke_end_user_sessions),
    below=(
        # `get_person_values` admits every member, and then asks for the capability by which this endpoint is called.
        ("console.values.title", f"{PEOPLE}/{{user_id}}/fields", revoke_end_user_sessions),
        ("console.person.what_happened", f"{AUDIT_LOG}?target_type=user&target_id={{user_id}}", list_audit_log),
    ),
)


async def person_of(visit: PageVisit) -> tuple[Resource, Any]:
    """The record of the person's page, as the page itself finds it. Raises `NotFound`."""
    if visit.may(get_member):
        try:
            return MEMBERS, await visit.ask(get_member)
        except NotFound:
            pass
    if not visit.may(get_end_user):
        raise NotFound
    return END_USERS, await visit.ask(get_end_user)


_FACTOR_REMOVED: Final = button("console.second_factor.button")

_VALUES: Final = f"{PEOPLE}/{{user_id}}/fields"
_FACTOR: Final = f"{PEOPLE}/{{user_id}}/second-factor"
_LONGEST_REASON: Final = 500


async def _name(visit: PageVisit) -> str:
    return MEMBERS.called(await visit.ask(get_member))


console.name(MEMBERS.one, _name, beneath=_VALUES)


class ReasonForm(BoundForm, frozen=True, kw_only=True):
    reason: Annotated[str, msgspec.Meta(max_length=4 * _LONGEST_REASON)] = ""


class ValueForm(BoundForm, frozen=True, kw_only=True):
    """One value. Each field of a person is a form of its own, so nobody overwrites what somebody else has written beside it."""

    key: Line
    value: Line = ""


@console.get(_VALUES, of=get_person_values, also=(list_fields,))
async def show_values(call: Call[None, DoneLink, KeptOfPath, Member], postern: Postern) -> Page:
    """See what the organization keeps of a person"""
    return Answer(await _values(PageVisit(call, postern), done=call.query.done), 200)


@console.post(_VALUES, of=change_person_values)
async def send_value(call: Call[ValueForm, None, KeptOfPath, Member], postern: Postern) -> Page:
    """Write what the organization keeps of a person"""
    visit, key = PageVisit(call, postern), call.body.key
    field = next((one for one in await visit.ask(list_fields) if one.key == key), None)
    if field is None:
        raise NotFound
    try:
        await visit.ask(change_person_values, body=FieldValuesPatch({key: _value(field.kind, call.body.value)}))
    except Refusal as refusal:
        return Answer(await _values(visit, given={key: call.body.value}, errors={key: visit.said(refusal)}), status_of(refusal))
    return redirect(f"{visit.here(_VALUES)}?done=saved")


def _value(kind: FieldKind, given: str) -> Any:
    """What a browser sends, as the kind of field has it. A text that is no number stays a text, and is refused as such."""
    given = given.strip()
    if not given:
        return None
    if kind is FieldKind.BOOLEAN:
        return given == "yes"
    if kind is FieldKind.LIST:
        return [line.strip() for line in given.splitlines() if line.strip()]
    if kind is FieldKind.NUMBER:
        try:
            number = float(given)
        except ValueError:
            return given
        return int(number) if number.is_integer() else number
    return given


async def _values(
    visit: PageVisit, *, done: str = "", given: Mapping[str, str] = NO_ERRORS, errors: Mapping[str, str] = NO_ERRORS
) -> bytes:
    kept = await visit.ask(get_person_values)
    fields = await visit.ask(list_fields)
    head = Head(
        title=visit.text("console.values.title"),
        crumbs=(*MEMBERS.above(visit), (visit.named(MEMBERS.one, visit.text("console.field.person")), visit.here(MEMBERS.one))),
        curl=visit.curl(get_person_values),
        done=done,
        errors=errors,
    )
    may_write = visit.may(change_person_values)
    return visit.show(
        "organization/people/values.html",
        position(PEOPLE_ENTRY, END_USERS_TAB),
        head,
        action=visit.here(_VALUES),
        fields=[
            (one, given.get(one.key, _shown(kept.values.get(one.key))), may_write and FieldWriter.ADMINISTRATOR in one.written_by)
            for one in fields
        ],
    )


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "\n".join(value) if isinstance(value, list | tuple) else str(value)


@console.get(_FACTOR, of=disable_mfa_of_member, also=(get_member,))
async def ask_to_remove_second_factor(call: Call[None, None, MemberPath, Member], postern: Postern) -> Page:
    """Ask why a member's second factor is to be removed"""
    return Answer(await _factor_person(PageVisit(call, postern)), 200)


@console.post(_FACTOR, of=disable_mfa_of_member)
async def send_second_factor_removal(call: Call[ReasonForm, None, MemberPath, Member], postern: Postern) -> Page:
    """Remove MFA from a member who lost access to it"""
    visit = PageVisit(call, postern)
    try:
        await visit.ask(disable_mfa_of_member, body=StatedReason(call.body.reason))
    except NotFound:
        raise
    except Refusal as refusal:
        return Answer(await _factor_person(visit, call.body.reason, visit.said(refusal)), status_of(refusal))
    return redirect(f"{visit.here(MEMBERS.one)}?done={_FACTOR_REMOVED}")


async def _factor_person(visit: PageVisit, reason: str = "", wrong: str = "") -> bytes:
    member = await visit.ask(get_member)
    head = Head(
        title=visit.text("console.second_factor.title"),
        crumbs=(*MEMBERS.above(visit), (MEMBERS.called(member), visit.here(MEMBERS.one))),
        curl=visit.curl(disable_mfa_of_member, body={"reason": "…"}),
        errors={"reason": wrong} if wrong else NO_ERRORS,
    )
    return visit.show(
        "organization/people/second_factor.html",
        MEMBERS.position,
        head,
        action=visit.here(_FACTOR),
        back=visit.here(MEMBERS.one),
        reason=reason,
        longest=_LONGEST_REASON,
    )


FIELDS: Final = Resource(
    name="fields",
    position=position(SETTINGS_ENTRY, FIELDS_TAB),
    at=f"{PEOPLE}/fields",
    listed=list_fields,
    columns=FIELD_COLUMNS,
    parameter="key",
    key=lambda field: field.key,
    called=lambda field: field.label,
    facts=FIELD_FACTS,
    making=Making(shape(create_field, *NEW_FIELD)),
    sections=(
        Section("change", shape(change_field, "label", *FIELD_ASKED, "position")),
        Section("rule", shape(change_field, *FIELD_BOUNDS), whole=True),
    ),
    ending=Ending(delete_field, typed=lambda field: field.key),
)


PAGES: Final = (
    *pages(MEMBERS),
    *pages(END_USERS),
    show_values,
    send_value,
    ask_to_remove_second_factor,
    send_second_factor_removal,
    *pages(FIELDS),
)
