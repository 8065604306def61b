"""Platform owners: the people who govern the whole installation. The first is made at the first start. Others are made at the command line
or by a platform owner.
"""

from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.secrets import Password
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import hand_over
from core.usecases.identity.account_passwords import PasswordRules
from ports.crypto import PasswordHasher
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class PlatformOwners(Frozen):
    unit_of_work: UnitOfWorkFactory
    passwords: PasswordHasher
    rules: PasswordRules
    system: System

    async def exist(self) -> bool:
        async with self.unit_of_work() as uow:
            return await uow.platform_owners.exist()

    async def create_first(self, email: Email, password: Password) -> UserId | None:
        """Makes the first platform owner of this installation. Returns None when there is one already: of many first starts at once, one
        makes the owner.
        """
        encoded = await self._hash(email, password)
        async with self.unit_of_work() as uow:
            await uow.platform_owners.lock_first_start()
            if await uow.platform_owners.exist():
                return None
            user = await self._make(uow, email, encoded)
            await uow.commit()
        return user

    async def create(self, email: Email, password: Password) -> UserId:
        """Makes a platform owner with this e-mail address, as a new, verified account. An existing account is promoted, and keeps its
        password only if its address is verified; otherwise a stranger may have chosen the password.
        """
        encoded = await self._hash(email, password)
        async with self.unit_of_work() as uow:
            user = await self._make(uow, email, encoded)
            await uow.commit()
        return user

    async def promote(self, email: Email) -> UserId | None:
        """Makes an existing, active and verified account a platform owner. Impersonations of the account end. Returns None when there is no
        such account.
        """
        async with self.unit_of_work() as uow:
            user = await self._promote(uow, email)
            await uow.commit()
        return user

    async def put_in_office(self, user: UserId, by: UserId, actor: Actor) -> Account:
        """Makes an existing account a platform owner, as another platform owner asks. Impersonations of the account end, and so do its
        sessions that an organization's own provider vouched for. May be repeated. Raises `NotFound`, `BadRequest` for an account that is
        not verified or not active, and `Forbidden` when the asking owner has been removed meanwhile.
        """
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            account = await _held(uow, user, by)
            if account.is_platform_owner:
                return account
            if account.deactivated_at is not None:
                raise BadRequest("The account is deactivated", words="account_deactivated")
            if not account.address_is_proved:
                # A stranger may have registered the account and may know its password.
                raise BadRequest("The account's email address must be verified first", words="account_unproved")
            await uow.platform_owners.put_in_office(user, now)
            await _end_what_no_owner_may_have(uow, user)
            await uow.record(_created(user, promoted=True, actor=actor))
            await uow.commit()
        return replace(account, is_platform_owner=True)

    async def put_out_of_office(self, user: UserId, by: UserId, actor: Actor) -> Account:
        """Removes a platform owner. The account stays; impersonations that it began end. Platform owners cannot remove themselves, so one
        always remains. Raises `NotFound` when there is no such platform owner, `BadRequest` for oneself, and `Forbidden` when the asking
        owner has been removed meanwhile.
        """
        if user == by:
            raise BadRequest(
                "You cannot demote yourself or the last platform owner: another platform owner must do it", words="another_platform_owner"
            )
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            account = await _held(uow, user, by)
            if not account.is_platform_owner:
                raise NotFound(_UNKNOWN_OWNER)
            await uow.platform_owners.put_out_of_office(user, now)
            sessions = await uow.sessions.revoke_impersonations(user)
            details = {"impersonations_ended": sessions}
            await uow.record(Event("platform.owner.removed", actor, Target("user", str(user)), details=details))
            await uow.commit()
        return replace(account, is_platform_owner=False)

    async def _hash(self, email: Email, password: Password) -> str:
        await self.rules.require(password, email)
        return await self.passwords.hash(password)

    async def _make(self, uow: UnitOfWork, email: Email, encoded: str) -> UserId:
        now = self.system.clock.now()
        # A person who controls the command line or the settings of the installation need not prove an address to it.
        user = UserId(self.system.ids.new())
        account = Account(user, email, is_platform_owner=True, email_verified_at=now, deactivated_at=None, created_at=now)
        if await uow.accounts.add(account, encoded):
            await uow.record(_created(user, promoted=False))
            return user
        existing = await self._promote(uow, email)
        if existing is None and await self._disown(uow, email, encoded, now):
            existing = await self._promote(uow, email)
        if existing is None:
            raise Conflict("The account with this email address is deactivated", words="account_deactivated")
        return existing

    async def _disown(self, uow: UnitOfWork, email: Email, encoded: str, now: datetime) -> bool:
        """Takes an account whose address was never proved away from its registrant. Returns False when the account is deactivated."""
        account = await uow.accounts.find(email)
        if account is None or not await uow.account_passwords.reset(account.id, email, encoded, now):
            return False
        await hand_over(uow, account.id, now)
        return True

    async def _promote(self, uow: UnitOfWork, email: Email) -> UserId | None:
        user = await uow.platform_owners.promote(email)
        if user is not None:
            await _end_what_no_owner_may_have(uow, user)
            await uow.record(_created(user, promoted=True))
        return user


_UNKNOWN_OWNER: Final = "There is no such platform owner"


async def _held(uow: UnitOfWork, user: UserId, by: UserId) -> Account:
    """Returns the account, and holds the set of platform owners. Checks again that the asking person is a platform owner: of two owners who
    remove each other at once, the first remains.
    """
    await uow.platform_owners.lock_for_update()
    # The account is held as well, because promotions at the command line and deactivations do not hold the set of platform owners.
    await uow.accounts.lock_for_update(user)
    accounts = await uow.accounts.find_all({user, by})
    owner = accounts.get(by)
    if owner is None or not owner.is_platform_owner or owner.deactivated_at is not None:
        raise Forbidden
    if user not in accounts:
        raise NotFound("There is no such user")
    return accounts[user]


async def _end_what_no_owner_may_have(uow: UnitOfWork, user: UserId) -> None:
    """Ends impersonations of a platform owner, and sessions that an organization's own provider vouched for: a platform owner may have
    neither.
    """
    await uow.impersonations.end_all(user)
    await uow.sessions.end_codes(user)
    await uow.sessions.end_federated(user)


def _created(user: UserId, *, promoted: bool, actor: Actor = SYSTEM) -> Event:
    return Event("platform.owner.created", actor, Target("user", str(user)), details={"promoted": promoted})
