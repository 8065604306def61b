"""`python -m ops.bench [case …]` measures, prints a table, and keeps the newest figures of each case in docs/benchmarks.md.
`python -m ops.bench against REVISION` compares this tree with a commit, and keeps nothing. Exit status 1 when a bar did not hold.
"""

import argparse
import inspect
import logging
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog
import trio

from ops.bench import against
from ops.bench.alternating import Refused
from ops.bench.cases import CASES
from ops.bench.harness import Case, DidNotStart, Options, Skipped, absent
from ops.bench.record import record
from ops.bench.report import Outcome, busyness, complain, machine, table

# A case ends after this time, even if it hangs.
PATIENCE: Final = 1800.0


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["against"]:
        return _against(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m ops.bench", description=__doc__)
    _name_cases(parser, CASES, seconds=5.0)
    parser.add_argument("--connections", type=int, default=32, help="connections of each load (default %(default)s)")
    parser.add_argument("--users", type=int, default=10_000, help="users in the database (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=200, help="rounds of redeeming each single-use thing (default %(default)s)")
    parser.add_argument("--no-record", action="store_true", help="leave docs/benchmarks.md alone")
    parser.add_argument("--pairs", type=int, default=500, help="pairs of each comparison in time (default %(default)s)")
    chosen = parser.parse_intermixed_args(arguments)
    _refuse_unknown(parser, chosen.cases, CASES)
    if chosen.list:
        return _list(CASES)
    options = Options(chosen.seconds, chosen.connections, chosen.users, chosen.rounds, chosen.pairs)
    outcomes = _measured({name: CASES[name] for name in chosen.cases or CASES}, options)
    if not chosen.no_record:
        record(outcomes)
    return _status(outcomes)


def _against(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench against", description=against.__doc__)
    parser.add_argument("revision", help="the commit to compare with")
    _name_cases(parser, against.CASES, seconds=2.0)
    parser.add_argument("--turns", type=int, default=15, help="loads of each of the two (default %(default)s)")
    parser.add_argument("--bar", type=float, help="exit with 1 if a ratio of processor time, PostgreSQL's too, is larger")
    chosen = parser.parse_intermixed_args(arguments)
    _refuse_unknown(parser, chosen.cases, against.CASES)
    if chosen.list:
        return _list(against.CASES)
    try:
        cases = against.cases(chosen.revision, chosen.turns)
    except subprocess.CalledProcessError:
        parser.error(f"there is no commit {chosen.revision}")
    except Skipped as missing:
        parser.error(str(missing))
    return _status(_measured({f"against {name}": cases[name] for name in chosen.cases or cases}, Options(chosen.seconds, bar=chosen.bar)))


def _name_cases(parser: argparse.ArgumentParser, cases: Iterable[str], seconds: float) -> None:
    parser.add_argument("cases", nargs="*", metavar="case", help=f"one of {', '.join(cases)}; all without")
    parser.add_argument("--list", action="store_true", help="say what each case does")
    parser.add_argument("--seconds", type=float, default=seconds, help="length of each load (default %(default)s)")


def _refuse_unknown(parser: argparse.ArgumentParser, named: Iterable[str], cases: Iterable[str]) -> None:
    if unknown := set(named) - set(cases):
        parser.error(f"there is no case {', '.join(sorted(unknown))}")


def _list(cases: Mapping[str, Callable[..., object]]) -> int:
    for name, case in cases.items():
        print(f"{name:12} {' '.join((inspect.getdoc(case) or '').split())}")
    return 0


def _measured(cases: Mapping[str, Case], options: Options) -> list[Outcome]:
    # Parts of the product also run in this process. Only their errors are worth a line between the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    complain(f"{machine()}. Load average before: {busyness():.1f}.")
    for sentence in absent():
        complain(f"{sentence} What needs it is skipped.")
    outcomes = trio.run(_run, cases, options)
    print(table(outcomes))
    return outcomes


def _status(outcomes: Iterable[Outcome]) -> int:
    return 0 if all(outcome.held for outcome in outcomes) else 1


async def _run(cases: Mapping[str, Case], options: Options) -> list[Outcome]:
    outcomes, began = [], trio.current_time()
    for name, case in cases.items():
        complain(f"{name} …")
        started = trio.current_time()
        outcomes.append(await _outcome(name, case, options))
        complain(f"{table(outcomes[-1:])}\n{name}: {trio.current_time() - started:.0f} s")
    complain(f"All of it took {(trio.current_time() - began) / 60:.0f} minutes.")
    return outcomes


async def _outcome(name: str, case: Case, options: Options) -> Outcome:
    outcome = Outcome(name)
    try:
        with trio.fail_after(PATIENCE):
            outcome = Outcome(name, await case(options))
    except* Skipped as skipped:
        outcome = Outcome(name, skipped=_sentence(skipped))
    except* trio.TooSlowError:
        outcome = Outcome(name, failed=f"not done within {PATIENCE:.0f} s")
    except* (DidNotStart, Refused, subprocess.CalledProcessError, OSError) as failure:
        outcome = Outcome(name, failed=_sentence(failure))
    return outcome


def _sentence(group: BaseExceptionGroup[BaseException]) -> str:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    complain(str(first))
    return str(first).partition("\n")[0]
