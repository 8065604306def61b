"""People's pictures: set, removed, and shown to everybody who has the address."""

from uuid import UUID

from core.domain.errors import found
from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profile.pictures import Picture, picture_of, picture_removed, picture_set
from core.domain.identity.profile.profiles import HeldProfile
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from ports.identity.pictures import PictureStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class Pictures(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: PictureStore
    system: System

    async def get(self, picture: PictureId) -> Picture:
        """Raises `NotFound`."""
        return found(await self.lookup.find(picture), "There is no such picture")

    async def put(self, user: UserId, content: bytes, actor: Actor, *, declared: str = "") -> HeldProfile:
        """Sets the picture, and returns the profile with its new id. Raises `BadRequest`, `PayloadTooLarge`, and `NotFound` when the
        account has ended.
        """
        picture = picture_of(content, declared)
        # The address of a picture opens it, so it must not be guessed, and it must not tell the time either.
        new = PictureId(UUID(bytes=self.system.secrets.key_bytes(16), version=4))
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            held = found(await uow.profiles.find(user), "There is no such account", words="account_unknown")
            now = self.system.clock.now()
            await uow.pictures.replace(user, picture, new, now)
            await uow.profiles.point(user, new, now)
            await uow.record(picture_set(user, actor))
            await uow.commit()
        return replace(held, profile=replace(held.profile, picture=new, updated_at=now))

    async def remove(self, user: UserId, actor: Actor) -> None:
        """Does nothing when there is no picture."""
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            if await uow.pictures.remove(user):
                await uow.profiles.point(user, None, self.system.clock.now())
                await uow.record(picture_removed(user, actor))
            await uow.commit()
