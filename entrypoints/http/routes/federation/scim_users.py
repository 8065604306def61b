"""The people whom a directory manages by SCIM (RFC 7644)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
import trio
from msgspec import UNSET, UnsetType

from core.domain.errors import Conflict, Forbidden, NotFound, TeamLimitExceeded
from core.domain.federation.scim.filters import OF_USERS
from core.domain.federation.scim.protocol import ENTERPRISE_SCHEMA, USER_SCHEMA
from core.domain.federation.scim.resources import (
    WantedAttributes,
    is_known,
    list_response,
    projected,
    user_location,
    user_resource,
    user_version,
)
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.federation.scim.users import FIELD_SCHEMA, ProvisionedUser, Stated
from core.domain.identifiers import UserId
from core.usecases.federation.scim.users import Search
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, AnswerHeader, NoBody
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import EmailText, Line, Word, example
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

_USERS: Final = "/scim/v2/Users"
_USER: Final = f"{_USERS}/{{user_id}}"
_CREATED: Final = AnswerHeader(
    "Location", "The URL of the user.", "https://id.example.org/scim/v2/Users/0199d3a0-0000-7000-8000-000000000001"
)
_encode: Final = msgspec.json.Encoder().encode
_PHONES: Final = [{"value": "+44 20 7946 0000", "type": "work"}]
_ENTERPRISE: Final = {"department": "Engines", "manager": {"value": "26118915-6090-4610-87e4-49d8ca9f808d"}}
# The number of resources that are built and encoded before other tasks get their turn.
_PART: Final = 50


class ScimName(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The name of a person."""

    formatted: Annotated[ScimText, example("Ada Lovelace")] | None = None
    """The full name."""
    given_name: Annotated[ScimText, example("Ada")] | None = None
    """The given name."""
    family_name: Annotated[ScimText, example("Lovelace")] | None = None
    """The family name."""


class ScimEmail(msgspec.Struct, frozen=True, kw_only=True):
    """An email address."""

    value: EmailText | None = None
    """The email address."""
    type: Annotated[ScimText, example("work")] | None = None
    """The type of the email address. Postern stores one email address of the type `work`."""
    primary: Annotated[bool, example(True)] | None = None
    """Whether this is the primary email address. The email address that Postern stores is always primary: the schema says `readOnly`."""


class ScimUserBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user to create or replace. Postern ignores attributes that are not listed here. Some attributes are stored only if an owner has
    mapped them to fields of the organization.
    """

    schemas: Annotated[Sequence[Line], example([USER_SCHEMA])] = ()
    """The schema of this resource."""
    user_name: EmailText
    """The email address that the person signs in with."""
    external_id: Annotated[ScimText, example("00u1ab2cd3")] | None = None
    """The ID of the person in the directory. Postern stores it, but does not use it."""
    name: ScimName | None = None
    """The person's name."""
    display_name: Annotated[ScimText, example("Ada Lovelace")] | None = None
    """The display name."""
    emails: Sequence[ScimEmail] | None = None
    """The work email address, if it differs from `userName`."""
    active: Annotated[bool, example(True)] | None = None
    """Whether the person is a member of the organization. By default, a new user becomes a member."""
    title: Annotated[Any, example("Analyst")] = None
    """The job title. Stored only if it is mapped."""
    user_type: Annotated[Any, example("Employee")] = None
    """The person's relation to the organization. Stored only if it is mapped."""
    preferred_language: Annotated[Any, example("en-GB")] = None
    """The person's preferred language. Stored only if it is mapped."""
    locale: Annotated[Any, example("en-GB")] = None
    """The person's locale. Stored only if it is mapped."""
    timezone: Annotated[Any, example("Europe/London")] = None
    """The person's time zone. Stored only if it is mapped."""
    phone_numbers: Annotated[Any, example(_PHONES)] = None
    """The phone numbers. Those of the types `work` and `mobile` are stored if they are mapped."""
    enterprise: Annotated[Any, example(_ENTERPRISE)] = msgspec.field(name=ENTERPRISE_SCHEMA, default=None)
    """The enterprise extension. Its mapped attributes are stored."""
    fields: Annotated[Mapping[Word, Any], example({"department": "Sales"})] | None = msgspec.field(name=FIELD_SCHEMA, default=None)
    """The values of the organization's own fields that the directory can write, by key. If this extension is omitted, the values stay
    unchanged.
    """

    def stated(self) -> Stated:
        require_schema(self.schemas, USER_SCHEMA)
        name = self.name or ScimName()
        emails = [{"value": one.value, "type": one.type, "primary": one.primary} for one in self.emails or ()]
        return Stated(
            user_name=self.user_name,
            emails=emails,
            external_id=self.external_id,
            formatted=name.formatted,
            given_name=name.given_name,
            family_name=name.family_name,
            display_name=self.display_name,
            active=self.active,
            fields=self.fields,
            mappable={
                "title": self.title,
                "userType": self.user_type,
                "preferredLanguage": self.preferred_language,
                "locale": self.locale,
                "timezone": self.timezone,
                "phoneNumbers": self.phone_numbers,
                ENTERPRISE_SCHEMA: self.enterprise,
            },
        )


class ScimUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user of the directory. Excluded attributes are absent."""

    schemas: Annotated[Sequence[str], example([USER_SCHEMA])]
    """The schema of this resource."""
    id: UUID
    """The user's ID, which never changes."""
    external_id: Annotated[str, example("00u1ab2cd3")] | UnsetType | None = UNSET
    """The ID of the person in the directory; null if the directory has not sent one."""
    meta: Annotated[ScimMeta, meta_example("User")] | UnsetType = UNSET
    """The metadata of this resource."""
    user_name: EmailText | UnsetType = UNSET
    """The email address that the person signs in with."""
    name: ScimName | UnsetType = UNSET
    """The person's name; absent if none is set."""
    display_name: Annotated[str, example("Ada Lovelace")] | UnsetType = UNSET
    """The display name; absent if none is set."""
    emails: Annotated[Sequence[ScimEmail], example([{"value": "ada@example.org", "type": "work", "primary": True}])] | UnsetType = UNSET
    """The work email address."""
    active: Annotated[bool, example(True)] | UnsetType = UNSET
    """Whether the person is a member of the organization."""
    title: Annotated[str, example("Analyst")] | UnsetType = UNSET
    """The job title; absent unless it is mapped and its field has a value."""
    user_type: Annotated[str, example("Employee")] | UnsetType = UNSET
    """The person's relation to the organization; absent unless it is mapped and its field has a value."""
    preferred_language: Annotated[str, example("en-GB")] | UnsetType = UNSET
    """The person's preferred language; absent unless it is mapped and its field has a value."""
    locale: Annotated[str, example("en-GB")] | UnsetType = UNSET
    """The person's locale; absent unless it is mapped and its field has a value."""
    timezone: Annotated[str, example("Europe/London")] | UnsetType = UNSET
    """The person's time zone; absent unless it is mapped and its field has a value."""
    phone_numbers: Annotated[Sequence[Mapping[str, str]], example(_PHONES)] | UnsetType = UNSET
    """The mapped phone numbers whose fields have values."""
    enterprise: Annotated[Mapping[str, Any], example(_ENTERPRISE)] | UnsetType = msgspec.field(name=ENTERPRISE_SCHEMA, default=UNSET)
    """The mapped attributes of the enterprise extension whose fields have values."""
    fields: Annotated[Mapping[str, Any], example({"department": "Sales"})] | UnsetType = msgspec.field(name=FIELD_SCHEMA, default=UNSET)
    """The values of the organization's own fields that the directory can write, by key. Mapped fields are not included. Absent if no value
    is set.
    """


class ScimUserList(ScimList, frozen=True, kw_only=True, rename="camel"):
    """A page of users."""

    resources: Sequence[ScimUser] = msgspec.field(name="Resources")
    """The users on this page."""


class ScimUserPath(msgspec.Struct, frozen=True):
    user_id: UUID
    """The user's ID."""


@endpoint.get(_USERS, **declared(*SEARCH_REFUSALS))
async def list_scim_users(call: Call[None, ScimQuery, None, ScimHolder], postern: Postern) -> ScimUserList | bytes:
    """List SCIM users

    Returns the members of the organization, and the people whom the directory has deactivated. Without `sortBy`, they are sorted by ID.
    """
    asked = call.query
    search = Search(
        filter_of(asked.filter, OF_USERS), order_of(asked.sort_by, asked.sort_order), start_of(asked.start_index), count_of(asked.count)
    )
    return await _listed(call.caller, search, asked.wanted, postern)


@endpoint.post(f"{_USERS}/.search", **declared(*SEARCH_REFUSALS))
async def search_scim_users(call: Call[ScimSearchBody, None, None, ScimHolder], postern: Postern) -> ScimUserList | bytes:
    """Search SCIM users

    Same as the list endpoint, but with the search in the body instead of the URL.
    """
    asked = call.body
    search = Search(
        filter_of(asked.filter, OF_USERS), order_of(asked.sort_by, asked.sort_order), start_of(asked.start_index), count_of(asked.count)
    )
    return await _listed(call.caller, search, asked.wanted, postern)


@endpoint.post(_USERS, **declared(*CHANGE_REFUSALS, Conflict, TeamLimitExceeded, status=201, sends={201: (ETAG, _CREATED)}))
async def create_scim_user(
    call: Call[ScimUserBody, ShownAttributes, None, ScimHolder], postern: Postern
) -> Answer[ScimUser] | Answer[bytes]:
    """Create a SCIM user

    The person becomes a member of the organization and gets an email. If the email address has no account, Postern creates one, and the
    email has a link to set a password. An existing account does not change. If the directory already has this person, the response is 409.
    """
    # The shown attributes may be refused, so they are read before anything changes.
    want = call.query.wanted
    created = await postern.federation.scim_users.create(call.caller, call.body.stated(), call.actor)
    return _answer(created, want, call.caller, postern, status=201)


@endpoint.get(_USER, **declared(NotFound, also={304: NoBody}, reads=(IF_NONE_MATCH,), sends={200: (ETAG,), 304: (ETAG,)}))
async def get_scim_user(
    call: Call[None, ShownAttributes, ScimUserPath, ScimHolder], postern: Postern
) -> Answer[ScimUser] | Answer[bytes] | Answer[NoBody]:
    """Get a SCIM user

    If `If-None-Match` is the current version, the response is 304.
    """
    want = call.query.wanted
    found = await postern.federation.scim_users.get(call.caller, UserId(call.path.user_id))
    version = user_version(found.profile, call.caller.mapping)
    if is_known(known_version(call.request), version):
        return Answer(NO_BODY, 304, ((b"etag", version.encode()),))
    return _answer(found, want, call.caller, postern)


@endpoint.put(
    _USER, **declared(*CHANGE_REFUSALS, Conflict, Forbidden, TeamLimitExceeded, NotFound, reads=(IF_MATCH,), sends={200: (ETAG,)})
)
async def replace_scim_user(
    call: Call[ScimUserBody, ShownAttributes, ScimUserPath, ScimHolder], postern: Postern
) -> Answer[ScimUser] | Answer[bytes]:
    """Replace a SCIM user

    Omitted attributes are removed. `active` is an exception: if it is omitted, the person stays active or inactive. With `If-Match`, the
    response is 412 if the user has been changed in the meantime.
    """
    want = call.query.wanted
    replaced = await postern.federation.scim_users.replace(
        call.caller, UserId(call.path.user_id), call.body.stated(), version_of(call.request), call.actor
    )
    return _answer(replaced, want, call.caller, postern)


@endpoint.patch(
    _USER, **declared(*CHANGE_REFUSALS, Conflict, Forbidden, TeamLimitExceeded, NotFound, reads=(IF_MATCH,), sends={200: (ETAG,)})
)
async def change_scim_user(
    call: Call[ScimPatchBody, ShownAttributes, ScimUserPath, ScimHolder], postern: Postern
) -> Answer[ScimUser] | Answer[bytes]:
    """Change a SCIM user

    Either all operations are applied, or none.

    `active: false` ends the membership with the person's next request, and revokes the person's sessions in the organization. `active:
    true` makes the person a member again. If your organization created the account and no one else uses it, `active: false` also blocks
    every sign-in. You can change the email address of such an account until someone verifies it. This is only possible while no other
    organization lists the person.
    """
    want = call.query.wanted
    changed = await postern.federation.scim_users.patch(
        call.caller, UserId(call.path.user_id), call.body.listed(), version_of(call.request), call.actor
    )
    return _answer(changed, want, call.caller, postern)


@endpoint.delete(_USER, **declared(*CHANGE_REFUSALS, Conflict, Forbidden, NotFound, status=204, reads=(IF_MATCH,)))
async def delete_scim_user(call: Call[None, None, ScimUserPath, ScimHolder], postern: Postern) -> NoBody:
    """Delete a SCIM user

    If your organization created the account and no one else uses it, the account is deleted. While the person has a subscription at another
    organization, this is rejected. Otherwise, the person leaves the organization and keeps the account. This cannot be undone.
    """
    await postern.federation.scim_users.delete(call.caller, UserId(call.path.user_id), version_of(call.request), call.actor)
    return NO_BODY


async def _listed(holder: ScimHolder, search: Search, want: WantedAttributes, postern: Postern) -> bytes:
    found = await postern.federation.scim_users.list(holder, search)
    return _encode(list_response(await encoded_users(found.items, want, holder, postern), found.total, search.start))


async def encoded_users(
    users: Sequence[ProvisionedUser], want: WantedAttributes, holder: ScimHolder, postern: Postern
) -> list[msgspec.Raw]:
    """Encodes in parts, so that other tasks get their turn."""
    base_url = postern.foundation.public_url
    resources: list[msgspec.Raw] = []
    for number, user in enumerate(users, 1):
        resources.append(msgspec.Raw(_encode(projected(user_resource(user, base_url, holder.mapping), want))))
        if number % _PART == 0:
            await trio.lowlevel.checkpoint()
    return resources


def _answer(user: ProvisionedUser, want: WantedAttributes, holder: ScimHolder, postern: Postern, status: int = 200) -> Answer[bytes]:
    base_url = postern.foundation.public_url
    headers = [(b"etag", user_version(user.profile, holder.mapping).encode())]
    if status == 201:
        headers.append((b"location", user_location(user, base_url).encode()))
    return Answer(_encode(projected(user_resource(user, base_url, holder.mapping), want)), status, tuple(headers))
