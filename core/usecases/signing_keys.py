"""Signing keys: made at the first start, published, and rotated without any token failing."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from core.domain.errors import Conflict
from core.domain.json import Json
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.signing_keys import OVERLAP, KeyPurpose, KeyState, Rotation, SigningKey, in_state, key_set, missing
from core.frozen import Frozen, replace
from ports.clock import Clock
from ports.signing_keys import KeyMaker, KnownSigningKeys
from ports.unit_of_work import UnitOfWorkFactory


class SigningKeys(Frozen):
    unit_of_work: UnitOfWorkFactory
    key_maker: KeyMaker
    clock: Clock
    known: KnownSigningKeys

    async def ensure(self) -> None:
        """Makes a current and a next key for each purpose, if they are missing. May be repeated; of several first starts at once, one makes
        the keys.
        """
        needed = missing(await self.list())
        if not needed:
            return
        now = self.clock.now()
        # The keys are made before the transaction, so that nobody waits behind a lock for an RSA key. Another process may have stored its
        # keys first.
        made = {place: await self.key_maker.make(place[0], now) for place in needed}
        async with self.unit_of_work() as uow:
            await uow.signing_keys.hold()
            for purpose, state in missing(await uow.signing_keys.all()):
                # Between the two looks, a missing key can only have been added: rotation, which alone removes keys from `next` and
                # `current`, replaces them at once.
                key = made[purpose, state]
                await uow.signing_keys.add(replace(key, state=KeyState.CURRENT, activated_at=now) if state is KeyState.CURRENT else key)
            await uow.commit()
        self.known.expire()

    async def rotate(self, actor: Actor = SYSTEM) -> Sequence[Rotation]:
        """Rotates the keys of all purposes at once. The next keys sign from now on, the current keys verify for `OVERLAP` longer, and new
        next keys are published.
        """
        now = self.clock.now()
        made = [await self.key_maker.make(purpose, now) for purpose in KeyPurpose]
        rotations = []
        async with self.unit_of_work() as uow:
            await uow.signing_keys.hold()
            keys = await uow.signing_keys.all()
            for added in made:
                current = in_state(keys, added.purpose, KeyState.CURRENT)
                following = in_state(keys, added.purpose, KeyState.NEXT)
                if current is None or following is None:
                    raise Conflict("There are no signing keys to rotate yet: they are made at the first start")
                # The three statements have this order, because the database allows one current and one next key per purpose at any moment.
                await uow.signing_keys.retire(current.id, now + OVERLAP)
                await uow.signing_keys.activate(following.id, now)
                await uow.signing_keys.add(added)
                rotations.append(
                    Rotation(added.purpose, outgoing=current.id, activated=following.id, added=added.id, published_for=following.age(now))
                )
            await uow.signing_keys.delete_retired(now)
            for rotation in rotations:
                await uow.record(_rotated(rotation, actor))
            await uow.commit()
        self.known.expire()
        return rotations

    async def published(self) -> Mapping[str, Json]:
        """The JSON Web Key Set. The process answers from its own copy, so that many relying parties cost the database nothing."""
        return key_set(await self.known.all(), self.clock.now())

    async def list(self) -> Sequence[SigningKey]:
        """Reads the stored keys, for the command line."""
        return await stored(self.unit_of_work)()


def stored(unit_of_work: UnitOfWorkFactory) -> Callable[[], Awaitable[Sequence[SigningKey]]]:
    """Reads the stored keys, from which the process's own copy is filled."""

    async def load() -> Sequence[SigningKey]:
        async with unit_of_work() as uow:
            return await uow.signing_keys.all()

    return load


def _rotated(rotation: Rotation, actor: Actor) -> Event:
    return Event(
        "platform.signing_keys.rotated",
        actor,
        Target("signing_key", rotation.activated),
        details={"purpose": rotation.purpose.value, "outgoing": rotation.outgoing, "next": rotation.added},
    )
