"""Users as platform owners see them: search, second factors, suspicious sign-ins, platform owners, and accounts that they close."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.guards.guesses import GuessAlert
from core.domain.identity.login_events import AlertType
from core.domain.identity.proofs import StepUp
from core.domain.platform.governance import Authority
from core.domain.platform.platform_users import DEFAULT_FOUND, LONGEST_SOUGHT, MOST_FOUND, FoundUser
from core.domain.tenancy.management_keys import ManagementKeyHolder, PlatformCapability
from core.domain.tenancy.members import knows_of_office
from core.usecases.platform.account_administration import AdministeredAccount
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    CreatedAt,
    EmailAddress,
    HasSecondFactor,
    Id,
    IsPlatformOwner,
    PersonName,
    SlugOfRole,
    UserUuid,
    example,
)
from entrypoints.http.routes.identity.accounts import LockEnded, locked_record
from entrypoints.http.routes.identity.mfa import MfaForceDisabled, StatedReason

_TAGS = ("platform",)


class PlatformUserPath(msgspec.Struct, frozen=True):
    user_id: UserUuid


class SoughtUsers(msgspec.Struct, frozen=True):
    """A search for users. With neither `search`, `email` nor `user_id` you get the newest users."""

    search: Annotated[str, msgspec.Meta(max_length=LONGEST_SOUGHT, examples=["lovelace"])] = ""
    """Part of the email address, the name or the user name, case-insensitive. Do not combine it with other parameters. Postern searches the
    newest 200 000 users; a complete email address is found among all users.
    """

    email: Annotated[str, msgspec.Meta(max_length=LONGEST_SOUGHT, examples=["ada@"])] = ""
    """Part of the email address, case-insensitive."""
    user_id: UserUuid | None = None
    """The ID of a user."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_FOUND)] = DEFAULT_FOUND
    """The maximum number of users to return."""


class UserOrganization(msgspec.Struct, frozen=True):
    """An organization that the user is a member of."""

    id: Id
    slug: Annotated[str, example("acme")]
    """The organization's slug."""
    name: Annotated[str, example("Acme Ltd")]
    """The organization's name."""
    role: SlugOfRole


class PlatformUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the installation."""

    id: Id
    email: EmailAddress
    name: PersonName | None
    is_platform_owner: IsPlatformOwner
    mfa_enabled: HasSecondFactor
    created_at: CreatedAt
    organizations: Sequence[UserOrganization]
    """The organizations that the user is a member of, at most 100."""


class UserSearchResult(msgspec.Struct, frozen=True):
    """The users that match."""

    users: Sequence[PlatformUser]
    """The users."""
    complete: Annotated[bool, example(True)] = True
    """False if there are older users that `search` did not cover."""


class UserMfaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The MFA status of a user."""

    user_id: UserUuid
    email: EmailAddress
    name: PersonName | None
    mfa_enabled: HasSecondFactor
    mfa_enabled_at: datetime | None
    """When MFA was enabled; null if it is not."""
    backup_codes_remaining: Annotated[int, example(8)]
    """The number of unused backup codes."""
    last_mfa_challenge: datetime | None
    """When the user last entered a code, right or wrong; null if never."""


class MfaAdoption(msgspec.Struct, frozen=True):
    """MFA statistics. On large installations, the number of users is an estimate, and at most 100 000 events are counted."""

    total_users: Annotated[int, example(1200)]
    """The number of users."""
    mfa_enabled_users: Annotated[int, example(300)]
    """The number of users who have MFA enabled."""
    mfa_adoption_rate: Annotated[float, example(25.0)]
    """The percentage of users who have MFA."""
    backup_codes_used_7d: Annotated[int, example(4)]
    """The number of backup codes used in the last 7 days."""
    mfa_failures_7d: Annotated[int, example(31)]
    """The number of wrong codes in the last 7 days."""


class SuspiciousActivity(msgspec.Struct, frozen=True):
    """A suspicious pattern in the sign-ins of a user."""

    user_id: UserUuid
    email: EmailAddress
    name: PersonName | None
    alert_type: AlertType
    """The type of the pattern."""
    details: Annotated[Mapping[str, Any], example({"failures": 12})]
    """The details of the pattern. The keys depend on `alert_type`."""
    detected_at: datetime
    """When the pattern was last seen."""


class SuspiciousGuesses(msgspec.Struct, frozen=True):
    """Wrong passwords for many accounts within 1 hour."""

    alert_type: AlertType
    """`many_accounts_from_one_network` or `one_password_over_many_accounts`. The password itself is not shown."""
    network: Annotated[str | None, example("192.0.2.0/24")]
    """The network of the attempts, if they came from one network."""
    browser: Annotated[str | None, example("firefox")]
    """The browser family of the attempts, if they reported the same one."""
    accounts: Annotated[int, example(70)]
    """The approximate number of accounts."""
    failures: Annotated[int, example(130)]
    """The number of failed attempts."""
    first_at: datetime
    """When the first attempt failed. For `one_password_over_many_accounts`: the hour."""
    detected_at: datetime
    """When the pattern was last seen. For `one_password_over_many_accounts`: the hour."""


class SuspiciousActivityList(msgspec.Struct, frozen=True):
    """The suspicious sign-ins of the last 24 hours."""

    alerts: Sequence[SuspiciousActivity]
    """The latest 100 alerts, one of each type for each user."""
    guesses: Sequence[SuspiciousGuesses]
    """The latest 100 alerts about wrong passwords for many accounts."""


class NewPlatformOwner(msgspec.Struct, frozen=True):
    """The user to promote."""

    user_id: UserUuid


class PlatformOwner(msgspec.Struct, frozen=True):
    """The user after the change."""

    id: Id
    email: EmailAddress
    is_platform_owner: IsPlatformOwner
    created_at: CreatedAt


class PlatformOwnerChanged(msgspec.Struct, frozen=True):
    """The change took effect."""

    user: PlatformOwner
    """The user after the change."""


@endpoint.get("/api/platform/users/search", caller=PLATFORM_OWNER, keys=PlatformCapability.PEOPLE_VIEW, refuses=(BadRequest,), tags=_TAGS)
async def search_users(call: Call[None, SoughtUsers], postern: Postern) -> UserSearchResult:
    """Search the users of the installation

    Search by ID, or by part of the email address or name. In `email`, a complete email address finds only the account with this email
    address.
    """
    asked = call.query
    if asked.search.strip():
        if asked.email or asked.user_id is not None:
            raise BadRequest("search: give it without email and user_id", words="search_alone")
        sought = await postern.platform.platform_users.find(asked.search, asked.limit)
        return UserSearchResult([_found(call.caller, one) for one in sought.users], sought.complete)
    user = None if asked.user_id is None else UserId(asked.user_id)
    return UserSearchResult(
        [_found(call.caller, one) for one in await postern.platform.platform_users.search(asked.email, user, asked.limit)]
    )


@endpoint.get("/api/platform/users/{user_id}/mfa/status", caller=PLATFORM_OWNER, keys=PlatformCapability.PEOPLE_VIEW, tags=_TAGS)
async def get_mfa_status_of_user(call: Call[None, None, PlatformUserPath], postern: Postern) -> UserMfaStatus:
    """Get a user's MFA status

    The response contains no secrets and no codes.
    """
    found = await postern.platform.platform_users.mfa(UserId(call.path.user_id))
    return UserMfaStatus(
        user_id=found.user,
        email=found.email.address,
        name=found.name,
        mfa_enabled=found.enabled_at is not None,
        mfa_enabled_at=found.enabled_at,
        backup_codes_remaining=found.backup_codes,
        last_mfa_challenge=found.last_challenge,
    )


@endpoint.delete("/api/platform/users/{user_id}/mfa", caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def disable_mfa_of_user(call: Call[StatedReason, StatedReason, PlatformUserPath], postern: Postern) -> MfaForceDisabled:
    """Remove a user's MFA

    Use this endpoint if a user has lost access to MFA. The reason is required, in the body or in the query; the audit log stores it.
    Postern notifies the user by email. The user then signs in with only the password. The request can be repeated safely. To remove your
    own MFA, use `DELETE /api/user/mfa`. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    reason = call.body.reason if call.body.reason is not None else call.query.reason
    user, by = UserId(call.path.user_id), call.caller.user
    disabled = await postern.platform.platform_users.force_disable_mfa(user, by, reason or "", call.actor)
    return MfaForceDisabled.done(disabled=disabled)


@endpoint.get("/api/platform/mfa/metrics", caller=PLATFORM_OWNER, keys=PlatformCapability.PEOPLE_VIEW, tags=_TAGS)
async def get_mfa_metrics(_call: Call, postern: Postern) -> MfaAdoption:
    """Get MFA statistics

    On large installations, the number of users is an estimate.
    """
    counted = await postern.platform.platform_users.mfa_metrics()
    return MfaAdoption(counted.users, counted.mfa_enabled, counted.adoption, counted.backup_codes_used, counted.failures)


@endpoint.get("/api/platform/mfa/suspicious", caller=PLATFORM_OWNER, keys=PlatformCapability.PEOPLE_VIEW, tags=_TAGS)
async def list_suspicious_activity(_call: Call, postern: Postern) -> SuspiciousActivityList:
    """List suspicious sign-ins

    Return the alerts of the last 24 hours: the latest 100, one of each type for each user, and the latest 100 about wrong passwords for
    many accounts.
    """
    found = await postern.platform.platform_users.alerts()
    return SuspiciousActivityList(
        [SuspiciousActivity(one.user, one.email.address, one.name, one.type, one.details, one.detected_at) for one in found.of_people],
        [_guesses(one) for one in found.of_nobody],
    )


def _guesses(one: GuessAlert) -> SuspiciousGuesses:
    return SuspiciousGuesses(one.type, one.network, one.family, one.accounts, one.failures, one.first_at, one.last_at)


@endpoint.post("/api/platform/owners", caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, refuses=(NotFound,), tags=_TAGS)
async def promote_platform_owner(call: Call[NewPlatformOwner], postern: Postern) -> PlatformOwnerChanged:
    """Promote a user to platform owner

    The account must be active and its email address verified. The request can be repeated safely. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled.
    """
    account = await postern.platform.platform_owners.put_in_office(UserId(call.body.user_id), call.caller.user, call.actor)
    return PlatformOwnerChanged(_owner(account))


@endpoint.delete("/api/platform/owners/{user_id}", caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def demote_platform_owner(call: Call[None, None, PlatformUserPath], postern: Postern) -> PlatformOwnerChanged:
    """Demote a platform owner

    The account is kept. Impersonation sessions that this owner started are revoked. You cannot demote yourself, so at least one platform
    owner always remains. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    account = await postern.platform.platform_owners.put_out_of_office(UserId(call.path.user_id), call.caller.user, call.actor)
    return PlatformOwnerChanged(_owner(account))


def _found(reader: Caller | ManagementKeyHolder, one: FoundUser) -> PlatformUser:
    return PlatformUser(
        id=one.account.id,
        email=one.account.email.address,
        name=one.name,
        is_platform_owner=knows_of_office(reader, one.account.id, is_platform_owner=one.account.is_platform_owner),
        mfa_enabled=one.mfa_enabled,
        created_at=one.account.created_at,
        organizations=[UserOrganization(of.organization, of.slug, of.name, of.role) for of in one.organizations],
    )


def _owner(account: Account) -> PlatformOwner:
    return PlatformOwner(account.id, account.email.address, account.is_platform_owner, account.created_at)


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
    """When the account was locked; null if it is not locked. The user unlocks it by choosing a new password."""


class UserDeactivated(msgspec.Struct, frozen=True):
    """The account is deactivated."""

    user: AdministeredUser
    """The user after the change."""
    changed: _Changed
    """Whether the account was active before."""
    sessions_ended: Annotated[int, example(2)]
    """The number of sessions revoked."""


class UserLocked(msgspec.Struct, frozen=True):
    """The account is locked."""

    user: AdministeredUser
    """The user after the change."""
    changed: _Changed
    """Whether the account was unlocked before."""
    ended: LockEnded
    """What was revoked, including what was added shortly before."""


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

    No one can sign in to the account, and its sessions, links and trusted devices are revoked at once. Its organizations and data are kept.
    The request can be repeated safely. You cannot deactivate yourself, and a management API key cannot deactivate platform owners. Requires
    a recent sign-in or reauthentication.
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
    """Lock a compromised account

    Use this endpoint if someone else may have access to the account. Everything that gives access is revoked, including the password. The
    user gets an email with a link to choose a new password, which unlocks the account. Of the passkeys and connected accounts of the last
    30 days, only those that the user then keeps are restored. The request can be repeated safely. You cannot lock yourself here, and a
    management API key cannot lock platform owners. Requires a recent sign-in or reauthentication.
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
    """Reactivate a user's account

    Revoked sessions are not restored, so the user must sign in again. The request can be repeated safely. A management API key cannot
    reactivate platform owners. Requires a recent sign-in or reauthentication.
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
