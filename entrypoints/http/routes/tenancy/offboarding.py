"""The deadline of an organization for offboarding."""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest
from core.domain.tenancy.members import Member
from core.domain.tenancy.offboarding import LONGEST_MINUTES, OffboardingDeadline, OffboardingMinutes
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("audit",)
_DEADLINE: Final = "/api/organizations/{org_slug}/offboarding-deadline"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# Without it, nobody hears that a receiver is late.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

_Minutes = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": LONGEST_MINUTES}), example(60)]


class OffboardingDeadlineBody(msgspec.Struct, frozen=True, kw_only=True):
    """The deadlines in minutes, from 1 minute to 7 days. Null, or a field that you leave out, means no deadline."""

    removal_minutes: _Minutes | None = None
    """For members who are removed or whose account is deleted."""
    access_minutes: _Minutes | None = None
    """For a changed role, a consent that ends, and the removal from a team or from an application."""
    security_minutes: _Minutes | None = None
    """For ended sessions, a locked account, and a changed password, passkey or second factor."""


class OffboardingDeadlineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The deadlines of an organization. If none is set, only `configured` is present."""

    configured: Annotated[bool, example(True)]
    """Whether a deadline is set."""
    removal_minutes: _Minutes | msgspec.UnsetType | None = msgspec.UNSET
    """For members who are removed or whose account is deleted; null for no deadline."""
    access_minutes: _Minutes | msgspec.UnsetType | None = msgspec.UNSET
    """For a changed role, a consent that ends, and the removal from a team or from an application; null for no deadline."""
    security_minutes: _Minutes | msgspec.UnsetType | None = msgspec.UNSET
    """For ended sessions, a locked account, and a changed password, passkey or second factor; null for no deadline."""
    created_at: datetime | msgspec.UnsetType = msgspec.UNSET
    """When the first deadline was set. Earlier acts are not judged."""
    updated_at: datetime | msgspec.UnsetType = msgspec.UNSET
    """When the deadlines were last changed."""


_wanted = taken(OffboardingDeadlineBody, OffboardingMinutes)
_record = shown(OffboardingDeadline, OffboardingDeadlineRecord, configured=lambda _deadline: True)


@endpoint.put(_DEADLINE, caller=_IN_PERSON, keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS)
async def set_offboarding_deadline(
    call: Call[OffboardingDeadlineBody, None, OrganizationPath, Member], postern: Postern
) -> OffboardingDeadlineRecord:
    """Set the offboarding deadlines of an organization

    When an act ends or weakens the access of a person, Postern notifies receivers: webhooks that subscribe to the event, applications with
    back-channel logout, streams that signals are pushed to, and provisioning. A receiver is late if it has not accepted the act within the
    deadline. It is late at once if Postern has given up, or if the receiver is disabled while something waits for it. Streams that poll,
    the SIEM and front-channel logout are not judged.

    Postern looks once a minute. For each act and each late receiver, it records one event `offboarding.late`, and it sends the owners at
    most one email an hour. Acts of before the first deadline are not judged.
    """
    return _record(await postern.tenancy.offboarding_deadlines.set(call.caller, call.actor, _wanted(call.body)))


@endpoint.get(_DEADLINE, caller=_MANAGE, keys=True, tags=_TAGS)
async def get_offboarding_deadline(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> OffboardingDeadlineRecord:
    """Get the offboarding deadlines of an organization

    If no deadline is set, only `configured` is present.
    """
    deadline = await postern.tenancy.offboarding_deadlines.get(call.caller)
    return OffboardingDeadlineRecord(configured=False) if deadline is None else _record(deadline)


@endpoint.delete(_DEADLINE, caller=_IN_PERSON, keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def remove_offboarding_deadline(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the offboarding deadlines of an organization

    From now on, no receiver is late, and none needs attention for having been late. If no deadline is set, nothing happens.
    """
    await postern.tenancy.offboarding_deadlines.remove(call.caller, call.actor)
    return NO_BODY
