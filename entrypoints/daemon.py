"""One serving process, from its start to its orderly end: the actors, and the HTTP server on the sockets that the caller has bound."""

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final, cast

import structlog
import trio

from actors.supervisor import ActorsFailed, Supervisor
from core.domain.errors import Refusal
from core.frozen import replace
from entrypoints import listening
from entrypoints.bootstrap import Postern
from entrypoints.failures import StartFailed
from entrypoints.http.application import HttpSettings, MetricsApplication, PosternApplication, build_application
from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.pages.development import mail_pages_directory
from entrypoints.http.routes import health
from entrypoints.http.server.protocol import Application
from entrypoints.http.server.serving import ServerSettings, serve
from entrypoints.settings import Settings
from entrypoints.signals import Stopping
from ports.metrics import Metrics

log = structlog.get_logger()

# Requests get this many seconds before the actors are asked to stop. Longer requests finish beside the actors: no answer depends on an
# actor.
_ACTORS_WAIT: Final = 1.0
_MOST_SCRAPERS: Final = 100


def tell_certificate(settings: Settings, metrics: Metrics) -> None:
    """The file may change later, but a process serves what it has read at its start."""
    if settings.tls_certificate is not None:
        metrics.tls_certificate_ends(listening.valid_between(settings.tls_certificate)[1])


def prepare(settings: Settings) -> None:
    """Makes the routes of the application, a good part of a start, before there is a database. `run` finds them made."""
    PosternApplication(None, http_settings(settings, version("postern")))


async def run(
    postern: Postern,
    settings: Settings,
    sockets: Sequence[socket.socket],
    stopping: Stopping,
    on_ready: Callable[[], None],
    *,
    metrics_sockets: Sequence[socket.socket] = (),
) -> None:
    """Serve until asked to stop, then finish the requests in flight. Raises `StartFailed` when an actor keeps failing.

    `metrics_sockets` serve the metrics and nothing else.
    """
    application = build_application(postern, http_settings(settings, postern.foundation.version))
    tell_certificate(settings, postern.foundation.metrics)
    async with alive(postern, settings, stopping), trio.open_nursery() as nursery:
        closed = postern.foundation.metrics.connection_closed
        await nursery.start(_serve, application, sockets, server_settings(settings), stopping, closed)
        if metrics_sockets:
            addresses = await nursery.start(
                _serve, MetricsApplication(postern), metrics_sockets, metrics_server_settings(settings), stopping, closed
            )
            log.info("metrics_served", addresses=addresses)
        on_ready()


@asynccontextmanager
async def alive(postern: Postern, settings: Settings, stopping: Stopping) -> AsyncIterator[None]:
    """Runs everything except the HTTP server while the block runs. Raises `StartFailed` when an actor keeps failing."""
    if not settings.rate_limits:
        log.warning("rate_limits_off", why="POSTERN_RATE_LIMITS=off", risk="passwords and codes can be guessed at any speed")
    await _know_keys(postern)
    async with _doorbell(postern), _actors(postern, stopping):
        yield


async def _know_keys(postern: Postern) -> None:
    """Loads the signing keys, so that tokens can be verified even if the database goes down before the first token arrives."""
    try:
        await postern.foundation.signing_keys.published()
    except Refusal as error:
        log.warning("signing_keys_unknown", error=error.message)


async def _serve(
    application: PosternApplication | MetricsApplication,
    sockets: Sequence[socket.socket],
    settings: ServerSettings,
    stopping: Stopping,
    closed: Callable[[str], None],
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    # The application gives each ASGI message its own type; the server takes them as mappings.
    await serve(cast("Application", application), sockets, settings, shutdown=stopping.requested, closed=closed, task_status=task_status)
    log.info("requests_finished")


@asynccontextmanager
async def _doorbell(postern: Postern) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        # Started without waiting: while the database is down, the doorbell tries again to connect, and each actor looks by itself.
        nursery.start_soon(postern.foundation.doorbell.run, name="doorbell")
        try:
            yield
        finally:
            # The actors have ended by now.
            postern.foundation.doorbell.ring_in_others()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _actors(postern: Postern, stopping: Stopping) -> AsyncIterator[None]:
    """Runs the actors while the block runs. When an actor keeps failing, the process finishes its requests and then fails."""
    supervisor = Supervisor(postern.actors, postern.foundation.metrics, spread=postern.foundation.secrets.spread)
    failure: ActorsFailed | None = None

    async def supervise() -> None:
        nonlocal failure
        try:
            await supervisor.run()
        except ActorsFailed as error:
            failure = error
            stopping.request()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervise, name="supervisor")
        async with trio.open_nursery() as overlap:
            overlap.start_soon(_stop_before_long, supervisor, stopping, name="end of the actors")
            yield
            overlap.cancel_scope.cancel()
        supervisor.stop()
    if failure is not None:
        raise StartFailed(str(failure)) from failure


async def _stop_before_long(supervisor: Supervisor, stopping: Stopping) -> None:
    await stopping.requested.wait()
    await trio.sleep(_ACTORS_WAIT)
    supervisor.stop()


def http_settings(settings: Settings, version: str) -> HttpSettings:
    return HttpSettings(
        base_url=settings.public_url,
        frontend_url=settings.public_frontend_url,
        version=version,
        trusted_proxies=settings.trusted_proxies,
        cors_origins=settings.cors_origins,
        rate_limits=settings.rate_limits,
        body_limit=settings.body_limit,
        request_deadline=settings.request_timeout.total_seconds(),
        most_requests=settings.most_requests,
        metrics_elsewhere=settings.metrics_bind is not None,
        mail_directory=mail_pages_directory(settings),
    )


def server_settings(settings: Settings) -> ServerSettings:
    return ServerSettings(
        keep_alive=settings.keep_alive.total_seconds(),
        head_patience=settings.header_timeout.total_seconds(),
        transfer_patience=settings.body_timeout.total_seconds(),
        handshake=settings.header_timeout.total_seconds(),
        trusted_proxies=settings.trusted_proxies,
        most_connections=settings.most_connections,
        most_connections_per_address=settings.connections_per_address,
        # The application itself refuses requests above its own bound. The server's bound is higher, for a load beyond that.
        most_requests=settings.most_requests * 2,
        probes=frozenset(one.path.encode() for one in Endpoints.of(health)),
        most_waiting=settings.most_requests * 2,
        most_waiting_per_address=max(1, settings.most_requests // 4),
        drain=settings.shutdown_timeout.total_seconds(),
        certificate=settings.tls_certificate,
        certificate_key=settings.tls_key,
    )


def metrics_server_settings(settings: Settings) -> ServerSettings:
    """The settings of a listener on an internal network, which serves a handful of scrapers."""
    return replace(server_settings(settings), most_connections=_MOST_SCRAPERS, certificate=None, certificate_key=None)
