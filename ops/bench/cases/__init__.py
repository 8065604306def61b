"""What is measured: each case is a function with a sentence, and holds its figures against its bars itself."""

from collections.abc import Mapping
from typing import Final

from ops.bench.cases import (
    aftermath,
    attacks,
    clients,
    faults,
    federation,
    identity,
    pages,
    peers,
    providers,
    scale,
    services,
    single_use,
    speed,
    starting,
    tenancy,
    timing,
)
from ops.bench.harness import Case

CASES: Final[Mapping[str, Case]] = {
    "start": starting.start,
    "memory": starting.memory,
    "driver": speed.queries,
    "http": speed.requests,
    "argon2": speed.passwords,
    "processes": speed.processes,
    "keepalive": clients.keepalive,
    "h2": clients.h2,
    "connections": clients.connections,
    "waiting": attacks.waiting,
    "idle": attacks.idle,
    "kill": faults.kill,
    "postgres": faults.database,
    "sigterm": faults.sigterm,
    "signin": identity.signin,
    "loaded": identity.loaded,
    "crowd": identity.crowd,
    "users": scale.users,
    "redeem": single_use.redeem,
    "timing": timing.timing,
    "aftermath": aftermath.aftermath,
    "tenants": tenancy.tenants,
    "audit": tenancy.audit,
    "seat": tenancy.seat,
    "deletion": tenancy.deletion,
    "sweeper": tenancy.sweeper,
    "services": services.services,
    "place": services.place,
    "tokens": federation.tokens,
    "pages": pages.pages,
    "peers": peers.peers,
    "providers": providers.providers,
}
