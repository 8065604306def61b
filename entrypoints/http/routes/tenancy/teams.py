"""Teams of an organization's members."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import UserId
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import LONGEST_SLUG, Capability
from core.domain.tenancy.teams import Team, TeamSource
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    Id,
    Name,
    OrganizationPath,
    OrganizationUuid,
    PersonName,
    RoleSlug,
    UpdatedAt,
    UserUuid,
    example,
    given,
)
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.machinery.step_up import with_proof_if_needed

_TAGS = ("teams",)
_TEAMS = "/api/organizations/{org_slug}/teams"
_TEAM = f"{_TEAMS}/{{team_slug}}"
_MEMBERS = f"{_TEAM}/members"
_MEMBER = f"{_MEMBERS}/{{user_id}}"
_VIEW = able(Capability.MEMBERS_VIEW, impersonated=True)
# What a team carries outlasts an impersonation.
_GIVE = able(Capability.MEMBERS_MANAGE, impersonated=False)
_TAKE = able(Capability.MEMBERS_MANAGE, impersonated=True)

SlugOfTeam = Annotated[str, msgspec.Meta(max_length=LONGEST_SLUG), example("support")]


class TeamPath(OrganizationPath, frozen=True):
    team_slug: SlugOfTeam
    """The team's slug."""


class TeamMemberPath(OrganizationPath, frozen=True):
    team_slug: SlugOfTeam
    """The team's slug."""
    user_id: UserUuid


class NewTeam(msgspec.Struct, frozen=True, kw_only=True):
    """A team to create."""

    slug: Annotated[RoleSlug, example("support")]
    """1 to 50 characters: a-z, 0-9, - and _. The slug never changes, and no other team ever gets it, even if this team is deleted."""
    name: Annotated[Name, example("Support")]
    """1 to 100 characters."""
    role: Annotated[RoleSlug, example("support")] | None = None
    """The slug of the role that members have through the team, in addition to their own: `admin`, `member`, or a custom role. You cannot
    grant a role with permissions that you do not have.
    """


class TeamPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a team. Omitted fields keep their values."""

    name: Annotated[Name, example("Support")] | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    role: Annotated[RoleSlug, example("support")] | msgspec.UnsetType | None = msgspec.UNSET
    """The slug of the role that members have through the team; null for none."""


class TeamRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A team."""

    id: Id
    org_id: OrganizationUuid
    slug: Annotated[str, example("support")]
    """The team's slug, which never changes."""
    name: Annotated[str, example("Support")]
    """The team's name."""
    source: TeamSource
    """`own` if the organization's administrators manage the members, `directory` if its directory does."""
    external_id: Annotated[str, example("b7f2")] | None
    """The ID of the team in the directory; null if there is none."""
    role: Annotated[str, example("support")] | None
    """The slug of the role that members have through the team; null for none."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class TeamMemberRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the team. You see the name of confirmed members only."""

    user_id: UserUuid
    email: EmailAddress
    name: PersonName | None
    added_at: datetime
    """When the person was added to the team."""


class TeamMembersQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of the list."""

    after: UUID | None = None
    """The `next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The maximum number of members to return. Values above the maximum are rejected."""


class TeamMemberList(msgspec.Struct, frozen=True):
    """One page of a team's members."""

    members: Sequence[TeamMemberRecord]
    """The members on this page, sorted by ID."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(_TEAMS, caller=_VIEW, keys=True, tags=_TAGS)
async def list_teams(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[TeamRecord]:
    """List the teams of an organization

    Return all teams, sorted by slug. An organization can have at most 500.
    """
    return [_record(team) for team in await postern.tenancy.teams.list(call.caller)]


@endpoint.post(_TEAMS, caller=_GIVE, keys=True, limit=UNLIMITED, status=201, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_team(call: Call[NewTeam, None, OrganizationPath, Member], postern: Postern) -> TeamRecord:
    """Create a team

    The members of a team have the team's role in addition to their own. You cannot grant a role with permissions that you do not have.
    """
    body = call.body
    team = await postern.tenancy.teams.create(call.caller, body.slug, call.actor, name=body.name, role=body.role or "")
    return _record(team)


@endpoint.get(_TEAM, caller=_VIEW, keys=True, tags=_TAGS)
async def get_team(call: Call[None, None, TeamPath, Member], postern: Postern) -> TeamRecord:
    """Get a team

    Return the team, with the role that members have through it. To get its members, list them separately.
    """
    return _record(await postern.tenancy.teams.get(call.caller, call.path.team_slug))


@endpoint.patch(_TEAM, caller=_GIVE, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def change_team(call: Call[TeamPatch, None, TeamPath, Member], postern: Postern) -> TeamRecord:
    """Change a team

    A new role applies from the members' next requests on. You can change the role only if you have all permissions of both the old and the
    new role. If a directory manages the team, the directory sets the name. Only the owner can then set the role, after recent
    reauthentication; the role cannot have `org.roles.manage`.
    """
    body = call.body
    role = "" if body.role is None else given(body.role)
    team = await with_proof_if_needed(
        call.request,
        postern,
        lambda proved: postern.tenancy.teams.change(
            call.caller, call.path.team_slug, call.actor, name=given(body.name), role=role, proved=proved
        ),
    )
    return _record(team)


@endpoint.delete(_TEAM, caller=_TAKE, keys=True, status=204, tags=_TAGS)
async def delete_team(call: Call[None, None, TeamPath, Member], postern: Postern) -> NoBody:
    """Delete a team

    From the next request on, its members no longer have the roles that they had through the team. No other team ever gets its slug. You can
    delete a team only if you have all permissions of its role.
    """
    await postern.tenancy.teams.delete(call.caller, call.path.team_slug, call.actor)
    return NO_BODY


@endpoint.get(_MEMBERS, caller=_VIEW, keys=True, tags=_TAGS)
async def list_team_members(call: Call[None, TeamMembersQuery, TeamPath, Member], postern: Postern) -> TeamMemberList:
    """List the members of a team

    Return the members, sorted by ID. To get the next page, send the `next` of the response as `after`.
    """
    asked = call.query
    after = None if asked.after is None else UserId(asked.after)
    found = await postern.tenancy.teams.members(call.caller, call.path.team_slug, after, asked.limit)
    listed = [TeamMemberRecord(user_id=one.user, email=one.email.address, name=one.name, added_at=one.added_at) for one in found.members]
    return TeamMemberList(listed, found.next)


@endpoint.put(_MEMBER, caller=_GIVE, keys=True, limit=UNLIMITED, status=204, refuses=(BadRequest,), tags=_TAGS)
async def add_team_member(call: Call[None, None, TeamMemberPath, Member], postern: Postern) -> NoBody:
    """Add a member to a team

    From the next request on, the person has all roles of the team. You need all permissions of the team's role, and `services.manage` if
    the team has roles of services. The request can be repeated safely. If a directory manages the team, only the directory can add members.
    """
    await postern.tenancy.teams.add_member(call.caller, call.path.team_slug, UserId(call.path.user_id), call.actor)
    return NO_BODY


@endpoint.delete(_MEMBER, caller=_TAKE, keys=True, status=204, refuses=(BadRequest,), tags=_TAGS)
async def remove_team_member(call: Call[None, None, TeamMemberPath, Member], postern: Postern) -> NoBody:
    """Remove a member from a team

    From the next request on, the person no longer has the roles of the team. You need all permissions of the team's role. The request can
    be repeated safely. If a directory manages the team, only the directory can remove members.
    """
    await postern.tenancy.teams.remove_member(call.caller, call.path.team_slug, UserId(call.path.user_id), call.actor)
    return NO_BODY


_record = shown(Team, TeamRecord, named={"org_id": "organization"}, role=lambda team: team.role or None)
