"""Revokes the access to an account, locks it, and deletes accounts that were never confirmed."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest, Unauthorized, Unavailable
from core.domain.identifiers import OrganizationId, PasskeyId, PrivacyRequestId, SessionId, UserId, UserKeyId
from core.domain.identity.account_locks import RECENT, AddressGivenUp, LockedAccount, LockedBy, LockLink, NotALockLink, account_locked
from core.domain.identity.account_mails import LinkRefused, Links, LinkUnknown, MailedTokenPurpose, link_used, mailed_token
from core.domain.identity.accounts import Account, registration_lapsed
from core.domain.identity.callers import Caller
from core.domain.identity.endings import LOCK_LINKS
from core.domain.identity.made_accounts import removed_with_account
from core.domain.identity.passkeys import passkey_removed, passkeys_changed
from core.domain.identity.privacy import forget_job
from core.domain.identity.upstream.claims import AddedKind, AddedWay
from core.domain.identity.upstream.identities import identity_unlinked
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.domain.services.user_keys import PlacedUserKey, named_keys, user_key_revoked
from core.frozen import Frozen, replace
from core.usecases.identity.guards.puzzles import opened_text, sealed_text
from core.usecases.identity.privacy import Declining
from ports.crypto import CannotOpen, KeyRing
from ports.mail import MailTemplates
from ports.system import Clock, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


async def require_living(uow: UnitOfWork, session: SessionId) -> None:
    """Checks that the session has not ended since the request came in. Every change that adds or removes a way into the account, or a
    proof, calls this function: a person who ends the session wants to end such a change, too. The caller holds the account. Raises
    `Unauthorized`.
    """
    if not await uow.sessions.lives(session):
        raise Unauthorized("The session has ended", words="session_ended")


async def end_access(uow: UnitOfWork, user: UserId, at: datetime, *, but: SessionId | None = None, forgets_devices: bool = False) -> None:
    """Ends all access without a round trip of its own: sessions, trusted devices, mailed links, and unfinished sign-ins, also on devices
    that the owner has just approved. Every change of an account's owner, or of its authenticators, calls it.

    `but` is the caller's session: it goes on, and so do the sessions that it was opened from and the sessions that were opened from it.
    `forgets_devices`: somebody else may have signed in before, whose browsers must not be known ones, which guess more often and whose
    sign-ins no mail tells of.

    The order of locks is fixed: the account, its connected accounts if they end, the mailed links and unfinished sign-ins, devices,
    sessions. A sign-in, the revocation of a device and the deletion of an account take them in this order too, so no two of them wait for
    each other.
    """
    await _end_all_but_sessions(uow, user, at)
    if forgets_devices:
        await uow.devices.revoke_all(user, at, but=but)
    await uow.sessions.end_all(user, but=but)


async def hand_over(uow: UnitOfWork, user: UserId, at: datetime, *, keeps_profile: bool = False) -> None:
    """Does what `end_access` does, for an account that goes to another person, who proves its address. Also ends every way in that the
    earlier holder may have added, keys for the APIs of applications among them, the consents that the earlier holder gave to applications,
    and the terms that they accepted, because nobody would ask the new holder for them. The caller takes care of the password.
    `keeps_profile`: name and picture stay, because a directory has vouched that the account is the person's.
    """
    await _end_what_was_added(uow, user, keeps_profile=keeps_profile)
    await end_access(uow, user, at, forgets_devices=True)


async def end_user_keys(
    uow: UnitOfWork,
    user: UserId,
    at: datetime,
    actor: Actor,
    *,
    but: Collection[UserKeyId] | None,
    organization: OrganizationId | None = None,
) -> Sequence[PlacedUserKey]:
    """Ends the person's keys for the APIs of applications, except for these, and returns the ended ones. `but` is None: those that the
    applications made stay. With an `organization`, only keys at its applications. Unlike keys that go with an account, each is recorded,
    because the account goes on. Comes after `end_access`, and the caller holds the account.
    """
    ended = await uow.user_keys.end_held(user, at, but=but, organization=organization)
    await uow.record_all([user_key_revoked(one.key, one.service_slug, one.organization, actor) for one in ended])
    return ended


async def leave_to_another(uow: UnitOfWork, user: UserId, actor: Actor, organization: OrganizationId) -> None:
    """Clears an account that this organization moves to another person's address. The caller has held the account for the move. Nothing of
    the earlier holder stays: neither the second factor, which would lock the new holder out, nor personal data. The password goes with the
    address. No other organization has a tie to the account, or it could not be moved.
    """
    await end_second_factor(uow, user, actor, organization)
    await uow.accounts.forget_holder(user)


async def end_second_factor(uow: UnitOfWork, user: UserId, actor: Actor, organization: OrganizationId | None = None) -> None:
    """Ends the second factor of an account's earlier holder. It is recorded, but no mail goes out, because the second factor is not the new
    holder's. The caller holds the account.
    """
    if not await uow.mfa.disable(user):
        return
    # The first event is the act itself, the second the entry of the security logs.
    for name in ("user.mfa.disabled", "security.mfa.disabled"):
        event = Event(name, actor, Target("user", str(user)), organization, {"forced": True})
        await (uow.record_in_every_log(event, user) if organization is None else uow.record(event))


async def end_added_way(uow: UnitOfWork, one: AddedWay, user: UserId, actor: Actor) -> None:
    """Ends a passkey or a connected identity that is not the person's, and records it. The caller holds the account."""
    if one.kind is AddedKind.PASSKEY:
        passkey = await uow.passkeys.find_held(user, PasskeyId(one.id))
        if passkey is not None:
            await uow.passkeys.remove(user, passkey.passkey.id)
            await uow.record(passkey_removed(passkey.passkey, actor))
            await uow.record_in_every_log(passkeys_changed(passkey.passkey, actor, added=False), user)
        return
    identity = next((known for known in await uow.identities.list(user) if known.id == one.id), None)
    if identity is not None:
        await uow.identities.remove(identity.id)
        await uow.record(identity_unlinked(identity, actor, service=None))


async def end_access_counting(uow: UnitOfWork, user: UserId, at: datetime) -> int:
    """Does what `end_access` does, and returns the number of ended sessions."""
    await _end_all_but_sessions(uow, user, at)
    return await uow.sessions.revoke_all(user, but=None)


async def hand_over_counting(uow: UnitOfWork, user: UserId, at: datetime) -> int:
    """Does what `hand_over` does, and returns the number of ended sessions."""
    await _end_what_was_added(uow, user)
    return await end_access_counting(uow, user, at)


async def _end_what_was_added(uow: UnitOfWork, user: UserId, *, keeps_profile: bool = False) -> None:
    """Removes the profile, passkeys, connected identities, consents, accepted terms and user keys, before the rest ends. Together with an
    identity go the sign-ins by it that await a second factor, just as when a provider is deleted.
    """
    await uow.accounts.hold(user)
    if not keeps_profile:
        await uow.profiles.forget(user)
    await uow.passkeys.remove_all(user)
    await uow.identities.remove_all(user)
    await uow.consents.remove_all(user)
    await uow.terms.remove_all(user)
    await uow.user_keys.remove_all(user)


async def _end_all_but_sessions(uow: UnitOfWork, user: UserId, at: datetime) -> None:
    await uow.accounts.hold(user)
    await uow.mailed_tokens.end_all(user, at)
    await uow.mfa.end_preauthentications(user, at)
    await uow.sessions.end_codes(user)
    await uow.devices.end_trust(user)


async def delete_made_account(
    uow: UnitOfWork,
    user: UserId,
    maker: OrganizationId,
    held: frozenset[OrganizationId],
    decline: Declining,
    *,
    request: PrivacyRequestId,
    at: datetime,
) -> Sequence[Event]:
    """Deletes an account that an organization has created for a user, and that no other organization needs.

    Deletes the account, which the caller holds for this, and which is its maker's. `held` are the organizations that
    `ServiceUserStore.hold_organizations` has locked. An ownership that others have given holds nothing against the maker: it goes back, as
    if the person had declined it. Returns what the other organizations hear that had listed the person. Raises `BadRequest` while the
    person has a subscription at one of them, and `Unavailable` when one lists the person at this very moment.
    """
    elsewhere = await uow.service_users.elsewhere(user, maker)
    elsewhere.require_deletable()
    if not elsewhere.members_of <= held:
        raise Unavailable(retry_after=_SOON, detail="another organization has listed the person meanwhile")
    for organization in sorted(held - {maker}):
        await decline(uow, organization, user)
    await uow.service_users.delete_account(user, request, at)
    await uow.jobs.add(forget_job(request))
    return [removed_with_account(user, organization) for organization in elsewhere.known_to]


_SOON: Final = 1.0


class UnverifiedLook(Frozen):
    """What one look at a batch of unproved accounts came to."""

    looked_at: int
    ended: int
    last: datetime | None
    """When the last of these accounts was made. The next batch begins after it."""


class UnverifiedAccounts(Frozen):
    """Deletes accounts that were registered with an email address that nobody verified, and that were never used, once their retention
    ends.
    """

    unit_of_work: UnitOfWorkFactory
    system: System
    retention: timedelta
    """Zero: such accounts stay."""

    async def end_due(self, after: datetime | None, limit: int) -> UnverifiedLook:
        """Ends the accounts among one batch of unproved ones, the oldest first, that nobody ever used. Accounts that somebody holds at this
        moment are left for the next round: a person may just prove the address.
        """
        if not self.retention:
            return UnverifiedLook(0, 0, after)
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            held = await uow.accounts.hold_unproved(now, self.retention, after, limit)
            # A second statement, since the first does not see what others wrote before it got the locks.
            unused = await uow.accounts.never_used([one.id for one in held], now)
            for user in unused:
                request = PrivacyRequestId(self.system.ids.new())
                await uow.service_users.delete_account(user, request, now)
                await uow.jobs.add(forget_job(request))
            if unused:
                await uow.record_all([registration_lapsed(user) for user in unused])
                await uow.commit()
        return UnverifiedLook(len(held), len(unused), held[-1].created_at if held else after)


class LockLinks(Frozen):
    """Issues and reads the links in mails that lock an account. No link is stored: the key ring seals what the link is bound to, and the
    time of the account's last lock tells whether the link is used up. So a mail needs no row, and its link costs no statement.

    Implements `ports.mail.LockLinkMaker`.
    """

    keyring: KeyRing
    links: Links
    clock: Clock

    def issue(self, user: UserId, to: str, mail: str) -> str:
        link = LockLink.of(user, Email(to), mail, self.clock.now())
        return self.links.lock(Token(sealed_text(self.keyring, link.packed(), LOCK_LINKS)))

    def read(self, token: Token) -> LockLink:
        """Raises `LinkRefused`."""
        try:
            # A key that has left the ring opens nothing any more: the fault is nobody's, and the link is only old.
            link = LockLink.unpacked(opened_text(self.keyring, token.reveal(), LOCK_LINKS))
        except (CannotOpen, NotALockLink, ValueError):
            raise LinkUnknown("This link is not valid", words="link_invalid") from None
        if link.is_over(self.clock.now()):
            raise LinkRefused("This link has expired", words="link_expired")
        return link


_SHUT: Final = "The account is deactivated"


class AccountLocks(Frozen):
    """Locks accounts: for the signed-in user, for the reader of a security mail, and for administrators who may decide about the
    account.
    """

    unit_of_work: UnitOfWorkFactory
    lock_links: LockLinks
    templates: MailTemplates
    links: Links
    system: System

    async def lock_own(self, caller: Caller, actor: Actor) -> LockedAccount:
        """The person locks their account, in which they are signed in. Raises `Unauthorized` when the session has ended."""
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(caller.user)
            await require_living(uow, caller.session)
            account = (await uow.accounts.find_all([caller.user]))[caller.user]
            done = await self.lock_held(uow, account, LockedBy.PERSON, actor)
            await uow.commit()
        return done

    async def look_at_link(self, token: Token) -> tuple[Email, bool]:
        """Returns the address of the account that the link locks, and whether the account is locked already. The link stays usable. Raises
        what `lock_by_mail` does.
        """
        link = self.lock_links.read(token)
        async with self.unit_of_work() as uow:
            account = await _named(uow, link)
        if not account.is_locked:
            _require_lockable(account, link)
        return account.email, account.is_locked

    async def lock_by_mail(self, token: Token, actor: Actor) -> LockedAccount:
        """Locks the account of the mail, for its reader. Of two requests, one locks. `changed` is False for an account that is locked
        already. Raises `LinkRefused`, and `BadRequest` when the account is deactivated.
        """
        link = self.lock_links.read(token)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(link.user)
            account = await _named(uow, link)
            done = await self.lock_held(uow, account, LockedBy.MAIL, replace(actor, user=account.id), link=link)
            await uow.commit()
        return done

    async def lock_held(
        self,
        uow: UnitOfWork,
        account: Account,
        by: LockedBy,
        actor: Actor,
        *,
        link: LockLink | None = None,
        organization: OrganizationId | None = None,
        personal: Mapping[str, str] = MappingProxyType({}),
    ) -> LockedAccount:
        """Ends everything that lets somebody into the account, removes the password, and mails a link for a new one. The caller has held
        the account. Raises `BadRequest` when it is deactivated, and `LinkRefused` when the link is used up.
        """
        # Read only now: what others did to the account before counts as earlier than the lock.
        user, now = account.id, self.system.clock.now()
        if account.is_locked:
            return LockedAccount(account, changed=False)
        _require_lockable(account, link)
        before = await uow.account_locks.before(user, now)
        recent = await uow.account_locks.added_since(user, now - RECENT)
        await uow.consents.remove_all(user)
        sessions = await end_access_counting(uow, user, now)
        # The browsers are not known ones any more: somebody else may have signed in with one of them.
        await uow.devices.revoke_all(user, now)
        keys = await end_user_keys(uow, user, now, actor, but=())
        token = self.system.secrets.mailed_token()
        await uow.mailed_tokens.issue(mailed_token(token, MailedTokenPurpose.RESET_PASSWORD, user, account.email, now))
        await uow.account_locks.lock(user, now)
        done = LockedAccount(
            replace(account, deactivated_at=now, locked_at=now),
            changed=True,
            had_password=before.has_password,
            sessions=sessions,
            devices=before.devices,
            consents=before.consents,
            keys=named_keys(keys),
            key_count=len(keys),
            recent=recent,
        )
        mail = self.templates.mail(
            "account_locked",
            account.email.address,
            account=user,
            language=account.language or actor.language,
            link=self.links.redeeming(MailedTokenPurpose.RESET_PASSWORD, token),
            by=by.value,
            recent=tuple(one.name for one in recent if one.kind is not AddedKind.SECOND_FACTOR),
            has_recent_app=any(one.kind is AddedKind.SECOND_FACTOR for one in recent),
            when=now,
            address=actor.address if by in {LockedBy.PERSON, LockedBy.MAIL} else None,
        )
        await uow.jobs.add(mail.as_job())
        told = {} if link is None else {"mail": link.mail}
        event = account_locked(user, by, actor, personal={**personal, **told}, organization=organization)
        await uow.record_in_every_log(event, user)
        return done


def _require_lockable(account: Account, link: LockLink | None) -> None:
    """Raises `BadRequest` when the account is deactivated, and `LinkRefused` when the link is used up."""
    if account.deactivated_at is not None:
        raise BadRequest(_SHUT, words="account_deactivated")
    if link is not None and link.is_spent(account):
        raise link_used()


async def _named(uow: UnitOfWork, link: LockLink) -> Account:
    """The account that the link is about. Raises `LinkRefused`."""
    account = (await uow.accounts.find_all([link.user])).get(link.user)
    if account is None or (account.is_shut and not link.is_about(account)):
        raise LinkUnknown("This link is not valid", words="link_invalid")
    if not link.is_about(account):
        raise AddressGivenUp
    return account
