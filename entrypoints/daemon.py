"""One serving process: services, actors and the HTTP server on sockets that are given to it, from the start to the orderly end."""

import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, cast

import structlog
import trio

from actors.supervisor import ActorsFailed, Supervisor
from core.domain.errors import Refusal
from entrypoints.bootstrap import Services
from entrypoints.failures import StartFailed
from entrypoints.http.application import HttpSettings, PosternApplication, build_application
from entrypoints.http.protocol import Application
from entrypoints.http.server import ServerSettings, serve
from entrypoints.settings import Settings, SettingsError
from entrypoints.signals import Stopping

log = structlog.get_logger()

# Requests are finished before actors are told to stop. When requests take their time, both come to their end side by side: nothing that a
# request answers waits for an actor.
_ACTORS_WAIT: Final = 1.0
# Where the hard limit is "none", some programs that we start would count up to it.
_MOST_DESCRIPTORS: Final = 1 << 20


def raise_descriptor_limit() -> None:
    """Every connection is a descriptor, and the usual soft limit of 1024 is there for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def require_certificate(settings: Settings) -> None:
    """Raises `SettingsError` when the certificate and its key cannot be used."""
    if settings.tls_certificate is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.tls_certificate, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or type(error).__name__
        raise SettingsError(f"POSTERN_TLS_CERTIFICATE or POSTERN_TLS_KEY cannot be used: {reason}") from None


async def run(
    services: Services, settings: Settings, sockets: Sequence[socket.socket], stopping: Stopping, on_ready: Callable[[], None]
) -> None:
    """Serve until asked to stop; what is in flight is finished first. Raises `StartFailed` when an actor kept failing."""
    if not settings.rate_limits:
        log.warning("rate_limits_off", why="POSTERN_RATE_LIMITS=off", risk="passwords and codes can be guessed at any speed")
    application = build_application(services, http_settings(settings, services.version))
    await _know_keys(services)
    async with _doorbell(services), _actors(services, stopping), trio.open_nursery() as nursery:
        await nursery.start(_serve, application, sockets, settings, stopping)
        on_ready()


async def _know_keys(services: Services) -> None:
    """Tokens can be verified from now on, also if the database goes away before the first one comes."""
    try:
        await services.signing_keys.published()
    except Refusal as error:
        log.warning("signing_keys_unknown", error=error.message)


async def _serve(
    application: PosternApplication,
    sockets: Sequence[socket.socket],
    settings: Settings,
    stopping: Stopping,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    # Quart types its ASGI messages one by one, the server takes them as mappings.
    await serve(cast(Application, application), sockets, server_settings(settings), shutdown=stopping.requested, task_status=task_status)
    log.info("requests_finished")


@asynccontextmanager
async def _doorbell(services: Services) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        # Not awaited: while the database is away it tries again, and polling finds the work meanwhile.
        nursery.start_soon(services.doorbell.run, name="doorbell")
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _actors(services: Services, stopping: Stopping) -> AsyncIterator[None]:
    """The actors, at work inside the block. When one keeps failing, the process stops in good order, and then fails."""
    supervisor = Supervisor(services.actors, services.metrics, spread=services.secrets.spread)
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
    )


def server_settings(settings: Settings) -> ServerSettings:
    return ServerSettings(
        keep_alive=settings.keep_alive.total_seconds(),
        head_patience=settings.header_timeout.total_seconds(),
        transfer_patience=settings.body_timeout.total_seconds(),
        handshake=settings.header_timeout.total_seconds(),
        most_connections=settings.most_connections,
        # The application answers what is too much; the server bounds what even that would be too much for.
        most_requests=settings.most_requests * 2,
        drain=settings.shutdown_timeout.total_seconds(),
        certificate=settings.tls_certificate,
        certificate_key=settings.tls_key,
    )
