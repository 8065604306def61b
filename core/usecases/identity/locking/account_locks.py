"""Locks accounts: by the person, by the reader of a mail, and for others who may decide about the account."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.links import Links
from core.domain.identity.locking.account_locks import (
    RECENT,
    AddressGivenUp,
    LockedAccount,
    LockedBy,
    LockLink,
    account_locked,
)
from core.domain.identity.mailed_tokens import LinkUnknown, MailedTokenPurpose, link_used, mailed_token
from core.domain.identity.upstream.vouching import AddedKind
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.user_keys import named_keys
from core.frozen import Frozen, replace
from core.usecases.identity.account_access import end_access_counting, end_user_keys, require_living
from core.usecases.identity.locking.lock_links import LockLinks
from ports.mail_templates import MailTemplates
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_SHUT: Final = "The account is deactivated"


class AccountLocks(Frozen):
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
