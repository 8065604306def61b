"""SIEM: a million entries of an audit log and many sign-ins go to a receiver that fails now and then, while the case kills the server."""

import json
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import h11
import psycopg
import trio

from ops.bench import processes
from ops.bench.filling.fill_tenancy import Size, grow_tenancy
from ops.bench.harness import Options, directory, serving
from ops.bench.report import Figure, at_least, at_most

SETTINGS: Final = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1"}
ENTRIES: Final = 1_000_000
SIGN_INS: Final = 20_000
KILLS: Final = 20
BATCH: Final = 1_000
# In this many batches, the receiver refuses one, and takes one but answers that it failed.
REFUSED: Final = 20
DENIED: Final = 31
PATIENCE: Final = 1_500.0


@dataclass(slots=True)
class _Taken:
    """The receiver's entries, checked as the guide describes: each number in order, each digest over the one before."""

    last: Counter[str] = field(default_factory=Counter)
    digests: dict[str, str] = field(default_factory=dict)
    repeated: int = 0
    gaps: int = 0
    faults: int = 0
    batches: int = 0
    refused: int = 0

    def take(self, record: Mapping[str, Any]) -> None:
        stream, number = str(record["stream"]), int(record["sequence"])
        if "digest" not in record:
            return
        if number <= self.last[stream]:
            self.repeated += 1
            return
        self.gaps += number != self.last[stream] + 1
        covered = {name: value for name, value in record.items() if name not in {"digest", "personal"}}
        text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        right = sha256(text.encode()).hexdigest() == record["digest"] and record["previous"] == self.digests.get(stream, "0" * 64)
        self.faults += not right
        self.last[stream], self.digests[stream] = number, str(record["digest"])

    async def serve(self, stream: trio.SocketStream) -> None:
        protocol, body = h11.Connection(h11.SERVER), bytearray()
        try:
            while True:
                event = protocol.next_event()
                if event is h11.NEED_DATA:
                    protocol.receive_data(await stream.receive_some(1 << 18))
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    await stream.send_all(f"HTTP/1.1 {await self._answer(bytes(body))} X\r\ncontent-length: 0\r\n\r\n".encode())
                    protocol, body = h11.Connection(h11.SERVER), bytearray()
                elif not isinstance(event, h11.Request):
                    return
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            return

    async def _answer(self, body: bytes) -> int:
        self.batches += 1
        if self.batches % REFUSED == 0:
            self.refused += 1
            return 503
        for line in body.splitlines():
            self.take(json.loads(line))
        await trio.lowlevel.checkpoint()
        if self.batches % DENIED == 0:
            self.refused += 1
            return 500
        return 200

    def is_whole(self) -> bool:
        return self.last["audit"] >= ENTRIES and self.last["sign_in"] >= SIGN_INS


async def exported(_options: Options) -> Sequence[Figure]:
    """A million entries and twenty thousand sign-ins, while the receiver refuses one batch in twelve and the server is killed twenty
    times.
    """
    taken, highest, spent = _Taken(), 0.0, 0.0
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        nursery = await stack.enter_async_context(trio.open_nursery())
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(partial(trio.serve_listeners, taken.serve, listeners))
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
        began = at_rest = 0.0
        for number in range(KILLS + 1):
            async with serving(place, settings=SETTINGS) as server:
                if number == 0:
                    (tenant,) = await trio.to_thread.run_sync(grow_tenancy, server.database_url, Size(1, 100, ENTRIES))
                    at_rest = server.resident()
                    await trio.to_thread.run_sync(_configure, server.database_url, tenant.id, url)
                    began = trio.current_time()
                await trio.to_thread.run_sync(_given_back, server.database_url)
                until = taken.last["audit"] + ENTRIES // (KILLS + 1)
                with trio.move_on_after(PATIENCE / (KILLS + 1)):
                    while not (taken.is_whole() if number == KILLS else taken.last["audit"] >= min(until, ENTRIES)):
                        await trio.sleep(0.5)
                        # Otherwise, the pauses between batches would take most of the time.
                        await trio.to_thread.run_sync(_hasten, server.database_url)
                        highest = max(highest, server.resident() - at_rest)
                if number < KILLS:
                    processes.send([server.pid], signal.SIGKILL)
                    await server.process.wait()
                else:
                    spent = trio.current_time() - began
        nursery.cancel_scope.cancel()
    return [
        Figure("killed and started again", KILLS, bar=at_least(KILLS)),
        Figure("entries of the audit log that arrived", taken.last["audit"], bar=at_least(ENTRIES)),
        Figure("sign-ins that arrived", taken.last["sign_in"], bar=at_least(SIGN_INS)),
        Figure("numbers left out, or out of order", taken.gaps, bar=at_most(0)),
        Figure("digests that do not hold", taken.faults, bar=at_most(0)),
        Figure("batches refused or denied", taken.refused),
        Figure("entries that came again", taken.repeated),
        Figure("entries a second, with all of this", (taken.last["audit"] + taken.last["sign_in"]) / spent, "a second"),
        Figure("most memory meanwhile, on top", highest, "MiB", at_most(40)),
    ]


# For all processes: there may be work of every kind.
_RING: Final[LiteralString] = "notify postern"


def _configure(database_url: str, organization: UUID, url: str) -> None:
    export = uuid4()
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, created_at, updated_at)"
            " values (%s, %s, 'bench', 'generic', %s, %s, now(), now())",
            (export, organization, url, BATCH),
        )
        connection.execute(
            "with logged as (insert into login_events (id, organization_id, provider, success, address, created_at)"
            " select gen_random_uuid(), %s, 'password', true, '192.0.2.1', now() from generate_series(1, %s) returning id)"
            " insert into sign_in_pending (event_id, export_id) select id, %s from logged",
            (organization, SIGN_INS, export),
        )
        connection.execute(_RING)


def _hasten(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("update siem_configurations set next_at = now() where failures > 0 and lease is null")
        connection.execute(_RING)


def _given_back(database_url: str) -> None:
    """The lease of the process that was killed would run out by itself, in a minute."""
    with psycopg.connect(database_url) as connection:
        connection.execute("update siem_configurations set leased_until = now() where leased_until > now()")
        connection.execute(_RING)
