"""`python -m ops.drill failover [fault …]` takes the database away under load, as Patroni or an operator would. It prints a table, and
keeps its figures in docs/benchmarks.md, like `python -m ops.drill endurance`: half an hour of all actors and routes, with a fault every
minute. `python -m ops.drill migration` changes a large table under load, `python -m ops.drill machines` takes one part after the other of
the recipe for three machines away, `python -m ops.drill alerts` fires each alert by its fault, and `python -m ops.drill sizing` measures
what `postern size` reckons with. Exit status 1 when a bar did not hold.
"""

import argparse
import inspect
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog
import trio

from ops.bench.record import record
from ops.bench.report import Figure, Outcome, busyness, complain, machine, table
from ops.drill import endurance, machines, migration, sizing
from ops.drill.alerts import drill as alerts
from ops.drill.failover import Plan, failover
from ops.drill.faults import FAULTS

PATIENCE: Final = 3600.0
# These print and judge for themselves.
_OTHERS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "migration": migration.main,
    "machines": machines.main,
    "sizing": sizing.main,
    "alerts": alerts.main,
}
DRILLS: Final = ("failover", "endurance", *_OTHERS)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] and (drill := _OTHERS.get(arguments[0])):
        return drill(arguments[1:])
    if arguments[:1] == ["endurance"]:
        asked = endurance.options(arguments[1:])
        return _run("endurance", partial(endurance.endurance, asked.minutes, asked.detection), recorded=not asked.no_record)
    parser = argparse.ArgumentParser(prog="python -m ops.drill", description=__doc__)
    parser.add_argument("drill", choices=["failover"])
    parser.add_argument("faults", nargs="*", metavar="fault", help=f"of {', '.join(FAULTS)}; all without")
    parser.add_argument("--list", action="store_true", help="say what each fault is")
    parser.add_argument("--times", type=int, default=3, help="rounds of each fault (default %(default)s)")
    parser.add_argument("--detection", type=float, default=5.0, help="seconds until a standby is promoted (default %(default)s)")
    parser.add_argument("--only-synchronous", action="store_true", help="leave out the rounds with asynchronous standbys alone")
    parser.add_argument("--no-record", action="store_true", help="leave docs/benchmarks.md alone")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.faults) - FAULTS.keys():
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    if chosen.list:
        for name, fault in FAULTS.items():
            print(f"{name:12} {' '.join((inspect.getdoc(fault) or '').split())}")
        return 0
    plan = Plan(chosen.faults or tuple(FAULTS), chosen.times, chosen.detection, not chosen.only_synchronous)
    return _run("failover", partial(failover, plan), recorded=not chosen.no_record)


def _run(name: str, drill: Callable[[], Awaitable[Sequence[Figure]]], *, recorded: bool) -> int:
    # Parts of the product also run in this process. Only their errors are worth a line between the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    complain(f"{machine()}. Load average before: {busyness():.1f}.")
    outcome = trio.run(_drilled, name, drill)
    print(table([outcome]))
    if recorded and outcome.failed is None:
        record([outcome])
    return 0 if outcome.held else 1


async def _drilled(name: str, drill: Callable[[], Awaitable[Sequence[Figure]]]) -> Outcome:
    """A drill that is ended early, too, ends its servers and takes their disks away."""
    outcome = Outcome(name, failed="ended by a signal")
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_when_told, nursery.cancel_scope)
            outcome = Outcome(name, await drill())
            nursery.cancel_scope.cancel()
    return outcome


async def _end_when_told(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
