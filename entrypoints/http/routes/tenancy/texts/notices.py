"""From when until when an organization's notice stands above the sign-in."""

from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts import NoticeTimes
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import MEMBER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_NOTICE = "/api/organizations/{org_slug}/notice"
_MANAGERS = able(Capability.SETTINGS_MANAGE, impersonated=True)

_At = Annotated[datetime, msgspec.Meta(tz=True)]


class NoticeBody(msgspec.Struct, frozen=True, kw_only=True):
    """When the notice stands. What it says is the text `own.notice`."""

    begins_at: _At | None = None
    """From when the notice stands; null: from the moment that there is a text."""
    ends_at: _At | None = None
    """Until when the notice stands; null: until the text is taken away."""


@endpoint.get(_NOTICE, caller=MEMBER, keys=True, tags=_TAGS)
async def get_notice(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoticeBody:
    """Get the times of the notice of an organization

    What the notice says is one of the organization's texts.
    """
    return _body(await postern.tenancy.notices.get(call.caller))


@endpoint.put(_NOTICE, caller=_MANAGERS, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def set_notice(call: Call[NoticeBody, None, OrganizationPath, Member], postern: Postern) -> NoticeBody:
    """Set the times of the notice of an organization

    Between them, by the clock of the server, the text `own.notice` stands above the pages on which people sign in or register. An end in
    the past takes the notice down, and its text stays for the next time.
    """
    times = NoticeTimes(call.body.begins_at, call.body.ends_at)
    return _body(await postern.tenancy.notices.set(call.caller, times, call.actor))


_body = shown(NoticeTimes, NoticeBody)
