"""`postern size`: estimates what an installation needs, from measured costs."""

import argparse
import math
from typing import Final

from core.frozen import Frozen
from entrypoints.cli.output.printing import plain, print_json
from entrypoints.failures import OK


class Measurements(Frozen):
    """Processor time is in milliseconds of one core, on few connections; under more load each request costs less.

    These figures are in this one place. `python -m ops.drill sizing` measures them again, but for those of tokens, which are in
    docs/benchmarks.md ("organizations", ten thousand of them).
    """

    on: str
    machine: str
    sign_in_ms: float
    """With a password, hashing included."""
    sign_in_database_ms: float
    token_ms: float
    """An application exchanges a code or a refresh token for tokens."""
    token_database_ms: float
    refresh_ms: float
    """A client of our own API renews its session."""
    refresh_database_ms: float
    read_ms: float
    """A request with a token: a profile, userinfo, an introspection."""
    read_database_ms: float
    idle_mib: float
    """One serving process."""
    loaded_mib: float
    """The same after a thousand sign-ins, the hashes of two workers included."""
    connections: float
    """What a process opened with the default of `POSTERN_POOL_SIZE`."""
    disk_bytes_a_person: float
    """An account with one session, and their indexes."""
    disk_bytes_a_sign_in: float
    """What a sign-in adds: its session and device, the sign-in with its place, its entry in the audit log."""
    wal_bytes_a_sign_in: float


MEASURED: Final = Measurements(
    on="2026-11-30",
    machine="AMD EPYC, 2 cores, 24 GiB",
    sign_in_ms=9.53,
    sign_in_database_ms=1.48,
    token_ms=0.456,
    token_database_ms=0.669,
    refresh_ms=0.32,
    refresh_database_ms=0.27,
    read_ms=0.157,
    read_database_ms=0.045,
    idle_mib=140,
    loaded_mib=195,
    connections=10,
    disk_bytes_a_person=629,
    disk_bytes_a_sign_in=2590,
    wal_bytes_a_sign_in=2930,
)


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
    """Estimates what an installation needs, from what users do and what that was measured to cost. Pure, and on the careful side."""
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


def run(arguments: argparse.Namespace) -> int:
    demand = Demand(
        people=arguments.people,
        sign_ins_a_day=arguments.people if arguments.sign_ins_a_day is None else arguments.sign_ins_a_day,
        peak_share=arguments.peak_share,
        tokens=arguments.tokens,
        reads=arguments.reads,
        machines=arguments.machines,
    )
    found = needs(demand)
    if arguments.json:
        print_json({"demand": plain(demand), "needs": plain(found), "measured": plain(MEASURED)})
    else:
        print("\n".join(_said(demand, found)))
    return OK


def _said(demand: Demand, found: Needs) -> list[str]:
    away = ", of which one can be offline" if demand.machines > 1 else ""
    rows = [
        ("busiest second", f"{found.sign_ins_a_second:.2f} sign-ins, using {found.serving_cores:.2f} cores"),
        (f"{_count(demand.machines, 'machine')} that serve{'' if demand.machines > 1 else 's'}{away}", ""),
        ("  cores, and --processes", f"{found.processes} each"),
        ("  POSTERN_ARGON2_WORKERS", f"{found.argon2_workers}"),
        ("  memory for Postern", f"{found.memory_mib} MiB each"),
        ("each server of the database", ""),
        ("  cores", f"{found.database_cores}"),
        ("  memory", f"{found.database_memory_mib} MiB"),
        ("  max_connections", f"{found.connections}"),
        ("  disk", f"{found.disk_gib} GiB after one year, plus {found.disk_gib_a_year:,.1f} GiB each year"),
        ("  archived log", f"{found.wal_gib_a_day:,.2f} GiB a day"),
    ]
    width = max(len(name) for name, value in rows if value) + 2
    lines = [f"{name:<{width}}{value}".rstrip() for name, value in rows]
    return [
        *lines,
        "",
        f"Cores are at most {BUSY:.0%} busy in a second with {RUSH:g} times the sign-ins of the busiest hour's average.",
        f"Measured on {MEASURED.on}: {MEASURED.machine}. docs/guides/running/sizing.md explains the figures.",
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
