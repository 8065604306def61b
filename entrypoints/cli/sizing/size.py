"""`postern size`: says what an installation needs."""

import argparse

from entrypoints.cli.output.printing import plain, print_json
from entrypoints.cli.sizing.measured import MEASURED
from entrypoints.cli.sizing.reckoning import BUSY, RUSH, Demand, Needs, needs
from entrypoints.failures import OK


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
    away = ", of which one may be away" if demand.machines > 1 else ""
    rows = [
        ("busiest second", f"{found.sign_ins_a_second:.2f} sign-ins, {found.serving_cores:.2f} cores busy with them"),
        (f"{_count(demand.machines, 'machine')} that serve{'' if demand.machines > 1 else 's'}{away}", ""),
        ("  cores, and --processes", f"{found.processes} each"),
        ("  POSTERN_ARGON2_WORKERS", f"{found.argon2_workers}"),
        ("  memory for Postern", f"{found.memory_mib} MiB each"),
        ("each server of the database", ""),
        ("  cores", f"{found.database_cores}"),
        ("  memory", f"{found.database_memory_mib} MiB"),
        ("  max_connections", f"{found.connections}"),
        ("  disk", f"{found.disk_gib} GiB after a year, {found.disk_gib_a_year:,.1f} GiB more each year"),
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
