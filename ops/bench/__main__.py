"""`python -m ops.bench [case …]`: measures, prints a table, appends it to docs/benchmarks.md. Exit status 1 when a bar did not hold."""

import argparse
import inspect
import logging
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import structlog
import trio

from ops.bench.cases import CASES
from ops.bench.harness import DidNotStart, Options, Skipped
from ops.bench.report import Outcome, busyness, complain, record, table

# No case waits for ever, whatever it measures does.
PATIENCE: Final = 1800.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"one of {', '.join(CASES)}; all without")
    parser.add_argument("--list", action="store_true", help="say what each case does")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each load (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="connections of each load (default %(default)s)")
    parser.add_argument("--users", type=int, default=10_000, help="users in the database (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=200, help="rounds of redeeming each single-use thing (default %(default)s)")
    parser.add_argument("--pairs", type=int, default=500, help="pairs of each comparison in time (default %(default)s)")
    parser.add_argument("--remark", default="", help="a sentence for the record")
    parser.add_argument("--no-record", action="store_true", help="leave docs/benchmarks.md alone")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.cases) - set(CASES):
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    if chosen.list:
        for name, case in CASES.items():
            print(f"{name:12} {' '.join((inspect.getdoc(case) or '').split())}")
        return 0
    # Parts of the product run in this process too; only what goes wrong in them is worth a line between the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    busy = busyness()
    outcomes = trio.run(
        _run, chosen.cases or list(CASES), Options(chosen.seconds, chosen.connections, chosen.users, chosen.rounds, chosen.pairs)
    )
    print(table(outcomes))
    if not chosen.no_record:
        record(outcomes, busy, chosen.remark)
    return 0 if all(outcome.held for outcome in outcomes) else 1


async def _run(names: Sequence[str], options: Options) -> list[Outcome]:
    outcomes = []
    for name in names:
        complain(f"{name} …")
        outcomes.append(await _outcome(name, options))
        complain(table(outcomes[-1:]))
    return outcomes


async def _outcome(name: str, options: Options) -> Outcome:
    outcome = Outcome(name)
    try:
        with trio.fail_after(PATIENCE):
            outcome = Outcome(name, await CASES[name](options))
    except* Skipped as skipped:
        outcome = Outcome(name, skipped=_sentence(skipped))
    except* trio.TooSlowError:
        outcome = Outcome(name, failed=f"not done within {PATIENCE:.0f} s")
    except* (DidNotStart, subprocess.CalledProcessError, OSError) as failure:
        outcome = Outcome(name, failed=_sentence(failure))
    return outcome


def _sentence(group: BaseExceptionGroup[BaseException]) -> str:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    complain(str(first))
    return str(first).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
