"""The single group of a directory in SCIM (RFC 7644): the organization."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import Forbidden, NotFound, NotImplementedHere, TeamLimitExceeded
from core.domain.federation.scim.errors import InvalidValue
from core.domain.federation.scim.filters import OF_GROUPS, Filter
from core.domain.federation.scim.groups import GROUP_SCHEMA, GroupChange, group_change, refuse_creation, whole_group
from core.domain.federation.scim.resources import WantedAttributes, group_resource, group_version, is_known, list_response, projected
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.identifiers import OrganizationId
from entrypoints.bootstrap import Postern
from entrypoints.http.large_bodies import beside_the_loop
from entrypoints.http.machinery.answers import NO_BODY, Answer, NoBody
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.routes.federation.scim_bodies import (
    CHANGE_REFUSALS,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    SEARCH_REFUSALS,
    PatchBody,
    ScimList,
    ScimMeta,
    ScimQuery,
    ScimText,
    SearchBody,
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
from ports.federation.scim.users import FoundGroup

_GROUPS: Final = "/scim/v2/Groups"
_GROUP: Final = f"{_GROUPS}/{{group_id}}"
_MEMBERS: Final = "members"
_USER_ID: Final = "0199d3a0-0000-7000-8000-000000000001"
_PIECE: Final = 64 << 10
_encode: Final = msgspec.json.Encoder().encode


class ScimMember(msgspec.Struct, frozen=True, kw_only=True):
    """A user in the group."""

    value: Annotated[str, example(_USER_ID)]
    """The user's id."""
    ref: str | None = msgspec.field(name="$ref", default=None)
    """The address of the user."""
    type: Annotated[str, example("User")] | None = None
    """Always `User`."""


class ScimGroupBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The group as a whole."""

    schemas: Annotated[Sequence[str], example([GROUP_SCHEMA])] = ()
    """The schema of this resource."""
    display_name: Annotated[ScimText, example("Acme")] | None = None
    """The name of the organization. The name is read-only: another name that you send is ignored."""
    external_id: Annotated[ScimText, example("b7f2")] | None = None
    """The directory's id of the group. We keep it, but do not use it."""
    members: Sequence[ScimMember] | None = None
    """All users who shall be in the group. Send the list, even if it is empty."""


class ScimGroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A user in the group. Parts that you exclude are absent."""

    value: Annotated[str, example(_USER_ID)] | UnsetType = UNSET
    """The user's id."""
    ref: str | UnsetType = msgspec.field(name="$ref", default=UNSET)
    """The address of the user."""
    type: Annotated[str, example("User")] | UnsetType = UNSET
    """Always `User`."""


class ScimGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The organization. Attributes that you exclude are absent."""

    schemas: Annotated[Sequence[str], example([GROUP_SCHEMA])]
    """The schema of this resource."""
    id: UUID
    """The organization's id."""
    meta: Annotated[ScimMeta, meta_example("Group")] | UnsetType = UNSET
    """Facts about this resource."""
    display_name: Annotated[str, example("Acme")] | UnsetType = UNSET
    """The name of the organization."""
    external_id: Annotated[str, example("b7f2")] | UnsetType = UNSET
    """The directory's id of the group; absent if the directory has not sent one."""
    members: Annotated[Sequence[ScimGroupMember], example([{"value": _USER_ID, "type": "User"}])] | UnsetType = UNSET
    """All users in the group."""


class ScimGroupList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """A page of groups."""

    resources: Sequence[ScimGroup] = msgspec.field(name="Resources")
    """The group, if it is on this page."""


class ScimGroupPath(msgspec.Struct, frozen=True):
    group_id: UUID
    """The group's id, which is the id of the organization."""


@endpoint.get(_GROUPS, **declared(*SEARCH_REFUSALS))
async def list_scim_groups(call: Call[None, ScimQuery, None, ScimHolder], postern: Postern) -> ScimGroupList | bytes:
    """List groups

    There is one group: the organization.
    """
    return await _listed(call.caller, call.query, postern)


@endpoint.post(f"{_GROUPS}/.search", **declared(*SEARCH_REFUSALS))
async def search_scim_groups(call: Call[SearchBody, None, None, ScimHolder], postern: Postern) -> ScimGroupList | bytes:
    """Search groups

    This does the same as the list, for a search that should not be part of an address.
    """
    return await _listed(call.caller, call.body, postern)


@endpoint.post(_GROUPS, **declared(NotImplementedHere, status=201))
def create_scim_group(_call: Call[None, None, None, ScimHolder], _postern: Postern) -> ScimGroup:
    """Create a group

    This is not supported: the only group is the organization.
    """
    raise refuse_creation()


@endpoint.get(_GROUP, **declared(NotFound, also={304: NoBody}, reads=(IF_NONE_MATCH,), sends={200: (ETAG,), 304: (ETAG,)}))
async def scim_group(
    call: Call[None, ShownAttributes, ScimGroupPath, ScimHolder], postern: Postern
) -> Answer[ScimGroup] | Answer[bytes] | Answer[NoBody]:
    """Get the group

    The answer has all members, unless you exclude them.
    """
    want = call.query.wanted
    found = await postern.federation.scim_groups.get(call.caller, OrganizationId(call.path.group_id), with_members=want.has(_MEMBERS))
    version = group_version(found.group)
    if is_known(known_version(call.request), version):
        return Answer(NO_BODY, 304, ((b"etag", version.encode()),))
    return await _answer(found, want, postern)


@endpoint.put(_GROUP, **declared(*CHANGE_REFUSALS, TeamLimitExceeded, NotFound, reads=(IF_MATCH,), sends={200: (ETAG,)}))
async def replace_scim_group(
    call: Call[ScimGroupBody, ShownAttributes, ScimGroupPath, ScimHolder], postern: Postern
) -> Answer[ScimGroup] | Answer[bytes]:
    """Replace the members of the group

    New members get the role `member`. Members who stay keep their roles. Owners, admins and other people with more rights than a member
    stay even if you leave them out, and the answer shows them. A name that you send is ignored, since the name belongs to the organization.
    """
    body, want = call.body, call.query.wanted
    require_schema(body.schemas, GROUP_SCHEMA)
    if body.members is None:
        raise InvalidValue("members: state the list, even if it is empty")
    change = await beside_the_loop(partial(_whole, body.members, body.external_id), call.request.body)
    return await _changed(call, change, want, postern)


@endpoint.patch(_GROUP, **declared(*CHANGE_REFUSALS, Forbidden, TeamLimitExceeded, NotFound, reads=(IF_MATCH,), sends={200: (ETAG,)}))
async def change_scim_group(
    call: Call[PatchBody, ShownAttributes, ScimGroupPath, ScimHolder], postern: Postern
) -> Answer[ScimGroup] | Answer[bytes]:
    """Add and remove members

    Either all operations are carried out, or none. A removed person is no longer a member of the organization, but stays a user of the
    directory. Owners, admins and other people with more rights than a member cannot be removed: 403.
    """
    want = call.query.wanted
    change = await beside_the_loop(partial(group_change, call.body.listed()), call.request.body)
    return await _changed(call, change, want, postern)


@endpoint.delete(_GROUP, **declared(Forbidden, status=204))
def delete_scim_group(_call: Call[None, None, ScimGroupPath, ScimHolder], _postern: Postern) -> NoBody:
    """Delete the group

    This is refused: a directory cannot delete the organization.
    """
    raise Forbidden("The group is the organization, and a directory cannot delete it")


async def _listed(holder: ScimHolder, asked: ScimQuery | SearchBody, postern: Postern) -> bytes:
    order_of(None, asked.sort_order)
    filtered, want, start = filter_of(asked.filter, OF_GROUPS), asked.wanted, start_of(asked.start_index)
    shows = start == 1 and count_of(asked.count) > 0
    if shows:
        groups = await found_groups(holder, filtered, want, postern)
        return _encode(list_response(groups, len(groups), start))
    counted = await postern.federation.scim_groups.list(holder, filtered, with_members=False)
    return _encode(list_response((), len(counted), start))


async def found_groups(holder: ScimHolder, wanted: Filter | None, want: WantedAttributes, postern: Postern) -> Sequence[dict[str, Any]]:
    """The group, unless the filter leaves it out."""
    found = await postern.federation.scim_groups.list(holder, wanted, with_members=want.has(_MEMBERS))
    return [await _resource(one, want, postern) for one in found]


def _whole(members: Sequence[ScimMember], external_id: str | None) -> GroupChange:
    return whole_group([{"value": one.value, "type": one.type} for one in members], external_id)


async def _changed(
    call: Call[Any, ShownAttributes, ScimGroupPath, ScimHolder], change: GroupChange, want: WantedAttributes, postern: Postern
) -> Answer[bytes]:
    changed = await postern.federation.scim_groups.change(
        call.caller,
        OrganizationId(call.path.group_id),
        change,
        version_of(call.request),
        call.actor,
        with_members=want.has(_MEMBERS),
    )
    return await _answer(changed, want, postern)


async def _answer(found: FoundGroup, want: WantedAttributes, postern: Postern) -> Answer[bytes]:
    body = _encode(await _resource(found, want, postern))
    return Answer(body, 200, ((b"etag", group_version(found.group).encode()),))


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
