"""The users of a service, for the service's own servers, with an API key. Everything is scoped to the key's service."""

from dataclasses import replace
from typing import Final

from core.domain.accounts import Account
from core.domain.api_keys import KeyHolder
from core.domain.email import Email
from core.domain.errors import NotFound, Unavailable
from core.domain.events import Actor
from core.domain.identifiers import UserId
from core.domain.pages import Listed
from core.domain.service_users import Fate, HeldServiceUser, ServiceUser, email_changed, user_created, user_deleted, user_joined
from ports.clock import Clock
from ports.ids import Ids
from ports.service_users import ServiceUserLookup
from ports.unit_of_work import UnitOfWorkFactory


class ServiceUsers:
    def __init__(self, unit_of_work: UnitOfWorkFactory, lookup: ServiceUserLookup, clock: Clock, ids: Ids) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._clock = clock
        self._ids = ids

    async def list(self, holder: KeyHolder, limit: int, offset: int) -> Listed[ServiceUser]:
        """In the order in which they became the service's."""
        return await self._lookup.list(holder.service, limit, offset)

    async def get(self, holder: KeyHolder, user: UserId) -> ServiceUser:
        """Raises `NotFound` for whoever is no user of the service."""
        found = await self._lookup.get(holder.service, user)
        if found is None:
            raise NotFound(_UNKNOWN)
        return found

    async def add(self, holder: KeyHolder, email: Email, actor: Actor) -> ServiceUser:
        """The account of this address becomes a user of the service; when nobody has it, one that has no password and mails nobody. May be
        repeated: of many at once, all get the same.
        """
        now = self._clock.now()
        account = Account(
            UserId(self._ids.new()), email, is_platform_owner=False, email_verified_at=None, deactivated_at=None, created_at=now
        )
        async with self._unit_of_work() as uow:
            is_new = await uow.accounts.add(account, None, holder.service)
            if is_new:
                await uow.record(user_created(account.id, holder, actor))
            joined = await uow.service_users.join(holder.service, email, now)
            if joined is None:
                # Since the request came in the service was deleted, or this very moment somebody else's account of this address was.
                raise Unavailable(retry_after=_SOON)
            user, has_joined = joined
            if has_joined and not is_new:
                await uow.record(user_joined(user.id, holder, actor))
            await uow.commit()
        return user

    async def change_email(self, holder: KeyHolder, user: UserId, email: Email | None, actor: Actor) -> ServiceUser:
        """Move an account that is this service's alone to another address, which somebody has to prove anew. None: as it is. Raises
        `NotFound`, `Forbidden` for an account that is not, and `BadRequest` for an address that is taken.
        """
        async with self._unit_of_work() as uow:
            held = _found(await uow.service_users.hold(holder.service, user))
            if email is None or email.address == held.account.email.address:
                return held.user
            held.require_belonging()
            # After `hold`: later than all that others did to the account.
            now = self._clock.now()
            await uow.service_users.change_email(user, email, now)
            # All that was opened, or mailed, or half begun, was for whoever had the address before.
            await uow.mailed_tokens.end_all(user, now)
            await uow.mfa.end_preauthentications(user, now)
            await uow.devices.end_trust(user)
            await uow.sessions.end_all(user)
            await uow.record(email_changed(user, holder, actor))
            await uow.commit()
        return replace(held.user, email=email)

    async def delete(self, holder: KeyHolder, user: UserId, actor: Actor) -> None:
        """All that the service has of them, and the account itself when it is this service's alone. Raises `NotFound`, and `Forbidden` for
        an owner of an organization or of the platform.
        """
        async with self._unit_of_work() as uow:
            held = _found(await uow.service_users.hold(holder.service, user))
            fate = held.fate()
            if fate is Fate.DELETED:
                await uow.service_users.delete_account(user)
            else:
                await uow.service_users.leave(holder.service, holder.organization, user)
            await uow.record(user_deleted(user, fate, holder, actor))
            await uow.commit()


_UNKNOWN: Final = "The service has no such user"
_SOON: Final = 1.0


def _found(held: HeldServiceUser | None) -> HeldServiceUser:
    if held is None:
        raise NotFound(_UNKNOWN)
    return held
