"""When each actor works again after an outage: by its gauge, and for those whose work leaves a trace, by that trace."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import psycopg
import trio

from ops.bench.harness import Server
from ops.bench.load import fetch
from ops.drill.cluster import Cluster

# The first row that an actor wrote after this moment. The load gives each of them work all the time. Actors that look every ten seconds or
# more seldom are not among them: the gauge tells whether their last look went well.
TRACES: Final[Mapping[str, str]] = {
    "presence": "select exists (select from sessions where last_seen_at > %(since)s and created_at < %(since)s)",
    "key_presence": "select exists (select from api_keys where last_used_at > %(since)s)",
    "scim_token_presence": "select exists (select from scim_tokens where last_used_at > %(since)s)",
    "client_secret_presence": "select exists (select from client_secrets where last_used_at > %(since)s)",
    "scim_recorder": "select exists (select from scim_exchanges where occurred_at > %(since)s)",
    "audit_linker": (
        "select exists (select from audit_links join audit_entries on audit_entries.id = entry_id where created_at > %(since)s)"
    ),
    "webhook_dispatcher": "select exists (select from webhook_deliveries where delivered_at > %(since)s and created_at > %(since)s)",
    "billing_reconciler": "select exists (select from billing_events where applied_at > %(since)s and received_at > %(since)s)",
}
# By the kind of job: its worker. A counter of the metrics tells that it finished one.
WORKERS: Final[Mapping[str, str]] = {"mail": "mailer", "account.mail": "account_mailer"}
_LOOK: Final = 0.2
_UP: Final = re.compile(r'^sso_actor_up\{actor="(\w+)"\} (\d)', re.MULTILINE)
_DONE: Final = re.compile(r'^sso_jobs_processed_total\{job_type="([\w.]+)",outcome="succeeded"\} (\S+)', re.MULTILINE)


@dataclass(slots=True)
class Actors:
    """Looks at them while it runs."""

    server: Server
    last_down: dict[str, float] = field(default_factory=dict)
    """When each actor was last seen to be down."""
    known: set[str] = field(default_factory=set)
    readiness: list[tuple[float, bool]] = field(default_factory=list)
    """When readiness was asked for, and whether the process was ready."""

    async def watch(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_gauges)
            nursery.start_soon(self._watch_readiness)

    async def _watch_gauges(self) -> None:
        while True:
            for name, value in _UP.findall(await self._metrics()):
                self.known.add(name)
                if value == "0":
                    self.last_down[name] = trio.current_time()
            await trio.sleep(_LOOK)

    async def _watch_readiness(self) -> None:
        while True:
            ready = await self.server.status("/health/ready", 3)
            self.readiness.append((trio.current_time(), ready == 200))
            await trio.sleep(_LOOK)

    async def at_work(self, cluster: Cluster, back: float, patience: float) -> Mapping[str, float]:
        """For each actor the seconds after `back` until it works. Those that do not work in time are missing."""
        since = (await trio.to_thread.run_sync(cluster.ask, "select clock_timestamp()"))[0][0]
        before = dict(_DONE.findall(await self._metrics()))
        found: dict[str, float] = {}
        with trio.move_on_after(patience):
            while len(found) < len(TRACES) + len(WORKERS):
                for actor, trace in TRACES.items():
                    if actor not in found and await self._left(cluster, trace, since):
                        found[actor] = trio.current_time() - back
                for kind, done in _DONE.findall(await self._metrics()):
                    if kind in WORKERS and WORKERS[kind] not in found and done != before.get(kind, "0.0"):
                        found[WORKERS[kind]] = trio.current_time() - back
                await trio.sleep(_LOOK)
        for actor in self.known - TRACES.keys() - set(WORKERS.values()):
            found[actor] = 0.0
        for actor, at in self.last_down.items():
            if actor in found:
                found[actor] = max(found[actor], at - back)
        return found

    def missing(self, found: Mapping[str, float]) -> set[str]:
        return (self.known | TRACES.keys() | set(WORKERS.values())) - found.keys()

    def ready_after(self, back: float) -> float:
        """The seconds after `back` until the process stayed ready."""
        return max((at for at, ready in self.readiness if not ready and at > back), default=back) - back

    async def _metrics(self) -> str:
        answer = await fetch(self.server.target("/metrics"))
        return "" if answer is None else answer.body.decode()

    async def _left(self, cluster: Cluster, trace: str, since: object) -> bool:
        try:
            rows = await trio.to_thread.run_sync(cluster.primary.ask, trace, {"since": since}, "postern")
        except psycopg.Error:
            return False
        return bool(rows[0][0])
