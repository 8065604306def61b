"""The settings of an organization's directory, its SCIM tokens, and the last exchanges with it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.federation.scim.groups import DirectorySettings, ScimGrouping
from core.domain.federation.scim.tokens import ScimExchange, ScimToken
from core.domain.identifiers import ScimTokenId
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SHOWN_ONCE, CreatedAt, Id, Name, OrganizationPath, Total, Word, changed, example
from entrypoints.http.machinery.limits import CREDENTIALS, UNLIMITED

_SETTINGS = "/api/organizations/{org_slug}/scim/settings"
_TAGS = ("scim",)


_Mapped = Annotated[Mapping[Word, Word], example({"title": "job_title", "department": "department"})]


class ScimSettingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The SCIM settings of an organization."""

    groups: ScimGrouping
    """What the directory's groups become: `organization` if the only group is the organization, `teams` if other groups become teams."""
    profile_mapping: _Mapped
    """The mapping from attributes of the directory to the keys of your organization's fields."""


class ChangedScimSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The SCIM settings to change. Send at least one."""

    groups: ScimGrouping | msgspec.UnsetType = msgspec.UNSET
    """What the directory's groups become: `organization` if the only group is the organization, `teams` if other groups become teams."""
    profile_mapping: _Mapped | msgspec.UnsetType = msgspec.UNSET
    """The mapping from attributes of the directory to the keys of your organization's fields. The attributes are `title`, `userType`,
    `preferredLanguage`, `locale`, `timezone`, `phoneNumbers[type eq "work"].value` and `phoneNumbers[type eq "mobile"].value`. From the
    enterprise extension: `employeeNumber`, `costCenter`, `organization`, `division`, `department`, `manager.value` and
    `manager.displayName`. A mapping has an effect while the field exists and has `directory` in its `written_by`.
    """


@endpoint.get(_SETTINGS, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def get_scim_settings(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ScimSettingsBody:
    """Get the SCIM settings of an organization

    Returns what the directory's groups become, and which fields its attributes fill.
    """
    return _shown(await postern.federation.scim_settings.get(call.caller))


@endpoint.patch(_SETTINGS, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def change_scim_settings(call: Call[ChangedScimSettings, None, OrganizationPath, Member], postern: Postern) -> ScimSettingsBody:
    """Change the SCIM settings of an organization

    Only an owner can do this. With `teams`, the directory can create, fill, rename and delete teams. The members of a team have the team's
    roles. For this reason, each new team has no role, and only an owner can assign one. To switch back, the directory must manage no team.
    Requires a recent sign-in or reauthentication, with MFA if you have it enabled.

    The attributes in `profile_mapping` fill fields from the directory's next request, and responses contain them. If a field does not
    accept a value, the field stays empty. The list of SCIM requests names the attribute.
    """
    body, settings = call.body, postern.federation.scim_settings
    return _shown(await settings.change(call.caller, call.actor, groups=changed(body.groups), mapping=changed(body.profile_mapping)))


def _shown(settings: DirectorySettings) -> ScimSettingsBody:
    return ScimSettingsBody(groups=settings.groups, profile_mapping=settings.profile_mapping)


_TOKENS = "/api/organizations/{org_slug}/scim-tokens"
_TOKEN = f"{_TOKENS}/{{token_id}}"
_EXCHANGES = "/api/organizations/{org_slug}/scim/exchanges"
_MANAGE = able(Capability.INTEGRATIONS_MANAGE, impersonated=True)
# A token outlasts an impersonation.
_GIVE = able(Capability.INTEGRATIONS_MANAGE, impersonated=False)


class ScimTokenPath(OrganizationPath, frozen=True):
    token_id: UUID
    """The token's ID."""


class NewScimTokenBody(msgspec.Struct, frozen=True, kw_only=True):
    """The SCIM token to create."""

    name: Annotated[Name, example("Directory")]
    """The token's name. The audit log shows it with every change that uses the token."""
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """When the token expires. If omitted, the token never expires."""


class ScimTokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A SCIM token, without the token itself."""

    id: Id
    name: Annotated[str, example("Directory")]
    """The token's name."""
    prefix: Annotated[str, example("scim_live_a1b2c3")]
    """The prefix of the token, for identification."""
    created_at: CreatedAt
    expires_at: datetime | None
    """When the token expires; null if it never does."""
    last_used_at: datetime | None
    """When the token was last used, with a precision of 1 minute; null if never."""
    created_by: UUID
    """The user who created the token."""


class CreatedScimToken(msgspec.Struct, frozen=True, kw_only=True):
    """The new SCIM token. Only this response contains the token itself."""

    id: Id
    name: Annotated[str, example("Directory")]
    """The token's name."""
    token: Annotated[str, SHOWN_ONCE, example("scim_live_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The token, to send as a Bearer token. It is shown only once."""
    prefix: Annotated[str, example("scim_live_a1b2c3")]
    """The prefix of the token, for identification."""
    created_at: CreatedAt
    expires_at: datetime | None
    """When the token expires; null if it never does."""


class ScimTokenList(msgspec.Struct, frozen=True):
    """All SCIM tokens of the organization."""

    tokens: Sequence[ScimTokenRecord]
    """The tokens, newest first."""
    total: Total


class ScimExchangesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter on exchanges."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50
    """The maximum number of requests to return."""
    refused: Annotated[bool, example(True)] = False
    """Whether to return only rejected requests."""


class ScimExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A SCIM request of a directory, and its response."""

    id: Id
    occurred_at: datetime
    """When the request was received."""
    token_id: UUID
    """The ID of the SCIM token."""
    token_name: Annotated[str, example("Directory")]
    """The token's name at that time."""
    method: Annotated[str, example("PATCH")]
    """The HTTP method of the request."""
    path: Annotated[str, example("/scim/v2/Users/0199d3a0-0000-7000-8000-000000000001")]
    """The path of the request."""
    query: Annotated[str, example('filter=userName eq "…"')] | None
    """The query, without personal data; null if there was none."""
    request: Annotated[Any, example({"Operations": [{"op": "replace", "path": "active", "value": False}]})]
    """The structure of the body, with `…` in place of each text; null if there was no readable body."""
    status: Annotated[int, example(400)]
    """The status code of the response."""
    scim_type: Annotated[str, example("invalidPath")] | None
    """The SCIM error type of a rejected request; null if the request succeeded."""
    reason: Annotated[str, example("path: title is not kept here")] | None
    """Why the request was rejected; null if it succeeded."""


class ScimExchangeList(msgspec.Struct, frozen=True):
    """The last SCIM requests of the organization's directories."""

    exchanges: Sequence[ScimExchangeRecord]
    """The requests, newest first."""


@endpoint.post(_TOKENS, caller=_GIVE, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def create_scim_token(call: Call[NewScimTokenBody, None, OrganizationPath, Member], postern: Postern) -> CreatedScimToken:
    """Create a SCIM token

    A directory manages the organization's people with this token, through the endpoints under `/scim/v2`. The token is shown only once:
    Postern stores only its digest. You also need the right to manage members, and all rights of the role `member`. If the person who
    created the token leaves, the token stays valid.
    """
    body = call.body
    created = await postern.federation.scim_tokens.create(call.caller, call.actor, name=body.name, expires_at=body.expires_at)
    return _created(created.key, token=created.text.reveal())


@endpoint.get(_TOKENS, caller=_MANAGE, tags=_TAGS)
async def list_scim_tokens(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ScimTokenList:
    """List SCIM tokens

    Returns tokens newest first, without the tokens themselves. Expired tokens stay listed until you delete them. When a person leaves the
    organization, delete the tokens that this person created and may still have.
    """
    found = await postern.federation.scim_tokens.list(call.caller)
    return ScimTokenList([_record(token) for token in found], len(found))


@endpoint.delete(_TOKEN, caller=_MANAGE, status=204, tags=_TAGS)
async def delete_scim_token(call: Call[None, None, ScimTokenPath, Member], postern: Postern) -> NoBody:
    """Delete a SCIM token

    From the next request, the token is rejected. The people whom the directory added stay. This cannot be undone.
    """
    await postern.federation.scim_tokens.delete(call.caller, ScimTokenId(call.path.token_id), call.actor)
    return NO_BODY


@endpoint.get(_EXCHANGES, caller=_MANAGE, keys=True, tags=_TAGS)
async def list_scim_exchanges(call: Call[None, ScimExchangesQuery, OrganizationPath, Member], postern: Postern) -> ScimExchangeList:
    """List inbound SCIM requests

    Returns the last 1000 requests of your directory from the last 7 days, newest first, with the reason for each rejection. Personal data
    is not recorded. A request appears after about a second.
    """
    asked = call.query
    found = await postern.federation.scim_exchanges.list(call.caller, asked.limit, refused=asked.refused)
    return ScimExchangeList([_exchange(one) for one in found])


_created = shown(ScimToken, CreatedScimToken, given=("token",))
_record = shown(ScimToken, ScimTokenRecord)


_exchange = shown(ScimExchange, ScimExchangeRecord, named={"token_id": "token"})
