"""`postern serve`: runs as a single process, as the parent of several, or as one of those children.

What this module imports is needed before the database can start. The rest is loaded while it starts (`serving.py`).
"""

import argparse
import gc
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Final

import trio

from adapters.crypto.key_pairs import PairsAhead
from entrypoints import processes
from entrypoints.assembly.configured import require_usable
from entrypoints.failures import OK
from entrypoints.installation import running_database
from entrypoints.listening import listen, raise_descriptor_limit, release, require_certificate, with_real_port
from entrypoints.settings import Settings
from entrypoints.signals import ServiceManager, Stopping, stopping_on_signals

_START_EXTENDED_BY: Final = 15.0


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    raise_descriptor_limit()
    if arguments.as_child is not None:
        parent = os.getppid()
        try:
            with _loading():
                from entrypoints.serving import serve_as_child  # noqa: PLC0415 - a child has no database to wait for
            trio.run(serve_as_child, settings, *arguments.as_child)
        finally:
            processes.clear_up_after(parent)
        return OK
    require_certificate(settings)
    require_usable(settings)
    with ExitStack() as bound:
        sockets = listen(settings.bind, arguments.processes)
        bound.callback(release, settings.bind, sockets)
        metrics_sockets: Sequence[socket.socket] = ()
        if settings.metrics_bind is not None:
            metrics_sockets = listen(settings.metrics_bind, setting="POSTERN_METRICS_BIND")
            bound.callback(release, settings.metrics_bind, metrics_sockets)
        settings = with_real_port(settings, sockets)
        trio.run(_serve, settings, sockets, metrics_sockets)
    return OK


async def _serve(settings: Settings, sockets: Sequence[socket.socket], metrics_sockets: Sequence[socket.socket]) -> None:
    began, ahead = trio.current_time(), PairsAhead()
    database = running_database(settings, processes=len(sockets), meanwhile=partial(_load, settings, sockets), of_new=ahead.make)
    async with _attended() as (stopping, manager, nursery), database:
        from entrypoints import serving  # noqa: PLC0415 - loaded by now

        nursery.start_soon(serving.tell_hashing_speed, settings, name="hashing speed")
        serve = serving.serve_alone if len(sockets) == 1 else serving.serve_as_parent
        await serve(settings, sockets, metrics_sockets, ahead, serving.ReadyReport(stopping, manager, began))


def _load(settings: Settings, sockets: Sequence[socket.socket]) -> None:
    """Loads the rest while the database starts."""
    with _loading():
        from entrypoints import serving  # noqa: PLC0415 - as above

        if len(sockets) == 1:
            serving.prepare(settings)


@contextmanager
def _loading() -> Iterator[None]:
    """What is loaded here stays, so the garbage collector need not look through it, neither meanwhile nor later."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@asynccontextmanager
async def _attended() -> AsyncIterator[tuple[Stopping, ServiceManager, trio.Nursery]]:
    """Listens to signals and informs the service manager while the block runs. A signal to stop cancels the block during the start."""
    manager = ServiceManager.of_environment()
    async with stopping_on_signals() as stopping, trio.open_nursery() as nursery:
        nursery.start_soon(manager.keep_watchdog, name="watchdog")
        nursery.start_soon(_say_starting, manager, stopping, name="start")
        nursery.start_soon(_say_stopping, manager, stopping, name="stop")
        with stopping.start():
            yield stopping, manager, nursery
        nursery.cancel_scope.cancel()


async def _say_starting(manager: ServiceManager, stopping: Stopping) -> None:
    """Extends the start timeout, because a migration, a recovery or a late database may take longer than the service manager would wait."""
    while stopping.is_starting:
        manager.extend_start(_START_EXTENDED_BY)
        await trio.sleep(_START_EXTENDED_BY / 3)


async def _say_stopping(manager: ServiceManager, stopping: Stopping) -> None:
    await stopping.requested.wait()
    manager.stopping()
