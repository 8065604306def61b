"""Changes profiles and pictures of users, and fills empty profiles from an identity provider."""

from collections.abc import Callable
from uuid import UUID

from core.domain.errors import Conflict, RateLimited, found
from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profiles import (
    NOTHING_STATED,
    USED_USERNAMES,
    USERNAME_CHANGES,
    HeldProfile,
    OwnProfileChange,
    Picture,
    StatedProfile,
    filled,
    picture_of,
    picture_removed,
    picture_set,
    profile_updated,
    username_digest,
)
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from ports.crypto import ServerSecrets
from ports.identity.accounts import PictureStore
from ports.system import Clock, SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class PreparedChange(Frozen):
    """A change that is checked, and counted if it asks for a user name. The digest is that of the user name."""

    change: OwnProfileChange
    digest: bytes | None = None


class Profiles(Frozen):
    unit_of_work: UnitOfWorkFactory
    buckets: SharedBuckets
    server_secrets: ServerSecrets
    clock: Clock
    is_zone: Callable[[str], bool]

    async def change(self, user: UserId, change: OwnProfileChange, actor: Actor, *, username: str | None) -> HeldProfile:
        """Changes the profile. `username` is the person's user name as the request knows it. Raises `BadRequest`, `RateLimited`,
        `Conflict` for a user name that was issued before, and `NotFound` when the account has ended.
        """
        prepared = await self.prepare(user, change, username=username)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            held = await self.apply(uow, user, prepared, actor)
            await uow.commit()
        return held

    async def prepare(self, user: UserId, change: OwnProfileChange, *, username: str | None) -> PreparedChange:
        """The first half of `change`, before the unit of work. Raises `BadRequest` and `RateLimited`."""
        checked = change.checked(self.is_zone)
        if not isinstance(checked.username, str) or checked.username == username:
            return PreparedChange(checked)
        wait = await self.buckets.take(USERNAME_CHANGES, str(user))
        if wait > 0:
            raise RateLimited(retry_after=wait)
        return PreparedChange(checked, username_digest(checked.username, await self.server_secrets.get(USED_USERNAMES)))

    async def apply(self, uow: UnitOfWork, user: UserId, prepared: PreparedChange, actor: Actor) -> HeldProfile:
        """The second half of `change`. The account is held. Raises `Conflict` and `NotFound`."""
        before = found(await uow.profiles.find(user), "There is no such account", words="account_unknown")
        return await self._store(uow, user, before, prepared, actor)

    def named(self, name: str) -> StatedProfile:
        """What somebody says of a new person's name. Raises `WrongField`."""
        if not name.strip():
            return NOTHING_STATED
        checked = OwnProfileChange(name=name).checked(self.is_zone).name
        return StatedProfile(name=checked if isinstance(checked, str) else None)

    async def fill(self, uow: UnitOfWork, user: UserId, told: StatedProfile, actor: Actor, provider: str) -> None:
        """Fills what is empty. The account is held. An account that has ended stays as it is."""
        if told == NOTHING_STATED:
            return
        before = await uow.profiles.find(user)
        if before is not None:
            await self._store(uow, user, before, PreparedChange(filled(before, told, self.is_zone)), actor, provider=provider)

    async def _store(
        self, uow: UnitOfWork, user: UserId, before: HeldProfile, prepared: PreparedChange, actor: Actor, *, provider: str = ""
    ) -> HeldProfile:
        now = self.clock.now()
        after, changed = prepared.change.applied(before, now)
        if not changed:
            return before
        is_named_anew = after.profile.username is not None and after.profile.username != before.profile.username
        # Without a digest, another request has changed the user name since this one came in.
        if is_named_anew and (prepared.digest is None or not await uow.profiles.use_up(prepared.digest)):
            raise Conflict("This user name is or was in use", words="username_taken")
        await uow.profiles.save(user, after, now)
        await uow.record(profile_updated(user, changed, actor, provider=provider))
        return after


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
