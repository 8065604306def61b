"""Users as platform owners see them: who they are, their second factor, what looks suspicious, and who governs the platform."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.accounts import Account
from core.domain.alerts import AlertType
from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import UserId
from core.domain.platform_users import DEFAULT_FOUND, LONGEST_SOUGHT, MOST_FOUND, FoundUser
from entrypoints.bootstrap import Services
from entrypoints.http.callers import PLATFORM_OWNER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

_TAGS = ("platform",)


class PlatformUserPath(msgspec.Struct, frozen=True):
    user_id: UUID


class SoughtUsers(msgspec.Struct, frozen=True):
    """`email` is a part of the address, in any case. With neither, the newest users."""

    email: Annotated[str, msgspec.Meta(max_length=LONGEST_SOUGHT)] = ""
    user_id: UUID | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_FOUND)] = DEFAULT_FOUND


class OrganizationOfUser(msgspec.Struct, frozen=True):
    id: UUID
    slug: str
    name: str
    role: str


class UserOfPlatform(msgspec.Struct, frozen=True, kw_only=True):
    """With at most a hundred of their organizations."""

    id: UUID
    email: str
    is_platform_owner: bool
    mfa_enabled: bool
    created_at: datetime
    organizations: Sequence[OrganizationOfUser]


class FoundUsers(msgspec.Struct, frozen=True):
    users: Sequence[UserOfPlatform]


class MfaOfUser(msgspec.Struct, frozen=True, kw_only=True):
    """`last_mfa_challenge` is when a code was last given, right or wrong."""

    user_id: UUID
    email: str
    mfa_enabled: bool
    mfa_enabled_at: datetime | None
    backup_codes_remaining: int
    last_mfa_challenge: datetime | None


class StatedReason(msgspec.Struct, frozen=True):
    """In the body; or in the query, for clients that send no body with a DELETE."""

    reason: str | None = None


class MfaForceDisabled(msgspec.Struct, frozen=True):
    success: bool
    message: str


class MfaAdoption(msgspec.Struct, frozen=True):
    """`mfa_adoption_rate` is in percent. Large installations are estimated; of events at most 100000 are counted."""

    total_users: int
    mfa_enabled_users: int
    mfa_adoption_rate: float
    backup_codes_used_7d: int
    mfa_failures_7d: int


class SuspiciousActivity(msgspec.Struct, frozen=True):
    user_id: UUID
    email: str
    alert_type: AlertType
    details: Mapping[str, Any]
    detected_at: datetime


class Alerts(msgspec.Struct, frozen=True):
    alerts: Sequence[SuspiciousActivity]


class NewPlatformOwner(msgspec.Struct, frozen=True):
    user_id: UUID


class OwnerOfPlatform(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    is_platform_owner: bool
    created_at: datetime


class PlatformOwnerChanged(msgspec.Struct, frozen=True):
    user: OwnerOfPlatform


@endpoint.get("/api/platform/users/search", caller=PLATFORM_OWNER, tags=_TAGS)
async def search_users(call: Call[None, SoughtUsers], services: Services) -> FoundUsers:
    """Find users by their id or a part of their e-mail address"""
    asked = call.query
    user = None if asked.user_id is None else UserId(asked.user_id)
    return FoundUsers([_found(one) for one in await services.platform_users.search(asked.email, user, asked.limit)])


@endpoint.get("/api/platform/users/{user_id}/mfa/status", caller=PLATFORM_OWNER, tags=_TAGS)
async def mfa_status_of_user(call: Call[None, None, PlatformUserPath], services: Services) -> MfaOfUser:
    """A user's second factor"""
    found = await services.platform_users.mfa(UserId(call.path.user_id))
    return MfaOfUser(
        user_id=found.user,
        email=found.email.address,
        mfa_enabled=found.enabled_at is not None,
        mfa_enabled_at=found.enabled_at,
        backup_codes_remaining=found.backup_codes,
        last_mfa_challenge=found.last_challenge,
    )


@endpoint.delete("/api/platform/users/{user_id}/mfa", caller=PLATFORM_OWNER, tags=_TAGS)
async def force_disable_mfa(call: Call[StatedReason, StatedReason, PlatformUserPath], services: Services) -> MfaForceDisabled:
    """Take the second factor from a user who lost it

    The reason is required, in the body or in the query; it is kept in the audit log. The user is told by mail, and signs in with the
    password alone from then on. May be repeated.
    """
    reason = call.body.reason if call.body.reason is not None else call.query.reason
    disabled = await services.platform_users.force_disable_mfa(UserId(call.path.user_id), reason or "", call.actor)
    return MfaForceDisabled(True, "MFA is disabled" if disabled else "MFA was not enabled")


@endpoint.get("/api/platform/mfa/metrics", caller=PLATFORM_OWNER, tags=_TAGS)
async def mfa_metrics(_call: Call, services: Services) -> MfaAdoption:
    """How many users have a second factor, and how it goes with them"""
    counted = await services.platform_users.mfa_metrics()
    return MfaAdoption(counted.users, counted.mfa_enabled, counted.adoption, counted.backup_codes_used, counted.failures)


@endpoint.get("/api/platform/mfa/suspicious", caller=PLATFORM_OWNER, tags=_TAGS)
async def suspicious_activity(_call: Call, services: Services) -> Alerts:
    """What somebody should look at in the sign-ins of the last 24 hours

    The latest hundred, one of a kind for each user.
    """
    alerts = await services.platform_users.alerts()
    return Alerts([SuspiciousActivity(one.user, one.email.address, one.type, one.details, one.detected_at) for one in alerts])


@endpoint.post("/api/platform/owners", caller=PLATFORM_OWNER, refuses=(NotFound,), tags=_TAGS)
async def promote_platform_owner(call: Call[NewPlatformOwner], services: Services) -> PlatformOwnerChanged:
    """Make a user a platform owner

    The account must be active and its e-mail address verified. May be repeated.
    """
    account = await services.platform_owners.put_in_office(UserId(call.body.user_id), call.caller.user, call.actor)
    return PlatformOwnerChanged(_owner(account))


@endpoint.delete("/api/platform/owners/{user_id}", caller=PLATFORM_OWNER, refuses=(BadRequest,), tags=_TAGS)
async def demote_platform_owner(call: Call[None, None, PlatformUserPath], services: Services) -> PlatformOwnerChanged:
    """Put a platform owner out of office

    The account stays; the sessions end that it opened in others' names. Nobody can do it to themselves, so that one is always left.
    """
    account = await services.platform_owners.put_out_of_office(UserId(call.path.user_id), call.caller.user, call.actor)
    return PlatformOwnerChanged(_owner(account))


def _found(one: FoundUser) -> UserOfPlatform:
    return UserOfPlatform(
        id=one.account.id,
        email=one.account.email.address,
        is_platform_owner=one.account.is_platform_owner,
        mfa_enabled=one.mfa_enabled,
        created_at=one.account.created_at,
        organizations=[OrganizationOfUser(of.organization, of.slug, of.name, of.role) for of in one.organizations],
    )


def _owner(account: Account) -> OwnerOfPlatform:
    return OwnerOfPlatform(account.id, account.email.address, account.is_platform_owner, account.created_at)
