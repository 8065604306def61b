"""The metrics page, for a Prometheus server to scrape."""

from core.domain.errors import TokenInvalid, Unauthorized
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import ANYONE, SecurityScheme
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import UNLIMITED


@endpoint.get(
    "/metrics",
    caller=ANYONE,
    limit=UNLIMITED,
    tags=("operations",),
    quiet=True,
    produces="text/plain; version=0.0.4",
    refuses=(Unauthorized, TokenInvalid),
    may_present=SecurityScheme(
        "metrics", {"type": "http", "scheme": "bearer", "description": "The value of `POSTERN_METRICS_TOKEN`, if the operator has set it."}
    ),
)
async def get_metrics(call: Call, postern: Postern) -> bytes:
    """Get the metrics in the Prometheus text format

    Return the sums over all processes of this `postern serve`, at most 1 second old. If the operator has set `POSTERN_METRICS_TOKEN`, send
    it as a bearer token. If the operator serves the metrics at another address (`POSTERN_METRICS_BIND`), the response is 404.
    """
    postern.foundation.scrapes.require_token(call.request.header(b"authorization"))
    return await postern.foundation.scrapes.text()
