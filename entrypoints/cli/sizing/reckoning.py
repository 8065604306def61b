"""What an installation needs, from what people do and what that was measured to cost. Pure, and on the careful side."""

import math
from typing import Final

from core.frozen import Frozen
from entrypoints.cli.sizing.measured import MEASURED, Measurements

# The busiest second against the average of the busiest hour: people come when the hour strikes.
RUSH: Final = 3.0
# A core that is busier makes people wait.
BUSY: Final = 0.6
# The pool, a listener, and now and then a further connection or two: docs/operations/install.md, "Scale".
CONNECTIONS_OF_A_PROCESS: Final = 13
# Migrations, backups, commands, a person with psql.
FURTHER_CONNECTIONS: Final = 20
_DATABASE_MIB: Final = 512
_MIB_OF_A_CONNECTION: Final = 8
# Sessions and sign-ins of so many days are read again and again.
_HOT_DAYS: Final = 7
# Dead rows, indexes that grow, the write-ahead log of a standby that is away for a while.
_ROOM: Final = 2.0
_GIB: Final = 2**30
_MIB: Final = 2**20


class Demand(Frozen):
    people: int
    sign_ins_a_day: int
    peak_share: float
    """Of a day's sign-ins, the share of its busiest hour."""
    tokens: int
    """How often an application gets tokens, for each sign-in."""
    reads: int
    """Requests with a token, for each sign-in."""
    machines: int
    """Those that serve. If they are several, one may be away in the busiest second."""


class Needs(Frozen):
    sign_ins_a_second: float
    """In the busiest second."""
    serving_cores: float
    """Busy with it, before any room is left."""
    processes: int
    """On each machine that serves: one for each core."""
    argon2_workers: int
    """Passwords that a process hashes at once. One process for each core and one worker in each keep every core busy; more take memory."""
    memory_mib: int
    """On each machine that serves, for Postern alone."""
    database_cores: int
    """On each server of the database."""
    database_memory_mib: int
    connections: int
    """`max_connections` of the database, at least."""
    disk_gib: int
    """On each server of the database, at the end of the first year."""
    disk_gib_a_year: float
    """What each further year adds."""
    wal_gib_a_day: float
    """What an archive of the write-ahead log takes in, without full copies."""


def needs(demand: Demand, costs: Measurements = MEASURED) -> Needs:
    rate = demand.sign_ins_a_day * demand.peak_share / 3600 * RUSH
    serving = rate * (costs.sign_in_ms + demand.tokens * costs.token_ms + demand.reads * costs.read_ms) / 1000
    asking = rate * (costs.sign_in_database_ms + demand.tokens * costs.token_database_ms + demand.reads * costs.read_database_ms) / 1000
    left = max(1, demand.machines - 1)
    processes = max(1, math.ceil(serving / BUSY / left))
    connections = demand.machines * processes * CONNECTIONS_OF_A_PROCESS + FURTHER_CONNECTIONS
    of_people = demand.people * costs.disk_bytes_a_person
    a_year = demand.sign_ins_a_day * 365 * costs.disk_bytes_a_sign_in * _ROOM
    hot = of_people + demand.sign_ins_a_day * _HOT_DAYS * costs.disk_bytes_a_sign_in
    return Needs(
        sign_ins_a_second=rate,
        serving_cores=serving,
        processes=processes,
        argon2_workers=1,
        memory_mib=math.ceil(processes * costs.loaded_mib),
        database_cores=max(1, math.ceil(asking / BUSY)),
        database_memory_mib=math.ceil(_DATABASE_MIB + connections * _MIB_OF_A_CONNECTION + hot / _MIB),
        connections=connections,
        disk_gib=math.ceil(1 + (of_people * _ROOM + a_year) / _GIB),
        disk_gib_a_year=a_year / _GIB,
        wal_gib_a_day=demand.sign_ins_a_day * costs.wal_bytes_a_sign_in / _GIB,
    )
