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
        "metrics", {"type": "http", "scheme": "bearer", "description": "The operator's `POSTERN_METRICS_TOKEN`, if there is one."}
    ),
)
async def get_metrics(call: Call, postern: Postern) -> bytes:
    """Get the metrics in Prometheus' text format

    The figures are the sums over all processes of this `postern serve`, and at most a second old. The operator may require a bearer token
    (`POSTERN_METRICS_TOKEN`). The operator may also serve the metrics at another address (`POSTERN_METRICS_BIND`); then the answer of this
    path is 404.
    """
    postern.foundation.scrapes.require_token(call.request.header(b"authorization"))
    return await postern.foundation.scrapes.text()
