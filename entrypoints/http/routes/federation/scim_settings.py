"""The settings of an organization's directory."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.federation.scim.groups import DirectorySettings, ScimGrouping
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, changed, example
from entrypoints.http.machinery.limits import UNLIMITED

_SETTINGS = "/api/organizations/{org_slug}/scim/settings"
_TAGS = ("scim",)


_Mapped = Annotated[Mapping[str, str], example({"title": "job_title", "department": "department"})]


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
    without a role, and only you can give it one. Switching back is possible once the directory fills no team. You need a recent proof of
    who you are: of the second factor, if you have one.

    The attributes in `profile_mapping` fill fields from the directory's next request on, and its answers show them. A value that the field
    does not take leaves the field empty. The list of the directory's requests names it.
    """
    body, settings = call.body, postern.federation.scim_settings
    return _shown(await settings.change(call.caller, call.actor, groups=changed(body.groups), mapping=changed(body.profile_mapping)))


def _shown(settings: DirectorySettings) -> ScimSettingsBody:
    return ScimSettingsBody(groups=settings.groups, profile_mapping=settings.profile_mapping)
