"""`postern serve`: runs as a single process, as the parent of several, or as one of those children."""

import argparse
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Final

import structlog
import trio

from adapters.crypto.passwords import usable_cores
from entrypoints import daemon, first_start, processes
from entrypoints.assembly.configured import require_usable
from entrypoints.bootstrap import open_postern
from entrypoints.failures import OK
from entrypoints.first_start import FirstOwner, tell_hashing_speed
from entrypoints.http.pages.development import mail_pages_directory
from entrypoints.installation import bring_up_to_date, require_schema_where_it_answers, running_database
from entrypoints.listening import listen, release, with_real_port
from entrypoints.settings import Settings
from entrypoints.signals import ServiceManager, Stopping, stopping_on_signals

log = structlog.get_logger()

_START_EXTENDED_BY: Final = 15.0


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    daemon.raise_descriptor_limit()
    if arguments.as_child is not None:
        parent = os.getppid()
        try:
            trio.run(_child, settings, *arguments.as_child)
        finally:
            processes.clear_up_after(parent)
        return OK
    daemon.require_certificate(settings)
    require_usable(settings)
    with ExitStack() as bound:
        sockets = listen(settings.bind, arguments.processes)
        bound.callback(release, settings.bind, sockets)
        metrics_sockets: Sequence[socket.socket] = ()
        if settings.metrics_bind is not None:
            metrics_sockets = listen(settings.metrics_bind, setting="POSTERN_METRICS_BIND")
            bound.callback(release, settings.metrics_bind, metrics_sockets)
        settings = with_real_port(settings, sockets)
        trio.run(_alone if arguments.processes == 1 else _parent, settings, sockets, metrics_sockets)
    return OK


async def _alone(settings: Settings, sockets: Sequence[socket.socket], metrics_sockets: Sequence[socket.socket]) -> None:
    began = trio.current_time()
    async with _attended(settings) as (stopping, manager), running_database(settings):
        await bring_up_to_date(settings)
        async with open_postern(settings) as postern:
            owner = await first_start.complete(postern, settings)
            on_ready = partial(_ready, settings, owner, stopping, manager, began=began)
            await daemon.run(postern, settings, sockets, stopping, on_ready, metrics_sockets=metrics_sockets)


async def _parent(settings: Settings, sockets: Sequence[socket.socket], metrics_sockets: Sequence[socket.socket]) -> None:
    began = trio.current_time()
    async with _attended(settings) as (stopping, manager), running_database(settings, processes=len(sockets)):
        await bring_up_to_date(settings)
        async with open_postern(settings) as postern:
            owner = await first_start.complete(postern, settings)
        on_ready = partial(_ready, settings, owner, stopping, manager, began=began, count=len(sockets))
        await processes.Processes(settings, sockets, stopping, metrics_sockets=metrics_sockets).run(on_ready)


async def _child(settings: Settings, listening: int, channel: int, number: int, count: int, *metrics: int) -> None:
    structlog.contextvars.bind_contextvars(process=number)
    sockets = [socket.socket(fileno=listening)]
    metrics_sockets = [socket.socket(fileno=one) for one in metrics]
    to_parent = socket.socket(fileno=channel)
    settings = with_real_port(settings, sockets)
    if settings.argon2_workers is None:
        # The other children share the processors.
        settings = replace(settings, argon2_workers=max(1, usable_cores() // count))

    def on_ready() -> None:
        stopping.start_is_over()
        to_parent.send(processes.READY)

    async with stopping_on_signals() as stopping, trio.open_nursery() as nursery:
        nursery.start_soon(processes.report_to_parent, to_parent, stopping, name="parent")
        with stopping.start():
            await require_schema_where_it_answers(settings)
            async with open_postern(settings) as postern:
                await daemon.run(postern, settings, sockets, stopping, on_ready, metrics_sockets=metrics_sockets)
        nursery.cancel_scope.cancel()


def _ready(
    settings: Settings, owner: FirstOwner | None, stopping: Stopping, manager: ServiceManager, *, began: float, count: int = 1
) -> None:
    stopping.start_is_over()
    manager.ready(f"Serving {settings.public_url}")
    log.info(
        "ready",
        url=settings.public_url,
        listens=str(settings.bind),
        metrics=None if settings.metrics_bind is None else str(settings.metrics_bind),
        processes=count,
        version=version("postern"),
        milliseconds=round((trio.current_time() - began) * 1000),
    )
    first_start.announce(settings, owner, shows_mail=mail_pages_directory(settings) is not None)


@asynccontextmanager
async def _attended(settings: Settings) -> AsyncIterator[tuple[Stopping, ServiceManager]]:
    """Listens to signals and informs the service manager while the block runs. A signal to stop cancels the block during the start."""
    manager = ServiceManager.of_environment()
    async with stopping_on_signals() as stopping, trio.open_nursery() as nursery:
        nursery.start_soon(manager.keep_watchdog, name="watchdog")
        nursery.start_soon(_say_starting, manager, stopping, name="start")
        nursery.start_soon(tell_hashing_speed, settings, name="hashing speed")
        nursery.start_soon(_say_stopping, manager, stopping, name="stop")
        with stopping.start():
            yield stopping, manager
        nursery.cancel_scope.cancel()


async def _say_starting(manager: ServiceManager, stopping: Stopping) -> None:
    """Extends the start timeout, because a migration, a recovery or a late database may take longer than the service manager would wait."""
    while stopping.is_starting:
        manager.extend_start(_START_EXTENDED_BY)
        await trio.sleep(_START_EXTENDED_BY / 3)


async def _say_stopping(manager: ServiceManager, stopping: Stopping) -> None:
    await stopping.requested.wait()
    manager.stopping()
