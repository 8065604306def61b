"""The metrics page, for a Prometheus server to scrape."""

import trio

from entrypoints.bootstrap import Services
from entrypoints.http.callers import ANYONE
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

# Rendering takes milliseconds, more with many processes. One at a time: a second scraper can wait for the first.
_renderer = trio.CapacityLimiter(1)


@endpoint.get("/metrics", caller=ANYONE, tags=("operations",), quiet=True, produces="text/plain; version=0.0.4")
async def metrics(_call: Call, services: Services) -> bytes:
    """Metrics in Prometheus' text format

    Summed over all processes of this `postern serve`.
    """
    return await trio.to_thread.run_sync(services.metrics_page.render, limiter=_renderer)
