"""Platform owners: who governs the whole installation. The first comes with the first start, others are made on the command line."""

from datetime import datetime

from core.domain.accounts import Account, require_acceptable
from core.domain.email import Email
from core.domain.errors import BadRequest, Conflict
from core.domain.events import SYSTEM, Event, Target
from core.domain.identifiers import UserId
from core.domain.secrets import Password
from ports.clock import Clock
from ports.ids import Ids
from ports.passwords import CommonPasswords, PasswordHasher
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class PlatformOwners:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        passwords: PasswordHasher,
        common_passwords: CommonPasswords,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._passwords = passwords
        self._common_passwords = common_passwords
        self._clock = clock
        self._ids = ids

    async def exist(self) -> bool:
        async with self._unit_of_work() as uow:
            return await uow.accounts.has_platform_owner()

    async def create_first(self, email: Email, password: Password) -> UserId | None:
        """The first platform owner of this installation. None when there is one already: of many first starts, one makes it."""
        encoded = await self._hash(email, password)
        async with self._unit_of_work() as uow:
            await uow.accounts.hold_first_owner()
            if await uow.accounts.has_platform_owner():
                return None
            user = await self._make(uow, email, encoded)
            await uow.commit()
        return user

    async def create(self, email: Email, password: Password) -> UserId:
        """A platform owner with this e-mail: a new, verified account. An account that exists is promoted, and keeps its own password if
        its address is verified: of any other, a stranger may have chosen the password.
        """
        encoded = await self._hash(email, password)
        async with self._unit_of_work() as uow:
            user = await self._make(uow, email, encoded)
            await uow.commit()
        return user

    async def promote(self, email: Email) -> UserId | None:
        """Make an existing, active and verified account a platform owner. None when there is no such account."""
        async with self._unit_of_work() as uow:
            user = await self._promote(uow, email)
            await uow.commit()
        return user

    async def _hash(self, email: Email, password: Password) -> str:
        require_acceptable(password, email)
        if self._common_passwords.contains(password):
            raise BadRequest("The password is among the most common ones")
        return await self._passwords.hash(password)

    async def _make(self, uow: UnitOfWork, email: Email, encoded: str) -> UserId:
        now = self._clock.now()
        # Whoever has the command line or the settings of the installation need not prove an address to it.
        user = UserId(self._ids.new())
        account = Account(user, email, is_platform_owner=True, email_verified_at=now, deactivated_at=None, created_at=now)
        if await uow.accounts.add(account, encoded):
            await uow.record(_created(user, promoted=False))
            return user
        existing = await self._promote(uow, email)
        if existing is None and await self._disown(uow, email, encoded, now):
            existing = await self._promote(uow, email)
        if existing is None:
            raise Conflict("The account with this e-mail is deactivated")
        return existing

    async def _disown(self, uow: UnitOfWork, email: Email, encoded: str, now: datetime) -> bool:
        """Take an account whose address nobody has proved from whoever registered it. False when it is deactivated."""
        account = await uow.accounts.find(email)
        if account is None or not await uow.accounts.reset_password(account.id, email, encoded, now):
            return False
        await uow.mailed_tokens.end_all(account.id, now)
        await uow.sessions.revoke_all(account.id, but=None)
        await uow.devices.end_trust(account.id)
        return True

    async def _promote(self, uow: UnitOfWork, email: Email) -> UserId | None:
        user = await uow.accounts.promote(email)
        if user is not None:
            await uow.record(_created(user, promoted=True))
        return user


def _created(user: UserId, *, promoted: bool) -> Event:
    # About the installation, not about an organization: no webhook is there to hear it.
    return Event("platform.owner.created", SYSTEM, Target("user", str(user)), details={"promoted": promoted}, published=False)
