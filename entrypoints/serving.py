"""What `postern serve` does once its database runs. The command loads this module while the database starts, because it takes most of the
time that Python needs.
"""

import socket
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import structlog
import trio

from adapters.crypto.key_pairs import PairsAhead
from adapters.crypto.passwords import usable_cores
from core.frozen import Frozen
from entrypoints import daemon, first_start, processes
from entrypoints.bootstrap import open_postern
from entrypoints.first_start import FirstOwner
from entrypoints.http.pages.development import mail_pages_directory
from entrypoints.installation import bring_up_to_date, require_schema_where_it_answers
from entrypoints.listening import with_real_port
from entrypoints.settings import Settings
from entrypoints.signals import ServiceManager, Stopping, stopping_on_signals

log = structlog.get_logger()

prepare = daemon.prepare
tell_hashing_speed = first_start.tell_hashing_speed


class ReadyReport(Frozen):
    """Tells everybody that the start is over."""

    stopping: Stopping
    manager: ServiceManager
    began: float

    def tell(self, settings: Settings, owner: FirstOwner | None, *, count: int = 1) -> None:
        self.stopping.start_is_over()
        self.manager.ready(f"Serving {settings.public_url}")
        log.info(
            "ready",
            url=settings.public_url,
            listens=str(settings.bind),
            metrics=None if settings.metrics_bind is None else str(settings.metrics_bind),
            processes=count,
            version=version("postern"),
            milliseconds=round((trio.current_time() - self.began) * 1000),
        )
        first_start.announce(settings, owner, shows_mail=mail_pages_directory(settings) is not None)


async def serve_alone(
    settings: Settings,
    sockets: Sequence[socket.socket],
    metrics_sockets: Sequence[socket.socket],
    ahead: PairsAhead,
    ready: ReadyReport,
) -> None:
    await bring_up_to_date(settings)
    async with open_postern(settings, ahead) as postern:
        owner = await first_start.complete(postern, settings)
        on_ready = partial(ready.tell, settings, owner)
        await daemon.run(postern, settings, sockets, ready.stopping, on_ready, metrics_sockets=metrics_sockets)


async def serve_as_parent(
    settings: Settings,
    sockets: Sequence[socket.socket],
    metrics_sockets: Sequence[socket.socket],
    ahead: PairsAhead,
    ready: ReadyReport,
) -> None:
    await bring_up_to_date(settings)
    async with open_postern(settings, ahead) as postern:
        owner = await first_start.complete(postern, settings)
    on_ready = partial(ready.tell, settings, owner, count=len(sockets))
    await processes.Processes(settings, sockets, ready.stopping, metrics_sockets=metrics_sockets).run(on_ready)


async def serve_as_child(settings: Settings, listening: int, channel: int, number: int, count: int, *metrics: int) -> None:
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
