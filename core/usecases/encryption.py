"""Encryption: after a rotation of the key ring, everything that was sealed under an older key is sealed again, so that the operator can
remove the older key.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import structlog

from core.domain.jobs import NewJob
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen
from ports.encryption import CannotOpen, KeyRing, SealedColumns, SealedValue
from ports.progress import Advance, ProgressDisplay, unseen
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

REENCRYPTION_JOB: Final = "encryption.reencrypt"
# A few milliseconds of work, so that other tasks get their turn between batches.
BATCH: Final = 200


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
        while batch := await self.sealed_columns.all(column, after, BATCH):
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
        while batch := [value for value in await self.sealed_columns.outdated(column, BATCH + len(left)) if value not in left]:
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
