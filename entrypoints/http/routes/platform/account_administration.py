"""Accounts that platform owners close and open again."""

from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.identity.proofs import StepUp
from core.domain.platform.governance import Authority
from core.domain.tenancy.management_keys import PlatformCapability
from core.usecases.platform.account_administration import AdministeredAccount
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, EmailAddress, Id, IsPlatformOwner, example
from entrypoints.http.routes.identity.account_locks import LockEnded, locked_record
from entrypoints.http.routes.platform.platform_users import PlatformUserPath

_TAGS = ("platform",)
_USER = "/api/platform/users/{user_id}"
_Changed = Annotated[bool, example(True)]


class AdministeredUser(msgspec.Struct, frozen=True):
    """The user after the change."""

    id: Id
    email: EmailAddress
    is_platform_owner: IsPlatformOwner
    created_at: CreatedAt
    deactivated_at: datetime | None
    """When the account was deactivated; null if it is active."""
    locked_at: datetime | None
    """When the account was locked, if it is locked now: the user opens it by a new password. Otherwise null."""


class UserDeactivated(msgspec.Struct, frozen=True):
    """The account is deactivated."""

    user: AdministeredUser
    """The user after the change."""
    changed: _Changed
    """Whether the account was active before."""
    sessions_ended: Annotated[int, example(2)]
    """How many sessions ended."""


class UserLocked(msgspec.Struct, frozen=True):
    """The account is locked."""

    user: AdministeredUser
    """The user after the change."""
    changed: _Changed
    """Whether the account was open before."""
    ended: LockEnded
    """What ended, and what was added shortly before."""


class UserActivated(msgspec.Struct, frozen=True):
    """The account is active."""

    user: AdministeredUser
    """The user after the change."""
    changed: _Changed
    """Whether the account was deactivated before."""


@endpoint.post(
    f"{_USER}/deactivate",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.PEOPLE_MANAGE,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def deactivate_user(call: Call[None, None, PlatformUserPath], postern: Postern) -> UserDeactivated:
    """Deactivate a user's account

    Nobody can sign in to it, and its sessions, links and trusted devices end at once. Its organizations and data stay. You may repeat this.
    You cannot deactivate yourself, and a management key deactivates no platform owner. You need a recent proof of who you are.
    """
    done = await postern.platform.account_administration.deactivate(UserId(call.path.user_id), Authority(call.actor))
    return UserDeactivated(_user(done), done.changed, done.sessions)


@endpoint.post(
    f"{_USER}/lock",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.PEOPLE_MANAGE,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def lock_user(call: Call[None, None, PlatformUserPath], postern: Postern) -> UserLocked:
    """Lock a user's account in which somebody else may be

    Everything ends that lets anybody in, also the password, and the user gets a mail with a link for a new one. The link opens the account;
    of the passkeys and connected accounts of the last 30 days, only what the user keeps then comes back. You may repeat this. You cannot
    lock yourself here, and a management key locks no platform owner. You need a recent proof of who you are.
    """
    done = await postern.platform.account_administration.lock(UserId(call.path.user_id), Authority(call.actor))
    return UserLocked(_record(done.account), done.changed, locked_record(done))


@endpoint.post(
    f"{_USER}/activate",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.PEOPLE_MANAGE,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def activate_user(call: Call[None, None, PlatformUserPath], postern: Postern) -> UserActivated:
    """Activate a user's account again

    Ended sessions stay ended, so the user signs in anew. You may repeat this. A management key activates no platform owner. You need a
    recent proof of who you are.
    """
    done = await postern.platform.account_administration.activate(UserId(call.path.user_id), Authority(call.actor))
    return UserActivated(_user(done), done.changed)


def _user(done: AdministeredAccount) -> AdministeredUser:
    return _record(done.account)


def _record(account: Account) -> AdministeredUser:
    locked_at = account.locked_at if account.is_locked else None
    return AdministeredUser(
        account.id, account.email.address, account.is_platform_owner, account.created_at, account.deactivated_at, locked_at
    )
