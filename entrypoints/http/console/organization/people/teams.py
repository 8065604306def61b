"""Teams, with their members."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import Refusal
from core.domain.tenancy.members import LONGEST_SEARCH, Member
from core.domain.tenancy.teams import TeamSource
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import code, copied, linked, plain, role, rows_of, when, words
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, Choice, ShortName, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Ending, Making, Resource, Section
from entrypoints.http.console.kit.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization.organization_tabs import PEOPLE, PEOPLE_ENTRY, TEAMS_TAB, position
from entrypoints.http.console.organization.people.members import called
from entrypoints.http.console.organization.people.roles import addresses, members_called, roles
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.routes.tenancy.members import get_member, list_members
from entrypoints.http.routes.tenancy.teams import (
    TeamMemberPath,
    TeamPath,
    add_team_member,
    change_team,
    create_team,
    delete_team,
    get_team,
    list_team_members,
    list_teams,
    remove_team_member,
)

_REMOVED: Final = button("console.team_members.end")

_AT: Final = f"{PEOPLE}/teams"
_MEMBERS: Final = f"{_AT}/{{team_slug}}/members"
_REMOVE: Final = f"{_MEMBERS}/{{user_id}}/remove"
_ROLE: Final = Asked("role", choices=roles, hint="console.teams.role_hint")

TEAMS: Final = Resource(
    name="teams",
    position=position(PEOPLE_ENTRY, TEAMS_TAB),
    at=_AT,
    listed=list_teams,
    columns=(plain("name"), code("slug"), words("source", TeamSource, "console.field.filled_by"), role("role"), when("created_at")),
    parameter="team_slug",
    key=lambda team: team.slug,
    record=get_team,
    facts=(
        code("slug"),
        words("source", TeamSource, "console.field.filled_by"),
        role("role"),
        code("external_id"),
        copied("id"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(shape(create_team, "name", Asked("slug", hint="console.teams.slug_hint", derived=ShortName("name", "team")), _ROLE)),
    sections=(Section("change", shape(change_team, "name", _ROLE)),),
    ending=Ending(delete_team),
    below=(("console.team_members.title", _MEMBERS, list_team_members),),
)


async def _name(visit: PageVisit) -> str:
    return str((await visit.ask(get_team)).name)


console.name(TEAMS.one, _name, beneath=_MEMBERS)


class TeamMembersLink(DoneLink, frozen=True):
    after: UUID | None = None


class TeamMemberForm(BoundForm, frozen=True, kw_only=True):
    person: Annotated[str, msgspec.Meta(max_length=LONGEST_SEARCH)] = ""
    """An address, a name, or an id."""


_COLUMNS: Final = (
    linked(plain("email"), lambda one, path: f"/ui/o/{path['org_slug']}/people/{one.user_id}"),
    when("added_at", "console.field.added_at"),
)


@console.get(_MEMBERS, of=list_team_members, also=(add_team_member, remove_team_member, list_members))
async def show_team_members(call: Call[None, TeamMembersLink, TeamPath, Member], postern: Postern) -> Page:
    """See the members of a team"""
    visit = PageVisit(call, postern)
    return Answer(await _members(visit, after=call.query.after, done=call.query.done), 200)


@console.post(_MEMBERS, of=add_team_member)
async def send_team_member(call: Call[TeamMemberForm, None, TeamPath, Member], postern: Postern) -> Page:
    """Add a member of the organization to a team"""
    visit = PageVisit(call, postern)
    person = call.body.person.strip()
    found = await members_called(visit, person)
    if len(found) != 1:
        wrong = visit.text("console.team_members.several" if found else "console.team_members.nobody")
        status = HTTPStatus.CONFLICT if found else HTTPStatus.NOT_FOUND
        return Answer(await _members(visit, person=person, matches=found, wrong=wrong), status)
    try:
        await visit.ask(add_team_member, user_id=found[0].value)
    except Refusal as refusal:
        return Answer(await _members(visit, person=person, wrong=visit.said(refusal)), status_of(refusal))
    return redirect(f"{visit.here(_MEMBERS)}?done=saved")


@console.get(_REMOVE, of=remove_team_member, also=(get_member,))
async def ask_to_remove_team_member(call: Call[None, None, TeamMemberPath, Member], postern: Postern) -> Page:
    """Ask once before a person leaves a team"""
    visit = PageVisit(call, postern)
    member = await visit.ask(get_member)
    head = Head(
        title=visit.text("console.team_members.end_title"),
        crumbs=(*TEAMS.above(visit), (visit.named(TEAMS.one), visit.here(TEAMS.one)), (_title(visit), visit.here(_MEMBERS))),
        curl=visit.curl(remove_team_member),
    )
    page = visit.show(
        "question.html",
        TEAMS.position,
        head,
        explained=visit.text("console.team_members.end_text"),
        action=visit.here(_REMOVE),
        back=visit.here(_MEMBERS),
        button=visit.text("console.team_members.end"),
        kind="final",
        ends=(called(member),),
        wanted="",
    )
    return Answer(page, 200)


@console.post(_REMOVE, of=remove_team_member)
async def send_team_member_removal(call: Call[BoundForm, None, TeamMemberPath, Member], postern: Postern) -> Page:
    """Take a person out of a team"""
    visit = PageVisit(call, postern)
    await visit.ask(remove_team_member)
    return redirect(f"{visit.here(_MEMBERS)}?done={_REMOVED}")


def _title(visit: PageVisit) -> str:
    return visit.text("console.team_members.title")


async def _members(
    visit: PageVisit,
    *,
    after: UUID | None = None,
    done: str = "",
    wrong: str = "",
    person: str = "",
    matches: Sequence[Choice] = (),
) -> bytes:
    team = await visit.ask(get_team)
    found = await visit.ask(list_team_members, query={} if after is None else {"after": str(after)})
    may_add = team.source is TeamSource.OWN and visit.may(add_team_member)
    head = Head(
        title=_title(visit),
        crumbs=(*TEAMS.above(visit), (team.name, visit.here(TEAMS.one))),
        curl=visit.curl(list_team_members),
        done=done,
        errors={"person": wrong} if wrong else NO_ERRORS,
    )
    return visit.show(
        "organization/people/team_members.html",
        TEAMS.position,
        head,
        columns=_COLUMNS,
        rows=list(
            zip(
                rows_of(_COLUMNS, found.members, visit.text, visit.path),
                [visit.here(_REMOVE, user_id=one.user_id) for one in found.members],
                strict=True,
            )
        ),
        may_add=may_add,
        may_remove=team.source is TeamSource.OWN and visit.may(remove_team_member),
        given=person,
        matches=matches,
        people=await addresses(visit) if may_add else (),
        action=visit.here(_MEMBERS),
        older=None if found.next is None else {"after": str(found.next)},
        newer=None if after is None else {},
    )


PAGES: Final = (*pages(TEAMS), show_team_members, send_team_member, ask_to_remove_team_member, send_team_member_removal)
