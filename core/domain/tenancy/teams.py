"""Teams: members of an organization under one name, with roles of the organization and of its applications."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, RoleId, TeamId, UserId
from core.domain.lines import typed_line
from core.domain.mail import Email
from core.domain.normal_forms import ascii_letters
from core.domain.record.events import Actor, Event, Target, differences
from core.frozen import Frozen

# The limit for one organization. A list shows all of its teams at once.
MOST_TEAMS: Final = 500
# Slugs of deleted teams are kept, so that no new team gets one. The limit ends the making and deleting of teams without end.
MOST_FORMER_TEAMS: Final = 10_000
# The most teams of a person that one answer to an application names.
MOST_TOLD: Final = 200
LONGEST_SLUG: Final = 50
LONGEST_NAME: Final = 100
_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,48}[a-z0-9])?")
# Room for the number that makes a slug unique.
_LONGEST_STEM: Final = LONGEST_SLUG - 6


class TeamSource(StrEnum):
    """Who manages the team's members. It never changes."""

    OWN = "own"
    DIRECTORY = "directory"


class Team(Frozen, kw_only=True):
    """`role` is the slug of the organization's role that members have by the team, or "". `role_id` names the role if it is one of the
    organization's own.
    """

    id: TeamId
    organization: OrganizationId
    slug: str
    name: str
    source: TeamSource = TeamSource.OWN
    external_id: str | None = None
    role: str = ""
    role_id: RoleId | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def is_directorys(self) -> bool:
        return self.source is TeamSource.DIRECTORY


class TeamMember(Frozen):
    user: UserId
    email: Email
    added_at: datetime
    name: str | None = None
    """None for people whom others have listed, as in the list of members."""


class TeamMembers(Frozen):
    """A part of a team's members, in the order of their ids. `next` continues the list; None at the end."""

    members: Sequence[TeamMember]
    next: UserId | None


def team_slug(text: str) -> str:
    """The slug of a new team. Raises `BadRequest`."""
    if not _SLUG.fullmatch(text):
        raise BadRequest(
            f"slug: 1 to {LONGEST_SLUG} of a-z, 0-9, - and _, with a letter or digit at both ends",
            words="short_name_malformed",
            values={"most": LONGEST_SLUG},
        )
    return text


def team_name(text: str) -> str:
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def slug_stem(name: str, otherwise: str = "team") -> str:
    """The beginning of a slug made of a name. Letters outside a-z lose their marks, or are left out. `otherwise` if none is left."""
    return re.sub(r"[^a-z0-9]+", "-", ascii_letters(name)).strip("-")[:_LONGEST_STEM].strip("-") or otherwise


def free_slug(stem: str, taken: Collection[str]) -> str:
    """The stem itself, or with the smallest number that makes it unique."""
    if stem not in taken:
        return stem
    number = 2
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"


def team_created(team: Team, actor: Actor) -> Event:
    return _event("team.created", team, actor, _facts(team))


def team_updated(before: Team, after: Team, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    old, new = ({"name": one.name, "role": one.role or None} for one in (before, after))
    details: dict[str, Json] = {"team_slug": after.slug, "name": after.name, **differences(old, new)}
    if before.external_id != after.external_id:
        details["changed"] = ["externalId"]
    return _event("team.updated", after, actor, details)


def team_deleted(team: Team, actor: Actor) -> Event:
    return _event("team.deleted", team, actor, _facts(team))


def member_added(team: Team, user: UserId, actor: Actor) -> Event:
    return _of_member("team.member.added", team, user, actor)


def member_removed_from_team(team: Team, user: UserId, actor: Actor) -> Event:
    return _of_member("team.member.removed", team, user, actor)


def _facts(team: Team) -> Mapping[str, Json]:
    return {"team_slug": team.slug, "name": team.name, "source": team.source.value, "role": team.role or None}


def _of_member(name: str, team: Team, user: UserId, actor: Actor) -> Event:
    details: Mapping[str, Json] = {"team_id": str(team.id), "team_slug": team.slug, "team_name": team.name, "role": team.role or None}
    return Event(name, actor, Target("user", str(user)), team.organization, details)


def _event(name: str, team: Team, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("team", str(team.id)), team.organization, details)
