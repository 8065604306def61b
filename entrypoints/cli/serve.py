"""`postern serve`: this process alone, the parent of several, or one of those several."""

import argparse
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
import trio

from adapters.crypto.passwords import usable_cores
from entrypoints import daemon, first_start, processes
from entrypoints.bootstrap import open_services
from entrypoints.failures import OK
from entrypoints.first_start import FirstOwner
from entrypoints.installation import bring_up_to_date, running_database
from entrypoints.listening import listen, release, with_real_port
from entrypoints.service_manager import ServiceManager
from entrypoints.settings import Settings
from entrypoints.signals import Stopping, stopping_on_signals

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
    sockets = listen(settings.bind, arguments.processes)
    settings = with_real_port(settings, sockets)
    try:
        trio.run(_alone if arguments.processes == 1 else _parent, settings, sockets)
    finally:
        release(settings.bind, sockets)
    return OK


async def _alone(settings: Settings, sockets: Sequence[socket.socket]) -> None:
    async with _attended() as (stopping, manager), running_database(settings):
        await bring_up_to_date(settings)
        async with open_services(settings) as services:
            owner = await first_start.complete(services, settings)
            await daemon.run(services, settings, sockets, stopping, partial(_ready, settings, owner, stopping, manager))


async def _parent(settings: Settings, sockets: Sequence[socket.socket]) -> None:
    async with _attended() as (stopping, manager), running_database(settings, processes=len(sockets)):
        await bring_up_to_date(settings)
        async with open_services(settings) as services:
            owner = await first_start.complete(services, settings)
        on_ready = partial(_ready, settings, owner, stopping, manager)
        await processes.Processes(settings, sockets, stopping).run(on_ready)


async def _child(settings: Settings, listening: int, channel: int, number: int, count: int) -> None:
    structlog.contextvars.bind_contextvars(process=number)
    sockets = [socket.socket(fileno=listening)]
    to_parent = socket.socket(fileno=channel)
    settings = with_real_port(settings, sockets)
    if settings.argon2_workers is None:
        # The processors are shared with the other children.
        settings = replace(settings, argon2_workers=max(1, usable_cores() // count))

    def on_ready() -> None:
        stopping.start_is_over()
        to_parent.send(processes.READY)

    async with stopping_on_signals() as stopping, trio.open_nursery() as nursery:
        nursery.start_soon(processes.report_to_parent, to_parent, stopping, name="parent")
        with stopping.start():
            async with open_services(settings) as services:
                await daemon.run(services, settings, sockets, stopping, on_ready)
        nursery.cancel_scope.cancel()


def _ready(settings: Settings, owner: FirstOwner | None, stopping: Stopping, manager: ServiceManager) -> None:
    stopping.start_is_over()
    manager.ready(f"Serving {settings.public_url}")
    log.info("ready", url=settings.public_url)
    first_start.announce(settings, owner)


@asynccontextmanager
async def _attended() -> AsyncIterator[tuple[Stopping, ServiceManager]]:
    """The block listens to signals, is cancelled by them until its start is over, and keeps the service manager informed."""
    manager = ServiceManager.of_environment()
    async with stopping_on_signals() as stopping, trio.open_nursery() as nursery:
        nursery.start_soon(manager.keep_watchdog, name="watchdog")
        nursery.start_soon(_say_starting, manager, stopping, name="start")
        nursery.start_soon(_say_stopping, manager, stopping, name="stop")
        with stopping.start():
            yield stopping, manager
        nursery.cancel_scope.cancel()


async def _say_starting(manager: ServiceManager, stopping: Stopping) -> None:
    """A migration, a recovery or a database that is late may take longer than the service manager would wait."""
    while stopping.is_starting:
        manager.extend_start(_START_EXTENDED_BY)
        await trio.sleep(_START_EXTENDED_BY / 3)


async def _say_stopping(manager: ServiceManager, stopping: Stopping) -> None:
    await stopping.requested.wait()
    manager.stopping()
