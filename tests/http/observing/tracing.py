"""The whole application with tracing on, and a collector that it sends its spans to."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from types import MappingProxyType

import trio

from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from tests.adapters.traces.collecting import Collector, collecting
from tests.http.client import Client
from tests.http.conftest import SETTINGS, postern_on, with_keys
from tests.http.people import People

PROXY, STRANGER = "10.1.2.3", "192.0.2.1"
HTTP_SETTINGS = replace(SETTINGS, rate_limits=False, trusted_proxies=(ip_network("10.0.0.0/8"),))


class Traced(Frozen):
    postern: Postern
    people: People
    collector: Collector

    def client(self, address: str = STRANGER) -> Client:
        return Client(build_application(self.postern, HTTP_SETTINGS), address)


@asynccontextmanager
async def tracing(database_url: str, directory: Path, more: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[Traced]:
    async with collecting() as collector:
        settings = {"POSTERN_TRACES_ENDPOINT": collector.url, "POSTERN_TRACES_SAMPLE": "1", **more}
        async with postern_on(database_url, directory, settings) as postern:
            await with_keys(postern)
            assert postern.foundation.tracing is not None
            recorder = postern.foundation.tracing.recorder
            recorder._interval = 0.02
            with People(postern, database_url) as people:
                async with trio.open_nursery() as nursery:
                    await nursery.start(lambda task_status: recorder.run(task_status=task_status))
                    yield Traced(postern=postern, people=people, collector=collector)
                    nursery.cancel_scope.cancel()
