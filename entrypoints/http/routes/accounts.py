"""The caller's own account."""

from uuid import UUID

import msgspec

from entrypoints.bootstrap import Services
from entrypoints.http.callers import USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint


class Profile(msgspec.Struct, frozen=True):
    """`org` and `service` are the slugs of the token's context, empty outside of one."""

    id: UUID
    email: str
    org: str
    service: str


@endpoint.get("/api/user", caller=USER, tags=("account",))
async def profile(call: Call, _services: Services) -> Profile:
    """The caller's profile"""
    caller = call.caller
    return Profile(caller.user, caller.email.address, caller.organization, caller.service)
