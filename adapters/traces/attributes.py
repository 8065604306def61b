"""Every attribute that a span may carry out of the house. The encoder leaves out all others, so what is not here is never exported.

Not here, on purpose: `url.path` and `url.query` (a link may hold a token, a path the name of a person), `url.full`, `client.address`,
`user_agent.original`, `enduser.id`, `db.query.text`, `exception.message` and `exception.stacktrace`. `http.route` has the template of the
path, and `postern.request_id` leads to the line of the log that has the rest.
"""

from typing import Final

NAMES: Final = frozenset(
    {
        "db.query.summary",
        "db.system.name",
        "error.type",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "messaging.destination.name",
        "postern.delivery.attempt",
        "postern.delivery.id",
        "postern.hash.wait_us",
        "postern.job.attempt",
        "postern.job.id",
        "postern.request_id",
        "server.address",
        "server.port",
    }
)
"""Names of OpenTelemetry's semantic conventions; ours begin with `postern.`."""

OF_RESOURCE: Final = frozenset({"service.instance.id", "service.name", "service.version"})
"""The attributes of the process itself."""
