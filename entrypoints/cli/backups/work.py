"""`postern jobs list`, `hold` and `release`: work that goes out of the house, and is held after a restore."""

import argparse
from functools import partial

import trio

from adapters.postgres.backups.restored import OutgoingWork, hold, outgoing, release
from adapters.postgres.backups.snapshots import is_served
from core.domain.record.events import SYSTEM, Event, Target
from entrypoints.cli.backups.restore import NAMES
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json, tell
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import conninfo
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    if arguments.action == "list":
        trio.run(partial(_list, settings, as_json=arguments.json))
    else:
        kinds = [OutgoingWork(kind) for kind in arguments.kind] or list(OutgoingWork)
        trio.run(partial(_hold if arguments.action == "hold" else _release, settings, kinds, as_json=arguments.json))
    return OK


async def _list(settings: Settings, *, as_json: bool) -> None:
    async with opened_postern(settings):
        counts = await outgoing(conninfo(settings))
        if as_json:
            print_json([{"kind": kind, "waiting": count.waiting, "held": count.held} for kind, count in counts.items()])
            return
        for kind, count in counts.items():
            print(f"{kind:<10}  {count.waiting:>8} waiting, {count.held} held  ({NAMES[kind]})")


async def _hold(settings: Settings, kinds: list[OutgoingWork], *, as_json: bool) -> None:
    async with opened_postern(settings):
        if await is_served(conninfo(settings)):
            raise StartFailed("A running Postern uses this database and processes its queue: stop it first")
        await hold(conninfo(settings), kinds)
        counts = await outgoing(conninfo(settings))
        lines = [f"{kind:<10}  {counts[kind].held} {NAMES[kind]} are held." for kind in kinds]
        tell([{"kind": kind, "held": counts[kind].held} for kind in kinds], *lines, as_json=as_json)


async def _release(settings: Settings, kinds: list[OutgoingWork], *, as_json: bool) -> None:
    async with opened_postern(settings) as postern:
        released = await release(conninfo(settings), kinds)
        lines = [f"{kind:<10}  {count} {NAMES[kind]} are released." for kind, count in released.items()]
        tell([{"kind": kind, "released": count} for kind, count in released.items()], *lines, as_json=as_json)
        async with postern.foundation.unit_of_work() as uow:
            details = {kind.value: count for kind, count in released.items()}
            await uow.record(Event("platform.work.released", SYSTEM, Target("backup", ",".join(released)), details=details))
            await uow.commit()
