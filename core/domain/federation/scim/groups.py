"""SCIM groups: the organization, the teams that the directory fills, and the changes of their members."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotImplementedHere
from core.domain.federation.scim.filters import FilterComparison
from core.domain.federation.scim.protocol import (
    InvalidPath,
    InvalidValue,
    Mutability,
    NoTarget,
    PatchOperation,
    Path,
    Verb,
    fields_of,
    parse_path,
    require_operations,
    text_of,
)
from core.domain.federation.scim.users import HeldUser
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, Unchanged
from core.frozen import Frozen

GROUP_SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
MOST_MEMBERS: Final = 20_000
"""The limit of people whom one request may name."""
# Directories write the id in quotes, though some documentation leaves the quotes out.
_MEMBER: Final = re.compile(r"\s*value\s+eq\s+(?:\"([^\"]*)\"|([^\s\"]+))\s*", re.IGNORECASE)
_OR: Final = re.compile(r"\s+or\s+", re.IGNORECASE)


NO_MAPPING: Final[Mapping[str, str]] = MappingProxyType({})


class ScimGrouping(StrEnum):
    """What the groups of an organization's directory become, besides the organization's own group."""

    ORGANIZATION = "organization"
    """Nothing: the one group is the organization."""
    TEAMS = "teams"


class DirectorySettings(Frozen):
    """The owner's settings of the organization's directory."""

    groups: ScimGrouping = ScimGrouping.ORGANIZATION
    profile_mapping: Mapping[str, str] = NO_MAPPING
    """The keys of fields by the attributes that fill them."""


class Group(Frozen, kw_only=True):
    """A group. `state` changes with everything that the group shows. Its id is the organization's, or a team's."""

    id: UUID
    name: str
    external_id: str | None
    state: str
    created_at: datetime
    updated_at: datetime


@dataclass(slots=True)
class GroupChange:
    """The members after a change: everybody in `plus`, and the present members without `minus`. If `replaced` is True, no present member
    stays unless `plus` has them.
    """

    replaced: bool = False
    plus: dict[UserId, None] = field(default_factory=dict)
    minus: dict[UserId, None] = field(default_factory=dict)
    external_id: str | Unchanged | None = UNCHANGED
    repeated: list[tuple[str, Any]] = field(default_factory=list)
    """Values for attributes that a directory cannot change, but may send back."""

    def add(self, users: Sequence[UserId]) -> None:
        for user in users:
            self.plus[user] = None
            self.minus.pop(user, None)

    def remove(self, users: Sequence[UserId]) -> None:
        for user in users:
            self.minus[user] = None
            self.plus.pop(user, None)

    def replace(self, users: Sequence[UserId]) -> None:
        self.replaced, self.plus, self.minus = True, dict.fromkeys(users), {}


class Moves(Frozen):
    """The effects of a change on people. Deactivated people can be in the group (`listed`), or leave it (`unlisted`),
    without being members.
    """

    entering: Sequence[HeldUser]
    leaving: Sequence[HeldUser]
    listed: Sequence[HeldUser]
    unlisted: Sequence[HeldUser]


def moves(change: GroupChange, people: Iterable[HeldUser]) -> Moves:
    coming: list[HeldUser] = []
    going: list[HeldUser] = []
    for held in people:
        if held.user.id in change.plus and not held.is_listed:
            coming.append(held)
        elif held.user.id not in change.plus and held.is_listed:
            going.append(held)
    return Moves(
        [held for held in coming if not held.is_deactivated],
        [held for held in going if held.is_member],
        [held for held in coming if held.is_deactivated],
        [held for held in going if not held.is_member],
    )


def group_change(operations: Sequence[PatchOperation]) -> GroupChange:
    """The change that all operations together ask for, or a refusal. It does not depend on the group."""
    require_operations(operations)
    change = GroupChange()
    for operation in operations:
        verb = operation.verb
        if operation.path:
            _change(change, verb, parse_path(operation.path, GROUP_SCHEMA), operation.value)
        elif verb is Verb.REMOVE:
            raise NoTarget("path: a remove operation needs a path")
        else:
            for name, value in fields_of(operation.value).items():
                _change(change, verb, parse_path(name, GROUP_SCHEMA), value)
    if len(change.plus) + len(change.minus) > MOST_MEMBERS:
        raise InvalidValue(f"members: at most {MOST_MEMBERS} in one request")
    return change


def whole_group(members: Sequence[Any], external_id: str | None) -> GroupChange:
    """The change that a whole resource asks for. The name is the organization's; like everything read-only, the directory's value for it is
    ignored.
    """
    if len(members) > MOST_MEMBERS:
        raise InvalidValue(f"members: at most {MOST_MEMBERS} in one request")
    change = GroupChange(external_id=text_of("externalId", external_id))
    change.replace(members_of(members))
    return change


def members_of(value: Any) -> list[UserId]:
    """The users of a list of members. Raises `InvalidValue`."""
    listed = [value] if isinstance(value, Mapping) else value
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise InvalidValue("members: a list of objects with a value")
    return [_member(one) for one in listed]


def _member(one: Any) -> UserId:
    if not isinstance(one, Mapping):
        raise InvalidValue("members: each is an object with a value")
    by_name = {name.lower(): inner for name, inner in one.items()}
    kind = by_name.get("type")
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in {"user", ""}):
        raise InvalidValue("members: only users can be in a group")
    return user_id(by_name.get("value"))


def user_id(value: Any) -> UserId:
    """The id in a member's `value`. Raises `InvalidValue`."""
    try:
        return UserId(UUID(value))
    except (ValueError, TypeError, AttributeError):
        raise InvalidValue("members: the value is not the id of a user here") from None


def compared_member(one: FilterComparison) -> UserId | None:
    """The user that a filter compares members with. None for a text that is no user's id."""
    try:
        return user_id(one.value)
    except InvalidValue:
        return None


def _change(change: GroupChange, verb: Verb, path: Path, value: Any) -> None:
    attribute, part = path.attribute, path.part
    if attribute == "members" and part is None:
        _change_members(change, verb, path.filter, value)
    elif path.filter is not None or part is not None:
        raise InvalidPath(f"path: {attribute} has no such subattribute")
    elif attribute == "externalid":
        change.external_id = None if verb is Verb.REMOVE else text_of("externalId", value)
    elif attribute in {"displayname", "id", "schemas", "meta"}:
        change.repeated.append((attribute, value))
    else:
        raise InvalidPath(f"path: {attribute} is not stored")


def _change_members(change: GroupChange, verb: Verb, selected: str | None, value: Any) -> None:
    if selected is not None:
        if verb is not Verb.REMOVE:
            raise InvalidPath("path: a filter selects members to remove")
        change.remove([_selected(part) for part in _OR.split(selected)])
    elif verb is Verb.ADD:
        change.add(members_of(value))
    elif verb is Verb.REPLACE or value is None:
        change.replace([] if value is None else members_of(value))
    else:
        change.remove(members_of(value))


def _selected(part: str) -> UserId:
    found = _MEMBER.fullmatch(part)
    if found is None:
        raise InvalidPath('path: members are selected by [value eq "id"]')
    return user_id(found[1] if found[1] is not None else found[2])


def require_same(change: GroupChange, group: Group) -> None:
    """Checks read-only attributes: directories send back what they have read, and the group's name is the
    organization's. Raises `Mutability`.
    """
    for attribute, value in change.repeated:
        if attribute == "displayname" and value == group.name:
            continue
        if attribute == "id" and value == str(group.id):
            continue
        if attribute == "schemas" and isinstance(value, Sequence) and GROUP_SCHEMA in value:
            continue
        raise Mutability(f"{attribute}: the group is the organization, whose name and id a directory cannot change")


def name_in(change: GroupChange, team: UUID) -> str | Unchanged:
    """The name that a change gives a team. Checks the read-only attributes. Raises `InvalidValue`, `Mutability`."""
    name: str | Unchanged = UNCHANGED
    for attribute, value in change.repeated:
        if attribute == "displayname":
            name = group_name(value)
        elif not (attribute == "id" and value == str(team)) and not (
            attribute == "schemas" and isinstance(value, Sequence) and GROUP_SCHEMA in value
        ):
            raise Mutability(f"{attribute}: a directory cannot change it")
    return name


def group_name(value: Any) -> str:
    """Raises `InvalidValue`."""
    name = (text_of("displayName", value) or "").strip()
    if not name:
        raise InvalidValue("displayName: a group needs a name")
    return name


def settings_changed(organization: OrganizationId, before: DirectorySettings, after: DirectorySettings, actor: Actor) -> Event:
    """The event has what has changed, before and after."""
    old, new = ({"groups": one.groups.value, "profile_mapping": dict(one.profile_mapping)} for one in (before, after))
    details = differences(old, new)
    return Event("scim_settings.updated", actor, Target("organization", str(organization)), organization, details)


def group_external_id_changed(organization: OrganizationId, actor: Actor) -> Event:
    details: dict[str, Json] = {"changed": ["externalId"], "through": "scim"}
    return Event("organization.updated", actor, Target("organization", str(organization)), organization, details)


def refuse_creation() -> NotImplementedHere:
    return NotImplementedHere(
        "The organization is the only group: assign people to it, create another organization through the API, or let the owner switch the"
        " directory's groups to teams"
    )
