"""Whether the process lives and can serve. Public and not rate limited: probes come often and from anywhere in the cluster."""

from typing import Annotated, Literal

import msgspec

from core.domain.tokens import clocks_differ, clocks_in_words
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, NoBody
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("operations",)


class Health(msgspec.Struct, frozen=True):
    """The process is up."""

    status: Literal["healthy"]
    """Always `healthy`: an unhealthy process sends no response."""
    version: Annotated[str, example("1.0.0")]
    """The version of Postern."""


class Readiness(msgspec.Struct, frozen=True):
    """Whether the process can serve requests."""

    status: Literal["ready", "unhealthy"]
    """`unhealthy` if the database does not respond, or if `reason` is set."""
    version: Annotated[str, example("1.0.0")]
    """The version of Postern."""
    database: Literal["connected", "disconnected"]
    """Whether a simple query succeeds. If the database has several hosts: whether at least one of them responds."""
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """Why the process cannot serve requests although the database responds: writes fail, the server cancels statements, or the clocks
    differ. If the database has several hosts and none accepts writes: the state of each host.
    """


@endpoint.get("/health", caller=ANYONE, limit=UNLIMITED, tags=_TAGS, quiet=True)
def get_health(_call: Call, postern: Postern) -> Health:
    """Get the health and the version of the process

    Return the version without querying the database, for people and dashboards. To check whether the process can serve requests, use `GET
    /health/ready`.
    """
    return Health("healthy", postern.foundation.version)


@endpoint.get("/health/live", caller=ANYONE, limit=UNLIMITED, tags=_TAGS, quiet=True)
def check_liveness(_call: Call, _postern: Postern) -> NoBody:
    """Check that the process responds

    Use this endpoint for a liveness probe. It does not query the database, because restarting Postern does not repair a database that is
    down.
    """
    return NO_BODY


@endpoint.get("/health/ready", caller=ANYONE, limit=UNLIMITED, tags=_TAGS, quiet=True, also={503: Readiness})
async def check_readiness(_call: Call, postern: Postern) -> Answer[Readiness]:
    """Check that the process can serve requests

    Use this endpoint for a readiness probe. The response is 503 if a simple database query fails, if writes fail, or if the server cancels
    statements after a few milliseconds. It is also 503 if the clocks of the process and the database differ by more than 30 seconds. Once
    the cause is gone, the response is 200 again.
    """
    database = postern.foundation.database
    answers = await database.ping()
    hosts = database.hosts_without_writer
    if hosts:
        reason = "; ".join(f"{host.name}: {host.state}" for host in hosts)
        reads = "" if answers else ", and reads are refused"
        return Answer(Readiness("unhealthy", postern.foundation.version, "connected", f"no host takes writes{reads}: {reason}"), 503)
    if not answers:
        return Answer(Readiness("unhealthy", postern.foundation.version, "disconnected"), 503)
    if clocks_differ(database.clock_ahead):
        apart = f"clocks differ: the process is {clocks_in_words(database.clock_ahead)} the database"
        return Answer(Readiness("unhealthy", postern.foundation.version, "connected", apart), 503)
    failure = await database.write_failure()
    if failure is not None:
        return Answer(Readiness("unhealthy", postern.foundation.version, "connected", f"writes fail: {failure}"), 503)
    return Answer(Readiness("ready", postern.foundation.version, "connected"), 200)
