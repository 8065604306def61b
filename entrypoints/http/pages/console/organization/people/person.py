"""Pages below a person of the organization: the values of its fields, and the second factor of a member who lost it."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.tenancy.members import Member
from core.domain.tenancy.profile_fields import FieldKind, FieldWriter
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.organization_tabs import END_USERS_TAB, PEOPLE, PEOPLE_ENTRY, position
from entrypoints.http.pages.console.organization.people.members import MEMBERS
from entrypoints.http.pages.console.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.routes.identity.mfa import StatedReason
from entrypoints.http.routes.tenancy.members import MemberPath, disable_mfa_of_member, get_member
from entrypoints.http.routes.tenancy.profile_fields import list_fields
from entrypoints.http.routes.tenancy.profile_values import FieldValuesPatch, KeptOfPath, change_person_values, get_person_values

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

    key: str
    value: str = ""


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
    return Answer(await _factor(PageVisit(call, postern)), 200)


@console.post(_FACTOR, of=disable_mfa_of_member)
async def send_second_factor_removal(call: Call[ReasonForm, None, MemberPath, Member], postern: Postern) -> Page:
    """Remove the second factor of a member who lost it"""
    visit = PageVisit(call, postern)
    try:
        await visit.ask(disable_mfa_of_member, body=StatedReason(call.body.reason))
    except NotFound:
        raise
    except Refusal as refusal:
        return Answer(await _factor(visit, call.body.reason, visit.said(refusal)), status_of(refusal))
    return redirect(f"{visit.here(MEMBERS.one)}?done={_FACTOR_REMOVED}")


async def _factor(visit: PageVisit, reason: str = "", wrong: str = "") -> bytes:
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


PAGES: Final = (show_values, send_value, ask_to_remove_second_factor, send_second_factor_removal)
