"""The groups of a directory in SCIM (RFC 7644): the organization and its teams; and the search among people and groups (3.4.3)."""

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import Conflict, Forbidden, NotFound, NotImplementedHere, PreconditionFailed, TeamLimitExceeded
from core.domain.federation.scim.filters import OF_GROUPS, OF_USERS, Comparable, Filter, parse_filter
from core.domain.federation.scim.groups import GROUP_SCHEMA, GroupChange, group_change, whole_group
from core.domain.federation.scim.protocol import InvalidFilter, InvalidValue
from core.domain.federation.scim.resources import (
    WantedAttributes,
    group_location,
    group_resource,
    group_version,
    is_known,
    list_response,
    projected,
)
from core.domain.federation.scim.tokens import ScimHolder
from core.usecases.federation.scim.users import Search
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, AnswerHeader, NoBody
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import beside_the_loop
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Line, example
from entrypoints.http.routes.federation.scim_bodies import (
    CHANGE_REFUSALS,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    SEARCH_REFUSALS,
    ScimList,
    ScimMeta,
    ScimPatchBody,
    ScimQuery,
    ScimSearchBody,
    ScimText,
    ShownAttributes,
    count_of,
    declared,
    filter_of,
    known_version,
    meta_example,
    order_of,
    require_schema,
    start_of,
    version_of,
)
from entrypoints.http.routes.federation.scim_users import encoded_users
from ports.federation.scim import FoundGroup

_GROUPS: Final = "/scim/v2/Groups"
_GROUP: Final = f"{_GROUPS}/{{group_id}}"
_MEMBERS: Final = "members"
_USER_ID: Final = "0199d3a0-0000-7000-8000-000000000001"
_PIECE: Final = 64 << 10
_CREATED: Final = AnswerHeader(
    "Location", "The URL of the group.", "https://id.example.org/scim/v2/Groups/0199d3a0-0000-7000-8000-000000000002"
)
_encode: Final = msgspec.json.Encoder().encode


class ScimGroupMemberBody(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the group."""

    value: Annotated[Line, example(_USER_ID)]
    """The user's ID."""
    ref: Line | None = msgspec.field(name="$ref", default=None)
    """The URL of the user."""
    type: Annotated[Line, example("User")] | None = None
    """Always `User`."""


class ScimGroupBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group to create or replace."""

    schemas: Annotated[Sequence[Line], example([GROUP_SCHEMA])] = ()
    """The schema of this resource."""
    display_name: Annotated[ScimText, example("Support")] | None = None
    """The name of the group. The organization's name is read-only: another name is ignored."""
    external_id: Annotated[ScimText, example("b7f2")] | None = None
    """The ID of the group in the directory."""
    members: Sequence[ScimGroupMemberBody] | None = None
    """All members of the group. To replace a group, always send the list, even if it is empty."""


class ScimGroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the group. Excluded attributes are absent."""

    value: Annotated[str, example(_USER_ID)] | UnsetType = UNSET
    """The user's ID."""
    ref: str | UnsetType = msgspec.field(name="$ref", default=UNSET)
    """The URL of the user."""
    type: Annotated[str, example("User")] | UnsetType = UNSET
    """Always `User`."""


class ScimGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The organization, or a team. Excluded attributes are absent."""

    schemas: Annotated[Sequence[str], example([GROUP_SCHEMA])]
    """The schema of this resource."""
    id: UUID
    """The ID of the organization or the team."""
    meta: Annotated[ScimMeta, meta_example("Group")] | UnsetType = UNSET
    """The metadata of this resource."""
    display_name: Annotated[str, example("Acme")] | UnsetType = UNSET
    """The name of the group."""
    external_id: Annotated[str, example("b7f2")] | UnsetType = UNSET
    """The ID of the group in the directory; absent if the directory has not sent one."""
    members: Annotated[Sequence[ScimGroupMember], example([{"value": _USER_ID, "type": "User"}])] | UnsetType = UNSET
    """All members of the group."""


class ScimGroupList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """A page of groups."""

    resources: Sequence[ScimGroup] = msgspec.field(name="Resources")
    """The groups on this page."""


class ScimGroupPath(msgspec.Struct, frozen=True):
    group_id: UUID
    """The ID of the organization or the team."""


@endpoint.get(_GROUPS, **declared(*SEARCH_REFUSALS))
async def list_scim_groups(call: Call[None, ScimQuery, None, ScimHolder], postern: Postern) -> ScimGroupList | bytes:
    """List SCIM groups

    Returns the organization first. If an owner has set the directory's groups to `teams`, the teams that the directory manages follow. If
    the groups are large, a page with members can have fewer groups than requested. Continue with the next `startIndex`.
    """
    return await _listed(call.caller, call.query, postern)


@endpoint.post(f"{_GROUPS}/.search", **declared(*SEARCH_REFUSALS))
async def search_scim_groups(call: Call[ScimSearchBody, None, None, ScimHolder], postern: Postern) -> ScimGroupList | bytes:
    """Search SCIM groups

    Same as the list endpoint, but with the search in the body instead of the URL.
    """
    return await _listed(call.caller, call.body, postern)


@endpoint.post(_GROUPS, **declared(*CHANGE_REFUSALS, Conflict, NotImplementedHere, status=201, sends={201: (ETAG, _CREATED)}))
async def create_scim_group(
    call: Call[ScimGroupBody, ShownAttributes, None, ScimHolder], postern: Postern
) -> Answer[ScimGroup] | Answer[bytes]:
    """Create a SCIM group

    If an owner has set the directory's groups to `teams`, the new group is a team. Otherwise, this is not supported: the only group is the
    organization. An organization can have at most 500 teams.
    """
    body, want = call.body, call.query.wanted
    require_schema(body.schemas, GROUP_SCHEMA)
    members = await beside_the_loop(partial(_whole, body.members or (), None), call.request.body)
    created = await postern.federation.scim_teams.create(
        call.caller, body.display_name, body.external_id, members, call.actor, with_members=want.has(_MEMBERS)
    )
    return await _answer(created, want, postern, status=201)


@endpoint.get(_GROUP, **declared(NotFound, also={304: NoBody}, reads=(IF_NONE_MATCH,), sends={200: (ETAG,), 304: (ETAG,)}))
async def get_scim_group(
    call: Call[None, ShownAttributes, ScimGroupPath, ScimHolder], postern: Postern
) -> Answer[ScimGroup] | Answer[bytes] | Answer[NoBody]:
    """Get a SCIM group

    Returns the group with all members, unless you exclude them.
    """
    want = call.query.wanted
    group, with_members = call.path.group_id, want.has(_MEMBERS)
    if group == call.caller.organization:
        found = await postern.federation.scim_groups.get(call.caller, with_members=with_members)
    else:
        found = await postern.federation.scim_teams.get(call.caller, group, with_members=with_members)
    version = group_version(found.group)
    if is_known(known_version(call.request), version):
        return Answer(NO_BODY, 304, ((b"etag", version.encode()),))
    return await _answer(found, want, postern)


@endpoint.put(_GROUP, **declared(*CHANGE_REFUSALS, Conflict, TeamLimitExceeded, NotFound, reads=(IF_MATCH,), sends={200: (ETAG,)}))
async def replace_scim_group(
    call: Call[ScimGroupBody, ShownAttributes, ScimGroupPath, ScimHolder], postern: Postern
) -> Answer[ScimGroup] | Answer[bytes]:
    """Replace a SCIM group

    For the organization: new members get the role `member`, and current members keep their roles. Owners, admins and other people with more
    rights than a member stay even if omitted. The response lists them. The name is ignored.

    For a team: name, external ID and members are replaced. People who are not active in the organization are skipped.
    """
    body, want = call.body, call.query.wanted
    require_schema(body.schemas, GROUP_SCHEMA)
    if body.members is None:
        raise InvalidValue("members: state the list, even if it is empty")
    change = await beside_the_loop(partial(_whole, body.members, body.external_id), call.request.body)
    if call.path.group_id == call.caller.organization:
        return await _changed(call, change, want, postern)
    change.repeated.append(("displayname", body.display_name))
    return await _changed_team(call, change, want, postern)


@endpoint.patch(
    _GROUP, **declared(*CHANGE_REFUSALS, Conflict, Forbidden, TeamLimitExceeded, NotFound, reads=(IF_MATCH,), sends={200: (ETAG,)})
)
async def change_scim_group(
    call: Call[ScimPatchBody, ShownAttributes, ScimGroupPath, ScimHolder], postern: Postern
) -> Answer[ScimGroup] | Answer[bytes]:
    """Change a SCIM group

    Adds and removes members. Either all operations are applied, or none.

    For the organization: a removed person loses the membership, but stays a user of the directory. If you remove owners, admins or other
    people with more rights than a member, the response is 403.

    For a team: the name can change, too. People who are not active in the organization are skipped.
    """
    want = call.query.wanted
    change = await beside_the_loop(partial(group_change, call.body.listed()), call.request.body)
    if call.path.group_id == call.caller.organization:
        return await _changed(call, change, want, postern)
    return await _changed_team(call, change, want, postern)


@endpoint.delete(_GROUP, **declared(Forbidden, NotFound, PreconditionFailed, status=204, reads=(IF_MATCH,)))
async def delete_scim_group(call: Call[None, None, ScimGroupPath, ScimHolder], postern: Postern) -> NoBody:
    """Delete a SCIM group

    The team's members lose the team's roles, and stay members of the organization. A directory cannot delete the organization.
    """
    await postern.federation.scim_teams.delete(call.caller, call.path.group_id, version_of(call.request), call.actor)
    return NO_BODY


async def _listed(holder: ScimHolder, asked: ScimQuery | ScimSearchBody, postern: Postern) -> bytes:
    order_of(None, asked.sort_order)
    filtered, want, start = filter_of(asked.filter, OF_GROUPS), asked.wanted, start_of(asked.start_index)
    groups, total = await found_groups(holder, filtered, want, range(start, start + count_of(asked.count)), postern)
    return _encode(list_response(groups, total, start))


async def found_groups(
    holder: ScimHolder, wanted: Filter | None, want: WantedAttributes, places: range, postern: Postern
) -> tuple[Sequence[dict[str, Any]], int]:
    """The groups in these places among all that the filter finds, and the number of all. The organization comes first."""
    federation, with_members = postern.federation, want.has(_MEMBERS)
    begins = 1 in places
    own = await federation.scim_groups.list(holder, wanted, with_members=begins and with_members)
    teams = await federation.scim_teams.list(holder, wanted)
    shown = list(own) if begins else []
    asked = [team for place, team in enumerate(teams, len(own) + 1) if place in places]
    shown += await federation.scim_teams.page(asked, with_members=with_members)
    return [await _resource(one, want, postern) for one in shown], len(own) + len(teams)


def _whole(members: Sequence[ScimGroupMemberBody], external_id: str | None) -> GroupChange:
    return whole_group([{"value": one.value, "type": one.type} for one in members], external_id)


async def _changed(
    call: Call[Any, ShownAttributes, ScimGroupPath, ScimHolder], change: GroupChange, want: WantedAttributes, postern: Postern
) -> Answer[bytes]:
    changed = await postern.federation.scim_groups.change(
        call.caller,
        change,
        version_of(call.request),
        call.actor,
        with_members=want.has(_MEMBERS),
    )
    return await _answer(changed, want, postern)


async def _changed_team(
    call: Call[Any, ShownAttributes, ScimGroupPath, ScimHolder], change: GroupChange, want: WantedAttributes, postern: Postern
) -> Answer[bytes]:
    changed = await postern.federation.scim_teams.change(
        call.caller, call.path.group_id, change, version_of(call.request), call.actor, with_members=want.has(_MEMBERS)
    )
    return await _answer(changed, want, postern)


async def _answer(found: FoundGroup, want: WantedAttributes, postern: Postern, status: int = 200) -> Answer[bytes]:
    body = _encode(await _resource(found, want, postern))
    headers = [(b"etag", group_version(found.group).encode())]
    if status == HTTPStatus.CREATED:
        headers.append((b"location", group_location(found.group, postern.foundation.public_url).encode()))
    return Answer(body, status, tuple(headers))


async def _resource(found: FoundGroup, want: WantedAttributes, postern: Postern) -> dict[str, Any]:
    members: Any = None
    if found.members is not None:
        members = msgspec.Raw(found.members)
        if any(name.startswith(f"{_MEMBERS}.") for name in want.only | want.without):
            members = await beside_the_loop(partial(_in_part, found.members, want), found.members)
    return projected(group_resource(found.group, postern.foundation.public_url, members), want)


def _in_part(members: bytes, want: WantedAttributes) -> msgspec.Raw:
    """The wanted parts of each member, as JSON. In pieces, since msgspec lets no other thread run while it decodes a piece."""
    pieces: list[bytes] = []
    begin, last = 1, len(members) - 1
    while begin < last:
        # The ids and addresses in `members` contain no braces, so `},{` is always a boundary between two members.
        found = members.find(b"},{", begin + _PIECE)
        end = last if found < 0 else found + 1
        piece = msgspec.json.decode(b"[" + members[begin:end] + b"]")
        pieces.append(_encode(projected({_MEMBERS: piece}, want)[_MEMBERS])[1:-1])
        begin = end + 1
    return msgspec.Raw(b"[" + b",".join(pieces) + b"]")


class ScimResourceList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """A page of users and groups."""

    resources: Sequence[dict[str, Any]] = msgspec.field(name="Resources")
    """The users and groups on this page."""


@endpoint.post("/scim/v2/.search", **declared(*SEARCH_REFUSALS))
async def search_scim(call: Call[ScimSearchBody, None, None, ScimHolder], postern: Postern) -> ScimResourceList | bytes:
    """Search SCIM users and groups

    A filter on an attribute that only one resource type has returns only resources of that type.
    """
    asked, holder, want = call.body, call.caller, call.body.wanted
    start, count = start_of(asked.start_index), count_of(asked.count)
    order = order_of(asked.sort_by, asked.sort_order)
    of_users, of_groups = _read(asked.filter, OF_USERS), _read(asked.filter, OF_GROUPS)
    if isinstance(of_users, InvalidFilter) and isinstance(of_groups, InvalidFilter):
        raise of_users
    resources: list[Any] = []
    total = 0
    if not isinstance(of_users, InvalidFilter):
        found = await postern.federation.scim_users.list(holder, Search(of_users, order, start, count))
        resources, total = await encoded_users(found.items, want, holder, postern), found.total
    if not isinstance(of_groups, InvalidFilter):
        places = range(max(start - total, 1), max(start + count - total, 1))
        groups, of_kind = await found_groups(holder, of_groups, want, places, postern)
        resources = [*resources, *groups]
        total += of_kind
    return _encode(list_response(resources, total, start))


def _read(text: str | None, comparable: Comparable) -> Filter | InvalidFilter | None:
    try:
        return parse_filter(text, comparable) if text else None
    except InvalidFilter as refusal:
        return refusal
