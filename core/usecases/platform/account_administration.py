"""Administers accounts, for operators at the command line and for platform owners."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound, found
from core.domain.formats import Json
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.account_locks import LockedAccount, LockedBy
from core.domain.identity.account_mails import Links, MailedTokenPurpose, mailed_token
from core.domain.identity.accounts import Account
from core.domain.identity.callers import reason_of
from core.domain.identity.guards.guesses import Suspicions
from core.domain.identity.login_events import ALERTS_LOOKED_BACK
from core.domain.identity.proofs import WaysIn
from core.domain.identity.sessions import OwnSessionList, session_revoked
from core.domain.jobs import NewJob
from core.domain.mail import Email
from core.domain.platform.governance import Authority
from core.domain.platform.platform_users import (
    COUNTED_BACK,
    INSTALLATION,
    MOST_OWNERS,
    MOST_READ,
    AccountOverview,
    FoundUser,
    FoundUsers,
    MfaMetrics,
    MfaOverview,
)
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.requests import Page
from core.domain.secrets import Secret
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import AccountLocks, end_access_counting, hand_over_counting
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.realms import HomeRealms
from ports.identity.sessions import OwnSessionLookup
from ports.jobs import Turns
from ports.mail import MailTemplates
from ports.platform import AccountOverviews, AlertLookup, UserDirectory
from ports.system import Clock, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class AdministeredAccount(Frozen):
    """The account after the change, whether anything changed, and how many sessions ended."""

    account: Account
    changed: bool
    sessions: int = 0


class AccessReset(Frozen):
    """What ended, and the `link` by which the owner signs in again, once, within the hour. None when no link would help because the owner
    signs in at a provider, or when the account is deactivated.
    """

    account: Account
    ended: WaysIn
    sessions: int
    second_factor_ended: bool
    """It was passkeys."""
    second_factor_since: datetime | None
    """Whether the account has an authenticator app, which stays."""
    link: Secret | None


class AccountAdministration(Frozen):
    """Changes accounts. Every change is recorded with the person or key that asked for it.

    Each method raises `NotFound` when no account has this e-mail address or id. `by` is a platform owner, a management key of the platform,
    or the name of an operator at the command line. Whoever governs by a page does not end their own access, and a key does nothing to
    platform owners.
    """

    unit_of_work: UnitOfWorkFactory
    overviews: AccountOverviews
    session_lookup: OwnSessionLookup
    mfa: Mfa
    locks: AccountLocks
    realms: HomeRealms
    templates: MailTemplates
    links: Links
    system: System

    async def show(self, who: Email | UserId, by: Authority | str) -> AccountOverview:
        found = await self.overviews.find(who)
        if found is None:
            raise _unknown(who)
        async with self.unit_of_work() as uow:
            await _record(uow, "user.viewed", found.account, by, {})
            await uow.commit()
        return found

    async def deactivate(self, who: Email | UserId, by: Authority | str) -> AdministeredAccount:
        """Deactivates the account: nobody can sign in to it, and all its sessions, links and trusted devices end. Its organizations stay.
        May be repeated.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            # The lock on platform owners comes before the account. If two platform owners are deactivated at once, the second call must see
            # that the first owner is gone.
            await uow.platform_owners.hold()
            account = await _find(uow, who, by)
            await uow.accounts.hold(account.id)
            is_active_owner = account.is_platform_owner and account.deactivated_at is None
            if is_active_owner and not await uow.platform_owners.exist_besides(account.id):
                raise Conflict(
                    "This is the last active platform owner: create another first, with `postern owner create`", words="last_platform_owner"
                )
            changed = await uow.accounts.deactivate(account.id, now)
            sessions = await end_access_counting(uow, account.id, now)
            if changed:
                await _record(uow, "user.deactivated", account, by, {"sessions": sessions})
            await uow.commit()
        return AdministeredAccount(replace(account, deactivated_at=account.deactivated_at or now), changed, sessions)

    async def activate(self, who: Email | UserId, by: Authority | str) -> AdministeredAccount:
        """Activates the account. Its sessions stay ended, so its owner signs in anew. May be repeated. Raises `Conflict` when the account's
        person was forgotten.
        """
        async with self.unit_of_work() as uow:
            # For a key: nobody becomes a platform owner between the look and the change.
            await uow.platform_owners.hold()
            account = await _find(uow, who, by)
            now = self.system.clock.now()
            changed = await uow.accounts.activate(account.id, now)
            if not changed and account.deactivated_at is not None:
                # Another operator may have activated the account meanwhile.
                account = await _find(uow, who, by)
                if account.deactivated_at is not None:
                    raise Conflict("This account cannot be activated: its person was forgotten", words="account_forgotten")
            if changed:
                await _record(uow, "user.activated", account, by, {})
            await uow.commit()
        return AdministeredAccount(replace(account, deactivated_at=None), changed)

    async def lock(self, who: Email | UserId, by: Authority | str) -> LockedAccount:
        """Locks the account: everything ends that lets somebody in, and the person gets a mail with a link for a new password. May be
        repeated. Raises `BadRequest` when the account is deactivated.
        """
        async with self.unit_of_work() as uow:
            # For a key: nobody becomes a platform owner between the look and the change.
            await uow.platform_owners.hold()
            found = await _find(uow, who, by)
            await uow.accounts.hold(found.id)
            # As it is now: somebody else may have locked it before this one held it.
            account = await _find(uow, found.id, by)
            authority = _authority(by)
            done = await self.locks.lock_held(uow, account, LockedBy.PLATFORM, authority.actor, personal=authority.personal)
            await uow.commit()
        return done

    async def reset_password(self, who: Email | UserId, by: Authority | str, *, by_mail: bool) -> AccessReset:
        """Ends every way into the account and returns a link for its owner. The password ends, with all sessions, links, passkeys,
        connected identities and trust in devices. The reset that people request themselves ends less, because they have only forgotten a
        password. Here a stranger may have broken in, and the stranger's passkey looks like any other.

        An authenticator app stays, because an app alone lets nobody in. A deactivated account loses the same, but gets no link. A locked
        one gets a link, which opens it. The owner gets a mail.
        """
        requires_provider = await self.realms.requires_provider(await self._address(who, by))
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            account = await _find(uow, who, by)
            user = account.id
            await uow.accounts.hold(user)
            ways_in, secret = await uow.accounts.ways_in(user), await uow.mfa.find(user)
            app_since = None if secret is None else secret.enabled_at
            by_passkeys = app_since is None and await uow.mfa.is_enabled(user)
            await uow.account_passwords.forget(user, now)
            if by_passkeys:
                # The second factor ends before the sessions: code that enables one takes the locks in the same order.
                authority = _authority(by)
                reason = "command line" if authority.operator else "access reset"
                await self.mfa.force_end(
                    uow, user, account.email, authority.actor, reason=reason, operator=authority.operator, language=account.language
                )
            sessions = await hand_over_counting(uow, user, now)
            at_provider = requires_provider and not account.is_platform_owner
            link = None
            lets_in = account.deactivated_at is None or account.is_locked
            if lets_in and not at_provider:
                token = self.system.secrets.mailed_token()
                await uow.mailed_tokens.issue(mailed_token(token, MailedTokenPurpose.RESET_PASSWORD, user, account.email, now), now)
                link = self.links.redeeming(MailedTokenPurpose.RESET_PASSWORD, token)
            if lets_in:
                await uow.jobs.add(self._says_of_reset(account, link if by_mail else None, at_provider=at_provider))
            details: dict[str, Json] = {
                "how": "ended",
                "link": "none" if link is None else "mailed" if by_mail else "shown",
                "sessions": sessions,
                "passkeys": ways_in.passkeys,
                "identities": ways_in.identities,
            }
            await uow.record_in_every_log(_event("security.password.changed", account, by, details), user)
            await uow.commit()
        return AccessReset(account, ways_in, sessions, by_passkeys, app_since, None if link is None else Secret(link))

    async def _address(self, who: Email | UserId, by: Authority | str) -> Email:
        if isinstance(who, Email):
            return who
        async with self.unit_of_work() as uow:
            return (await _find(uow, who, by)).email

    def _says_of_reset(self, account: Account, link: str | None, *, at_provider: bool) -> NewJob:
        mail = self.templates.mail(
            "access_reset",
            account.email.address,
            account=account.id,
            language=account.language,
            link=link,
            at_provider=at_provider,
            when=self.system.clock.now(),
        )
        return mail.as_job()

    async def revoke_sessions(self, who: Email | UserId, by: Authority | str) -> AdministeredAccount:
        """Signs the owner out everywhere, from the next request on. Trusted devices stay trusted. May be repeated."""
        async with self.unit_of_work() as uow:
            account = await _find(uow, who, by)
            await uow.accounts.hold(account.id)
            await uow.sessions.end_codes(account.id)
            sessions = await uow.sessions.revoke_all(account.id, but=None)
            if sessions:
                await _record(uow, "security.sessions.revoked", account, by, {"sessions": sessions})
            await uow.commit()
        return AdministeredAccount(account, changed=sessions > 0, sessions=sessions)

    async def disable_mfa(self, who: Email | UserId, by: Authority | str) -> AdministeredAccount:
        """Disables the second factor of a person who has lost it. The person gets a mail. May be repeated."""
        async with self.unit_of_work() as uow:
            account = await _find(uow, who, by)
        changed = await self.mfa.force_disable(
            account.id, account.email, SYSTEM, "command line", _authority(by).operator, language=account.language
        )
        return AdministeredAccount(account, changed)

    async def sessions(self, user: UserId, page: Page) -> OwnSessionList:
        """Lists the living sessions of this person."""
        return await self.session_lookup.list(user, _NO_SESSION, self.system.clock.now(), page)

    async def end_session(self, user: UserId, session: SessionId, by: Authority) -> None:
        """Ends the session, with the sessions opened from it. May be repeated. Raises `NotFound` when this person has never had such a
        session.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            if await uow.sessions.revoke(session, user):
                await uow.record(session_revoked(user, by.actor, session))
                await uow.commit()
                return
        if not await self.session_lookup.was_there(user, session):
            raise NotFound("There is no such session")


_NO_SESSION: Final = SessionId(UUID(int=0))


def _unknown(who: Email | UserId) -> NotFound:
    return NotFound("There is no account with this email address" if isinstance(who, Email) else "There is no such user")


async def _find(uow: UnitOfWork, who: Email | UserId, by: Authority | str) -> Account:
    if isinstance(who, Email):
        account = await uow.accounts.find(who)
    else:
        account = (await uow.accounts.find_all([who])).get(who)
    if account is None:
        raise _unknown(who)
    if isinstance(by, Authority) and by.actor.user == account.id:
        raise BadRequest("This is your own account: another platform owner has to do it", words="another_platform_owner")
    if isinstance(by, Authority) and by.actor.key is not None and account.is_platform_owner:
        raise Forbidden("Management keys do nothing to platform owners", words="forbidden")
    return account


def _authority(by: Authority | str) -> Authority:
    return by if isinstance(by, Authority) else Authority(SYSTEM, by)


async def _record(uow: UnitOfWork, name: str, account: Account, by: Authority | str, details: dict[str, Json]) -> None:
    await uow.record(_event(name, account, by, details))


def _event(name: str, account: Account, by: Authority | str, details: dict[str, Json]) -> Event:
    authority = _authority(by)
    # The operator's name is personal data, so it must be possible to forget the name.
    return Event(name, authority.actor, Target("user", str(account.id)), details=details, personal=authority.personal)


class PlatformUsers(Frozen):
    """Lists accounts and their second factors, for platform owners.

    The caller has checked that the request comes from a platform owner.
    """

    directory: UserDirectory
    activity: AlertLookup
    second_factors: Mfa
    turns: Turns
    clock: Clock

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        """Returns accounts whose address contains this text, ignoring case; only the one whose address it is, if there is one. With `user`,
        at most this account.
        """
        # The text is normalized as addresses are for comparison, so that a displayed address finds its account.
        wanted = Email(part.strip()).key
        async with self.turns.take(INSTALLATION) if wanted and user is None else nullcontext():
            return await self.directory.search(wanted, user, limit)

    async def find(self, text: str, limit: int) -> FoundUsers:
        """The newest accounts whose address, name or user name contains this text, ignoring case; first the one whose address it is. The
        text is not empty. Raises `Overloaded` when too many searches are under way.
        """
        async with self.turns.take(INSTALLATION):
            return await self.directory.find(Email(text.strip()).key, limit, MOST_READ)

    async def owners(self) -> Sequence[FoundUser]:
        """All platform owners, the first one first."""
        return await self.directory.owners(MOST_OWNERS)

    async def mfa(self, user: UserId) -> MfaOverview:
        """Raises `NotFound`."""
        return found(await self.directory.mfa(user), "There is no such user")

    async def force_disable_mfa(self, user: UserId, by: UserId, reason: str, actor: Actor) -> bool:
        """Disables the second factor of a person who has lost it, and mails the person. Returns False when there was no second factor.
        Raises `NotFound`, and `BadRequest` for oneself and without a reason.
        """
        reason = reason_of(reason)
        if user == by:
            raise BadRequest(
                "Another platform owner has to do it: your own second factor you disable with DELETE /api/user/mfa",
                words="another_platform_owner",
            )
        found = await self.mfa(user)
        return await self.second_factors.force_disable(user, found.email, actor, reason, language=found.language)

    async def mfa_metrics(self) -> MfaMetrics:
        return await self.directory.mfa_metrics(self.clock.now() - COUNTED_BACK)

    async def alerts(self) -> Suspicions:
        return await self.activity.alerts(self.clock.now() - ALERTS_LOOKED_BACK)
