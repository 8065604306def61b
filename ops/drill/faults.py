"""The faults. Each takes the primary away from its clients, and returns when a server takes writes again.

Patroni notices a primary that is gone when its lease in the store runs out; `detection` stands for that time. A primary that takes its
leave, as at a switchover, hands over at once.
"""

import errno
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
import trio

from adapters.postgres.embedded import EmbeddedPostgresError
from ops.drill.cluster import Cluster, Node, NoSuchDisk

# For this long a woken primary believes that it still is one. Its Patroni sees at its next turn that the lease is gone, and ends it.
WAKEFUL: Final = 2.0


@dataclass(frozen=True, slots=True)
class Outage:
    """Between these moments no server could take writes."""

    began: float
    back: float

    @property
    def seconds(self) -> float:
        return self.back - self.began


Fault = Callable[[Cluster, float], Awaitable[Outage]]


async def kill(cluster: Cluster, detection: float) -> Outage:
    """The primary's machine loses its power; a standby is promoted."""
    old, new, began = cluster.primary, await cluster.candidate(), trio.current_time()
    await trio.to_thread.run_sync(old.end)
    return await _promoted(cluster, new, began, detection)


async def stop(cluster: Cluster, detection: float) -> Outage:
    """The primary hangs: its machine acknowledges what arrives, and nothing answers (SIGSTOP). A standby is promoted. Then the old primary
    wakes, and believes for two seconds that it still is one.
    """
    old, new, began = cluster.primary, await cluster.candidate(), trio.current_time()
    old.send(signal.SIGSTOP)
    outage = await _promoted(cluster, new, began, detection)
    await trio.sleep(WAKEFUL)
    old.send(signal.SIGCONT)
    await trio.sleep(WAKEFUL)
    await trio.to_thread.run_sync(old.end)
    return outage


async def partition(cluster: Cluster, detection: float) -> Outage:
    """The primary is cut off from its clients and its standbys; a standby is promoted, and the old primary ends itself."""
    old, new, began = cluster.primary, await cluster.candidate(), trio.current_time()
    old.for_clients.cut()
    old.for_followers.cut()
    outage = await _promoted(cluster, new, began, detection)
    await trio.to_thread.run_sync(old.end)
    return outage


async def switchover(cluster: Cluster, _detection: float) -> Outage:
    """An operator moves the primary: a fast shutdown, in which the standbys get everything, then the promotion."""
    old, new, began = cluster.primary, await cluster.candidate(), trio.current_time()
    await trio.to_thread.run_sync(old.server.stop)
    return await _promoted(cluster, new, began, 0)


async def read_only(cluster: Cluster, detection: float) -> Outage:
    """The primary refuses writes, as managed servers do when their storage runs out; then it takes them again."""
    began = trio.current_time()
    await trio.to_thread.run_sync(cluster.primary.set, "default_transaction_read_only", "on")
    await trio.sleep(detection)
    await trio.to_thread.run_sync(cluster.primary.set, "default_transaction_read_only", "off")
    return Outage(began, trio.current_time())


async def disk_full(cluster: Cluster, detection: float) -> Outage:
    """The primary's disk, a tmpfs of 640 MiB, is filled to its last block; later the operator makes room, and starts the server if it ended
    itself.
    """
    node = cluster.primary
    if not node.place.is_mount():
        raise NoSuchDisk("only root can give a server a small disk of its own")
    began = trio.current_time()
    filler = node.place / "filler"
    await trio.to_thread.run_sync(fill, filler)
    await trio.sleep(detection)
    filler.unlink()
    await _started(node)
    return Outage(began, trio.current_time())


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": kill,
    "stop": stop,
    "partition": partition,
    "switchover": switchover,
    "read-only": read_only,
    "disk full": disk_full,
}
# In these a standby becomes primary without the old primary's last word.
SUDDEN: Final = frozenset({"kill", "stop", "partition"})


async def _promoted(cluster: Cluster, new: Node, began: float, detection: float) -> Outage:
    await trio.sleep_until(began + detection)
    await cluster.promote(new)
    return Outage(began, trio.current_time())


def fill(filler: Path) -> None:
    """Large blocks first, then small ones, until not one more fits."""
    size = 1 << 20
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while size:
            try:
                os.write(descriptor, bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 16
    finally:
        os.close(descriptor)


async def _started(node: Node) -> None:
    with trio.fail_after(60):
        while True:
            with suppress(psycopg.Error):
                await trio.to_thread.run_sync(node.ask, "select pg_logical_emit_message(true, 'drill', '')")
                return
            with suppress(EmbeddedPostgresError):
                await trio.to_thread.run_sync(node.server.revive)
            await trio.sleep(0.1)
