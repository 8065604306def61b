"""The settings of an organization's directory."""

import msgspec

from core.domain.errors import BadRequest
from core.domain.federation.scim.groups import ScimGrouping
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SlugOfOrganization
from entrypoints.http.machinery.limits import UNLIMITED

_SETTINGS = "/api/organizations/{org_slug}/scim/settings"
_TAGS = ("scim",)


class ScimSettingsPath(msgspec.Struct, frozen=True):
    org_slug: SlugOfOrganization


class ScimSettingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a directory."""

    groups: ScimGrouping
    """What the directory's groups are: `organization` if the one group is the organization, `teams` if further groups are teams."""


@endpoint.get(_SETTINGS, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def get_scim_settings(call: Call[None, None, ScimSettingsPath, Member], postern: Postern) -> ScimSettingsBody:
    """Get the settings of the organization's directory

    The settings say what the groups of the directory are here.
    """
    return ScimSettingsBody(groups=await postern.federation.scim_settings.get(call.caller))


@endpoint.patch(_SETTINGS, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def change_scim_settings(call: Call[ScimSettingsBody, None, ScimSettingsPath, Member], postern: Postern) -> ScimSettingsBody:
    """Change the settings of the organization's directory

    With `teams`, the directory can create, fill, rename and delete teams. What a team carries, its members have; so each team begins
    without a role, and only you can give it one. Switching back is possible once the directory fills no team. You need a recent proof of
    who you are: of the second factor, if you have one.
    """
    return ScimSettingsBody(groups=await postern.federation.scim_settings.change(call.caller, call.body.groups, call.actor))
