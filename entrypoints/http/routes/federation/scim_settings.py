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
    """The settings of a directory."""

    groups: ScimGrouping
    """What the directory's groups are: `organization` if the one group is the organization, `teams` if further groups are teams."""
    profile_mapping: _Mapped
    """The keys of your organization's fields, by the attributes of the directory that fill them."""


class ChangedScimSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of the settings of a directory: at least one."""

    groups: ScimGrouping | msgspec.UnsetType = msgspec.UNSET
    """What the directory's groups are: `organization` if the one group is the organization, `teams` if further groups are teams."""
    profile_mapping: _Mapped | msgspec.UnsetType = msgspec.UNSET
    """The keys of your organization's fields, by the attributes of the directory that fill them: `title`, `userType`, `preferredLanguage`,
    `locale`, `timezone`, `phoneNumbers[type eq "work"].value`, `phoneNumbers[type eq "mobile"].value`; and of the enterprise extension
    `employeeNumber`, `costCenter`, `organization`, `division`, `department`, `manager.value` and `manager.displayName`. A field counts
    while it exists and has `directory` in its `written_by`.
    """


@endpoint.get(_SETTINGS, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def get_scim_settings(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ScimSettingsBody:
    """Get the settings of the organization's directory

    The settings say what the groups of the directory are here, and which fields its attributes fill.
    """
    return _shown(await postern.federation.scim_settings.get(call.caller))


@endpoint.patch(_SETTINGS, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def change_scim_settings(call: Call[ChangedScimSettings, None, OrganizationPath, Member], postern: Postern) -> ScimSettingsBody:
    """Change the settings of the organization's directory

    With `teams`, the directory can create, fill, rename and delete teams. What a team carries, its members have; so each team begins
    without a role, and only you can give it one. Switching back is possible once the directory fills no team. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled.

    The attributes in `profile_mapping` fill fields from the directory's next request on, and its answers show them. A value that the field
    does not take leaves the field empty. The list of the directory's requests names it.
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
    """A new SCIM token."""

    name: Annotated[Name, example("Directory")]
    """The token's name. The audit log shows it beside everything that the token does."""
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """When the token expires. If omitted, the token never expires."""


class ScimTokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A SCIM token, without the token itself."""

    id: Id
    name: Annotated[str, example("Directory")]
    """The token's name."""
    prefix: Annotated[str, example("scim_live_a1b2c3")]
    """The prefix of the token, to tell it apart."""
    created_at: CreatedAt
    expires_at: datetime | None
    """When the token expires; null if it never does."""
    last_used_at: datetime | None
    """When the token was last used, with a precision of one minute; null if it never was."""
    created_by: UUID
    """The user who created the token."""


class CreatedScimToken(msgspec.Struct, frozen=True, kw_only=True):
    """The new SCIM token. This is the only response with the token itself."""

    id: Id
    name: Annotated[str, example("Directory")]
    """The token's name."""
    token: Annotated[str, SHOWN_ONCE, example("scim_live_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The token, which the directory sends as a Bearer token. It is shown only once."""
    prefix: Annotated[str, example("scim_live_a1b2c3")]
    """The prefix of the token, to tell it apart."""
    created_at: CreatedAt
    expires_at: datetime | None
    """When the token expires; null if it never does."""


class ScimTokenList(msgspec.Struct, frozen=True):
    """All SCIM tokens of the organization."""

    tokens: Sequence[ScimTokenRecord]
    """The tokens, the newest first."""
    total: Total


class ScimExchangesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter on exchanges."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50
    """The maximum number of exchanges to return."""
    refused: Annotated[bool, example(True)] = False
    """Only refused requests."""


class ScimExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A SCIM request of a directory, and the response."""

    id: Id
    occurred_at: datetime
    """When the request came."""
    token_id: UUID
    """The ID of the SCIM token."""
    token_name: Annotated[str, example("Directory")]
    """The token's name at that time."""
    method: Annotated[str, example("PATCH")]
    """The method of the request."""
    path: Annotated[str, example("/scim/v2/Users/0199d3a0-0000-7000-8000-000000000001")]
    """The path of the request."""
    query: Annotated[str, example('filter=userName eq "…"')] | None
    """The query, without data about people; null if there was none."""
    request: Annotated[Any, example({"Operations": [{"op": "replace", "path": "active", "value": False}]})]
    """The structure of the body, with `…` in place of each text; null if there was no readable body."""
    status: Annotated[int, example(400)]
    """The status code of the response."""
    scim_type: Annotated[str, example("invalidPath")] | None
    """The kind of a refusal, in SCIM's words; null if the request succeeded."""
    reason: Annotated[str, example("path: title is not stored")] | None
    """The reason of a refusal; null if the request succeeded."""


class ScimExchangeList(msgspec.Struct, frozen=True):
    """The last exchanges with directories."""

    exchanges: Sequence[ScimExchangeRecord]
    """The exchanges, the newest first."""


@endpoint.post(_TOKENS, caller=_GIVE, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def create_scim_token(call: Call[NewScimTokenBody, None, OrganizationPath, Member], postern: Postern) -> CreatedScimToken:
    """Create a SCIM token

    A directory manages the organization's people with this token: it calls the endpoints under `/scim/v2`. The token is shown only once,
    because Postern stores only a digest of it. To create a token, you also need the right to manage members, and all rights of the role
    `member`. A token stays valid when the person who created it leaves.
    """
    body = call.body
    created = await postern.federation.scim_tokens.create(call.caller, call.actor, name=body.name, expires_at=body.expires_at)
    return _created(created.key, token=created.text.reveal())


@endpoint.get(_TOKENS, caller=_MANAGE, tags=_TAGS)
async def list_scim_tokens(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ScimTokenList:
    """List the SCIM tokens of an organization, the newest first

    The tokens themselves are never shown. Expired tokens stay listed until you delete them. When a person leaves the organization, delete
    the tokens that this person created and still knows.
    """
    found = await postern.federation.scim_tokens.list(call.caller)
    return ScimTokenList([_record(token) for token in found], len(found))


@endpoint.delete(_TOKEN, caller=_MANAGE, status=204, tags=_TAGS)
async def delete_scim_token(call: Call[None, None, ScimTokenPath, Member], postern: Postern) -> NoBody:
    """Delete a SCIM token

    The token is refused with the next request. The people whom the directory added stay. This cannot be undone.
    """
    await postern.federation.scim_tokens.delete(call.caller, ScimTokenId(call.path.token_id), call.actor)
    return NO_BODY


@endpoint.get(_EXCHANGES, caller=_MANAGE, keys=True, tags=_TAGS)
async def list_scim_exchanges(call: Call[None, ScimExchangesQuery, OrganizationPath, Member], postern: Postern) -> ScimExchangeList:
    """List the last exchanges with directories, the newest first

    You get your directory's requests of the last seven days, a thousand at most, and the reason of each refusal. The record leaves out data
    about people. An exchange appears here about a second after it took place.
    """
    asked = call.query
    found = await postern.federation.scim_exchanges.list(call.caller, asked.limit, refused=asked.refused)
    return ScimExchangeList([_exchange(one) for one in found])


_created = shown(ScimToken, CreatedScimToken, given=("token",))
_record = shown(ScimToken, ScimTokenRecord)


_exchange = shown(ScimExchange, ScimExchangeRecord, named={"token_id": "token"})
