"""Rotates and watches over the keys of the installation: the key ring that encrypts, and the keys that sign tokens."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.errors import Conflict
from core.domain.formats import Json
from core.domain.identifiers import KeyId
from core.domain.jobs import NewJob
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.tokens import (
    KEY_OVERLAP,
    KeyPurpose,
    KeyState,
    Rotation,
    SigningKey,
    day_of_ring_key,
    in_state,
    key_set,
    missing,
    signing_key_context,
)
from core.frozen import Frozen, replace
from ports.crypto import CannotOpen, KeyMaker, KeyRing, KnownSigningKeys, SealedColumns, SealedValue
from ports.jobs import Advance, ProgressDisplay, unseen
from ports.system import Clock
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

REENCRYPTION_JOB: Final = "encryption.reencrypt"
# A few milliseconds of work, so that other tasks get their turn between batches.
REENCRYPTION_BATCH: Final = 200


class RingIsBehind(Exception):
    """The first key of this process's ring is not the wanted one. Trying again helps, once the process has read its keys again, or in
    another process.
    """


class Reencrypted(Frozen):
    """The result for one column. `unreadable` values stay as they are, because no key of the ring opens them."""

    column: str
    replaced: int
    unreadable: int


class OpenedColumn(Frozen):
    """The result of opening every value of a column. `first_row` and `reason` are about the first unreadable value."""

    column: str
    values: int
    unreadable: int
    first_row: str = ""
    reason: str = ""


def reencryption_job(keyring: KeyRing) -> NewJob:
    """Makes the job that is queued after a rotation of the ring."""
    return NewJob(REENCRYPTION_JOB, {"key": keyring.current_key_id()})


async def queue_reencryption(unit_of_work: UnitOfWorkFactory, key: str, actor: Actor) -> None:
    """Queues the job for this new first key, after the key ring has it."""
    async with unit_of_work() as uow:
        # A waiting job names a key that is no longer the first. Such a job would be retried in vain for a week, and then be dead.
        await uow.jobs.withdraw(REENCRYPTION_JOB)
        await uow.jobs.add(NewJob(REENCRYPTION_JOB, {"key": key}))
        await uow.record(Event("platform.encryption_keys.rotated", actor, Target("encryption_key", key), details={"key": key}))
        await uow.commit()


class Reencryption(Frozen):
    """Reencrypts every value that is sealed under an older key after a rotation of the key ring, so that the operator can remove the older
    key.
    """

    keyring: KeyRing
    sealed_columns: SealedColumns

    async def run(self, key: str, progress: ProgressDisplay = unseen) -> Sequence[Reencrypted]:
        """Seals everything under `key`, the ring's first key. May be repeated, and several processes may run it at once: a value that
        changes meanwhile is left alone. Raises `RingIsBehind` when the ring of this process has another first key.
        """
        if self.keyring.current_key_id() != key:
            raise RingIsBehind(f"the first key of this process's ring is {self.keyring.current_key_id()!r}, not {key!r}")
        return [await self._column(column, progress) for column in self.sealed_columns.columns]

    async def is_finished(self) -> bool:
        """Returns whether nothing is sealed under an older key any more, so that older keys can leave the ring."""
        for column in self.sealed_columns.columns:
            if await self.sealed_columns.outdated(column, 1):
                return False
        return True

    async def open_all(self) -> AsyncIterator[OpenedColumn]:
        """Opens every sealed value and keeps none: it finds values that were altered, or whose key is lost."""
        for column in self.sealed_columns.columns:
            yield await self._opened(column)

    async def _opened(self, column: str) -> OpenedColumn:
        values = unreadable = 0
        first_row = reason = ""
        after: str | None = None
        while batch := await self.sealed_columns.all(column, after, REENCRYPTION_BATCH):
            after = batch[-1].row
            values += len(batch)
            for value in batch:
                try:
                    self.keyring.open(value.sealed, value.context)
                except CannotOpen as error:
                    unreadable += 1
                    if unreadable == 1:
                        first_row, reason = value.row, str(error)
        return OpenedColumn(column, values, unreadable, first_row, reason)

    async def _column(self, column: str, progress: ProgressDisplay) -> Reencrypted:
        with progress(f"Sealing {column}", await self.sealed_columns.count_outdated(column), "values") as advance:
            return await self._seal_again(column, advance)

    async def _seal_again(self, column: str, advance: Advance) -> Reencrypted:
        replaced = 0
        unreadable: list[str] = []
        # Values that could not be replaced come back with every batch. Each query asks for that many more values, or the loop would make no
        # progress.
        left: set[SealedValue] = set()
        while batch := [value for value in await self.sealed_columns.outdated(column, REENCRYPTION_BATCH + len(left)) if value not in left]:
            for value in batch:
                try:
                    plaintext = self.keyring.open(value.sealed, value.context)
                except CannotOpen:
                    left.add(value)
                    unreadable.append(value.row)
                    continue
                sealed = self.keyring.seal(plaintext, value.context)
                if await self.sealed_columns.replace(column, value.row, value.sealed, sealed):
                    replaced += 1
                else:
                    left.add(value)
            advance(len(batch))
        if unreadable:
            log.error("sealed_values_unreadable", column=column, values=len(unreadable), first_row=unreadable[0])
        log.info("column_reencrypted", column=column, replaced=replaced)
        return Reencrypted(column, replaced, len(unreadable))


class SigningKeys(Frozen):
    """Creates the signing keys at the first start, publishes them as a JSON Web Key Set, and rotates them without rejecting any valid
    token.
    """

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
                    raise Conflict("There are no signing keys to rotate yet: they are created at the first start")
                # The three statements have this order, because the database allows one current and one next key per purpose at any moment.
                await uow.signing_keys.retire(current.id, now + KEY_OVERLAP)
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


class KeyCare(Frozen):
    """Reports the age of the signing keys in use, and the keys that the key ring cannot decrypt."""

    signing_keys: SigningKeys
    keyring: KeyRing
    clock: Clock

    async def ages(self) -> Mapping[str, timedelta]:
        """Returns for each purpose how long the key has been in force. If Postern named an encryption key, the key's day is in its id."""
        keys = await self.signing_keys.list()
        found = {purpose.value: in_state(keys, purpose, KeyState.CURRENT) for purpose in KeyPurpose}
        return self.ages_of({purpose: key.in_force_since for purpose, key in found.items() if key is not None})

    def ages_of(self, in_force_since: Mapping[str, datetime]) -> Mapping[str, timedelta]:
        """Returns the same as `ages`, for current signing keys whose beginnings the caller has read."""
        now = self.clock.now()
        ages: dict[str, timedelta] = {purpose: now - since for purpose, since in in_force_since.items()}
        since = day_of_ring_key(self.keyring.current_key_id())
        if since is not None:
            ages["encryption"] = max(now - since, timedelta(0))
        return ages

    async def unreadable(self) -> Sequence[KeyId]:
        """Returns the current and next signing keys that no encryption key of the ring opens. Outgoing signing keys need only their public
        half.
        """
        keys = await self.signing_keys.list()
        return [key.id for key in keys if key.state is not KeyState.OUTGOING and not self._opens(key)]

    def _opens(self, key: SigningKey) -> bool:
        try:
            self.keyring.open(key.sealed_private_key, signing_key_context(key.id))
        except CannotOpen:
            return False
        return True
