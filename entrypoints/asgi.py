"""Runs Postern on another ASGI server that supports Trio: `hypercorn --worker-class trio 'entrypoints.asgi:application()'`."""

import os
from importlib.metadata import version

import trio

from entrypoints import daemon, first_start, logs
from entrypoints.bootstrap import open_postern
from entrypoints.failures import sole
from entrypoints.http.application import PosternApplication
from entrypoints.http.pages.development import mail_pages_directory
from entrypoints.installation import bring_up_to_date, running_database
from entrypoints.listening import raise_descriptor_limit
from entrypoints.settings import Settings, read
from entrypoints.signals import Stopping


def application() -> PosternApplication:
    """Prefer `postern serve`: only Postern's own server bounds how slow and how many clients may be (decisions 0002 and 0074). Here, the
    other server binds the address. So `POSTERN_BASE_URL` must name the address, and the settings of our listener have no effect.

    Reads the settings now. Everything else is opened when the server starts, and closed when the server stops.
    """
    settings = read(os.environ)
    logs.configure(settings.log_level, settings.log_format)
    raise_descriptor_limit()
    made = PosternApplication(None, daemon.http_settings(settings, version("postern")))
    # At its end, Quart cancels background tasks that still run after this many seconds.
    made.config["BACKGROUND_TASK_SHUTDOWN_TIMEOUT"] = settings.shutdown_timeout.total_seconds()
    stopping, ended = Stopping(), trio.Event()

    # `live` is a task of its own because it holds nurseries. A generator of `while_serving` cannot hold nurseries, because the generator
    # yields to Quart's task.
    async def live(*, task_status: trio.TaskStatus[None]) -> None:
        try:
            await _live(made, settings, stopping, task_status)
        finally:
            ended.set()

    @made.before_serving
    async def begin() -> None:
        try:
            await made.nursery.start(live)
        except ExceptionGroup as group:
            # The server prints the message of the exception, and the message of a group does not tell why the start failed.
            raise sole(group) from None

    @made.after_serving
    async def end() -> None:
        stopping.request()
        await ended.wait()

    return made


async def _live(made: PosternApplication, settings: Settings, stopping: Stopping, task_status: trio.TaskStatus[None]) -> None:
    async with running_database(settings):
        await bring_up_to_date(settings)
        async with open_postern(settings) as postern:
            owner = await first_start.complete(postern, settings)
            made.serve(postern)
            async with daemon.alive(postern, settings, stopping):
                first_start.announce(settings, owner, shows_mail=mail_pages_directory(settings) is not None)
                task_status.started()
                await stopping.requested.wait()
