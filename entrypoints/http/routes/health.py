"""Whether the process lives and can serve. Public and not rate limited: probes come often and from anywhere in the cluster."""

from typing import Literal

import msgspec

from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, Answer, NoBody
from entrypoints.http.callers import ANYONE
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

_TAGS = ("operations",)


class Health(msgspec.Struct, frozen=True):
    status: Literal["healthy"]
    version: str


class Readiness(msgspec.Struct, frozen=True):
    status: Literal["ready", "unhealthy"]
    version: str
    database: Literal["connected", "disconnected"]


@endpoint.get("/health", caller=ANYONE, tags=_TAGS, quiet=True)
def health(_call: Call, services: Services) -> Health:
    """The process is up, and its version"""
    return Health("healthy", services.version)


@endpoint.get("/health/live", caller=ANYONE, tags=_TAGS, quiet=True)
def live(_call: Call, _services: Services) -> NoBody:
    """The process answers

    For a liveness probe: says nothing about the database, whose absence no restart of ours would mend.
    """
    return NO_BODY


@endpoint.get("/health/ready", caller=ANYONE, tags=_TAGS, quiet=True, also={503: Readiness})
async def ready(_call: Call, services: Services) -> Answer[Readiness]:
    """The process can serve requests

    For a readiness probe: 503 while a trivial database query fails, 200 again by itself when it succeeds.
    """
    if await services.database.ping():
        return Answer(Readiness("ready", services.version, "connected"), 200)
    return Answer(Readiness("unhealthy", services.version, "disconnected"), 503)
