"""Twenty receivers send endless answers in tiny pieces. The case measures how other requests suffer, for each kind of call to an address
that a tenant names.
"""

import base64
import json
import os
import re
import socket
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from html import unescape
from typing import Any, Final, LiteralString
from urllib.parse import urlencode
from uuid import UUID, uuid4

import psycopg
import trio

from core.domain.identifiers import UpstreamProviderId
from core.domain.tenancy.upstream_providers import sealing_context
from ops.bench import processes
from ops.bench.cases.webhooks import QUEUE, Tenant, make_tenants
from ops.bench.harness import DidNotStart, Options, Server, directory, generate, serving
from ops.bench.inside import postern_of
from ops.bench.load import Broken, Client
from ops.bench.load import Target as Asked
from ops.bench.report import Figure, at_least, at_most, complain

SETTINGS: Final = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1"}
RECEIVERS: Final = 20
TURNS: Final = 3
# Seconds between two calls of each receiver.
PACE: Final = 0.25
CALLBACK: Final = "https://shop.example.com/callback"
_OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
_INTERIM: Final = b"HTTP/1.1 102 Processing\r\n\r\n" * 500
_CHUNKED: Final = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_CRUMBS: Final = b"1\r\nx\r\n" * 5_000
_LINES: Final = b"a:\r\n" * 5_000
_HEAD_END: Final = b"\r\n\r\n"
_BUTTON: Final = re.compile(r'<a class="button" href="([^"]+)">')

Manner = Callable[[trio.SocketStream], Awaitable[None]]


async def _plainly(stream: trio.SocketStream) -> None:
    await stream.send_all(_OK)


async def _interim_heads(stream: trio.SocketStream) -> None:
    while True:
        await stream.send_all(_INTERIM)


async def _one_byte_chunks(stream: trio.SocketStream) -> None:
    await stream.send_all(_CHUNKED)
    while True:
        await stream.send_all(_CRUMBS)


async def _one_byte_pieces(stream: trio.SocketStream) -> None:
    """Sends a head byte by byte, as long as somebody reads it."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"HTTP/1.1 200 OK\r\nx: " + b"a" * 10_000:
        try:
            # Trio's `send_all` costs more than the server's reading.
            os.write(stream.socket.fileno(), bytes([byte]))
        except OSError:
            return
        await trio.lowlevel.checkpoint()


async def _one_byte_lines(stream: trio.SocketStream) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\n")
    while True:
        await stream.send_all(_LINES)


HOSTILE: Final[Mapping[str, Manner]] = {
    "interim heads": _interim_heads,
    "chunks of a byte": _one_byte_chunks,
    "pieces of a byte": _one_byte_pieces,
    "lines of a byte": _one_byte_lines,
}


@dataclass(slots=True)
class _Sinks:
    """All receivers, on one port. The case changes `manner` while they run."""

    manner: Manner = _plainly
    port: int = 0
    calls: int = 0

    def url(self, name: object) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    async def serve(self, stream: trio.SocketStream) -> None:
        buffered = b""
        # A server that refuses an answer closes the connection.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                while True:
                    while _HEAD_END not in buffered:
                        received = await stream.receive_some(65536)
                        if not received:
                            return
                        buffered += received
                    head, _, buffered = buffered.partition(_HEAD_END)
                    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
                    length = int(headers.get(b"content-length", b"0"))
                    while len(buffered) < length:
                        buffered += await stream.receive_some(65536)
                    buffered = buffered[length:]
                    self.calls += 1
                    await self.manner(stream)


@dataclass(frozen=True, slots=True)
class _Use:
    """A kind of call, and the rows or requests that make Postern call every receiver once."""

    name: str
    rows: Callable[["psycopg.Connection[Any]"], None]
    asked: Sequence[Asked] = ()


async def answers(options: Options) -> Sequence[Figure]:
    """`/health/live` while Postern calls twenty receivers four times a second: with plain answers, and with four kinds of endless ones, in
    turns. For webhooks, SIEM, logout notices, published keys and providers.
    """
    figures: list[Figure] = []
    seconds = max(2.0, options.seconds / 2)
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        sinks = await stack.enter_async_context(_sinks())
        server = await stack.enter_async_context(serving(place, settings=SETTINGS))
        tenants = await make_tenants(server, [[sinks.url(f"hook/{number}")] for number in range(RECEIVERS)])
        for use in await _uses(server, sinks, tenants):
            complain(f"answers: {use.name} …")
            figures += await _beside(server, sinks, use, seconds)
    return figures


async def _beside(server: Server, sinks: _Sinks, use: _Use, seconds: float) -> Sequence[Figure]:
    p90: dict[str, list[float]] = {"plainly": [], **{name: [] for name in HOSTILE}}
    cpu, calls, failures = dict.fromkeys(p90, 0.0), dict.fromkeys(p90, 0), 0
    for _ in range(TURNS):
        for name, measured in p90.items():
            sinks.manner = HOSTILE.get(name, _plainly)
            async with _called(server, use):
                # By then, the first calls are under way, and the earlier ones have ended.
                await trio.sleep(8 * PACE)
                before, spent = sinks.calls, processes.cpu_seconds(server.pids())
                met = await generate(server.target("/health/live"), 2, seconds, pause=0.005)
                calls[name] += sinks.calls - before
                cpu[name] += processes.cpu_seconds(server.pids()) - spent
            measured.append(met.p90)
            failures += met.failures
    plain = statistics.median(p90["plainly"])
    return [
        *(
            Figure(
                f"{use.name}, {name}: /health/live, 90th percentile",
                statistics.median(measured) * 1e3,
                "ms",
                beside=f"{calls[name]} calls, CPU {cpu[name] / (TURNS * seconds):.0%}",
            )
            for name, measured in p90.items()
        ),
        *(Figure(f"{use.name}, {name}: against plain answers", statistics.median(p90[name]) / plain, bar=at_most(2.0)) for name in HOSTILE),
        Figure(f"{use.name}: calls that were answered plainly", calls["plainly"], bar=at_least(RECEIVERS)),
        Figure(f"{use.name}: /health/live refused or failed", failures, bar=at_most(0)),
    ]


@asynccontextmanager
async def _called(server: Server, use: _Use) -> AsyncIterator[None]:
    async def written() -> None:
        connection = await trio.to_thread.run_sync(partial(psycopg.connect, server.database_url, autocommit=True))
        with connection:
            while True:
                await trio.to_thread.run_sync(use.rows, connection)
                await trio.sleep(PACE)

    async def asked(target: Asked) -> None:
        while True:
            with suppress(OSError, Broken), trio.move_on_after(15):
                async with Client.connected(target) as client:
                    await client.get()
            await trio.sleep(PACE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(written)
        for target in use.asked:
            nursery.start_soon(asked, target)
        yield
        nursery.cancel_scope.cancel()


async def _uses(server: Server, sinks: _Sinks, tenants: Sequence[Tenant]) -> Sequence[_Use]:
    organizations = [one.organization for one in tenants]
    providers = [uuid4() for _ in organizations]
    async with postern_of(server.settings) as postern:
        keyring = postern.foundation.keyring
        secrets = [keyring.seal(b"secret", sealing_context(UpstreamProviderId(one))) for one in providers]
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute(_SERVICES, {"organizations": organizations, "url": sinks.url("")})
        clients: dict[UUID, UUID] = dict(connection.execute("select org_id, client_id from all_services").fetchall())
        slugs: dict[UUID, str] = dict(connection.execute("select id, slug from all_organizations").fetchall())
        connection.execute(_EXPORTS, {"organizations": organizations, "url": sinks.url("siem")})
        issuers = [sinks.url(f"issuer/{number}") for number in range(len(providers))]
        connection.execute(_PROVIDERS, {"ids": providers, "organizations": organizations, "issuers": issuers, "secrets": secrets})
    asserting = [_asserting(server, clients[one]) for one in organizations]
    leaving = [await _leaving(server, provider, slugs[of]) for provider, of in zip(providers, organizations, strict=True)]
    return [
        _Use("webhooks", partial(_run, [_RESTED, _FORGIVEN, QUEUE, "notify postern, 'webhooks'"], _parameters(tenants))),
        _Use("SIEM", partial(_run, [_SIGN_INS, _HASTENED, "notify postern"], {})),
        _Use("logout notices", partial(_run, [_NOTICES_RESTED, _RECEIVERS_FORGIVEN, _NOTICES, "notify postern, 'logouts'"], {})),
        _Use("published keys", partial(_run, [_MOVED_KEYS], {"url": sinks.url("")}), asserting),
        _Use("providers", partial(_run, [], {}), leaving),
    ]


def _parameters(tenants: Sequence[Tenant]) -> Mapping[str, Any]:
    webhooks = [webhook for one in tenants for webhook in one.webhooks]
    return {"webhooks": webhooks, "organizations": [one.organization for one in tenants], "count": len(webhooks)}


def _run(statements: Sequence[LiteralString], parameters: Mapping[str, Any], connection: "psycopg.Connection[Any]") -> None:
    for statement in statements:
        connection.execute(statement, parameters if "%(" in statement else None)


def _asserting(server: Server, client: UUID) -> Asked:
    """A token request by a client whose key nobody has published."""
    told = {"iss": str(client), "sub": str(client), "aud": "x", "exp": 4_000_000_000, "jti": "x"}
    head, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "ES256", "kid": "x"}, told)
    )
    form = {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": f"{head}.{claims}.{'A' * 86}",
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return Asked("127.0.0.1", server.port, "/auth/token", headers, method="POST", body=urlencode(form).encode())


async def _leaving(server: Server, provider: UUID, slug: str) -> Asked:
    """The target of the button that leads to an organization's own provider. An application leads people to the page with it."""
    query = {"org": slug, "service": "app", "redirect_uri": CALLBACK, "code_challenge": "A" * 43, "code_challenge_method": "S256"}
    async with Client.connected(server.target(f"/auth/{provider}?{urlencode(query)}")) as client:
        page = await client.get()
    button = _BUTTON.search(page.body.decode())
    if button is None:
        raise DidNotStart(f"the page before a provider answers {page.status} and has no button")
    return server.target(unescape(button[1]), {"Cookie": page.headers["set-cookie"].partition(";")[0]})


@asynccontextmanager
async def _sinks() -> AsyncIterator[_Sinks]:
    async with trio.open_nursery() as nursery:
        made = _Sinks()
        listeners = await nursery.start(partial(trio.serve_tcp, made.serve, 0, host="127.0.0.1"))
        made.port = listeners[0].socket.getsockname()[1]
        yield made
        nursery.cancel_scope.cancel()


_SERVICES: Final = """
    insert into all_services (id, org_id, slug, name, service_type, client_id, redirect_uris, jwks, jwks_uri, jwks_fetched_at,
                              backchannel_logout_uri, created_at, updated_at)
    select uuidv7(), id, 'app', 'App', 'web', uuidv7(), '{https://shop.example.com/callback}', '{"keys": []}', %(url)s || 'keys/' || id,
           now() - interval '1 day', %(url)s || 'logout/' || id, now(), now()
      from unnest(%(organizations)s::uuid[]) as id
"""
_EXPORTS: Final = """
    insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, created_at, updated_at)
    select uuidv7(), id, 'bench', 'generic', %(url)s, 100, now(), now() from unnest(%(organizations)s::uuid[]) as id
"""
_PROVIDERS: Final = """
    insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at, updated_at)
    select id, organization, 'bench', issuer, 'bench', secret, '{}', true, now(), now()
      from unnest(%(ids)s::uuid[], %(organizations)s::uuid[], %(issuers)s::text[], %(secrets)s::bytea[])
        as of (id, organization, issuer, secret)
"""
# Postern drops earlier failures and their retries, so that it calls all receivers at the same pace.
_RESTED: Final = "update webhook_deliveries set next_at = null where next_at is not null"
_FORGIVEN: Final = "update webhooks set failing_since = null, rests_until = null"
_NOTICES_RESTED: Final = "update logout_notices set next_at = null where next_at is not null"
_RECEIVERS_FORGIVEN: Final = "update logout_receivers set failing_since = null, rests_until = null"
_NOTICES: Final = """
    with receivers as (
             insert into logout_receivers (service_id) select id from all_services on conflict do nothing
         )
    insert into logout_notices (id, service_id, session_id, user_id, next_at, created_at, updated_at)
    select uuidv7(), id, uuidv7(), uuidv7(), now(), now(), now() from all_services
"""
_SIGN_INS: Final = """
    with logged as (
             insert into login_events (id, organization_id, provider, success, address, created_at)
             select gen_random_uuid(), org_id, 'password', true, '192.0.2.1', now() from siem_configurations
          returning id, organization_id
         )
    insert into sign_in_pending (event_id, export_id)
    select logged.id, siem_configurations.id from logged join siem_configurations on org_id = organization_id
"""
_HASTENED: Final = "update siem_configurations set next_at = now(), failures = 0 where lease is null"
# Postern asks one address at most every ten seconds, so each round needs new addresses.
_MOVED_KEYS: Final = "update all_services set jwks_uri = %(url)s || 'keys/' || gen_random_uuid()"
