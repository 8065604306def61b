"""`python -m ops.bench.large [part …]` fills an installation with a hundred thousand organizations and another with ten, and compares them.
It keeps the figures in docs/benchmarks.md. Exit status 1 when a bar did not hold.

The large one needs about 60 GiB. With `--place`, the installations stay there, and the next run finds them.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import structlog
import trio

from ops.bench.filling.fill_tenancy import Size
from ops.bench.harness import directory
from ops.bench.large.parts import PARTS
from ops.bench.large.twins import fill_both, open_both
from ops.bench.record import record
from ops.bench.report import Outcome, busyness, complain, machine, table


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.large", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all without")
    parser.add_argument("--organizations", type=int, default=100_000, help="in the large installation (default %(default)s)")
    parser.add_argument("--members", type=int, default=100, help="of each organization (default %(default)s)")
    parser.add_argument("--sign-ins", type=int, default=300, help="at each organization (default %(default)s)")
    parser.add_argument("--audit-entries", type=int, default=200, help="of each organization (default %(default)s)")
    parser.add_argument("--place", type=Path, help="a directory in which the installations stay")
    parser.add_argument("--no-record", action="store_true", help="leave docs/benchmarks.md alone")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    complain(f"{machine()}. Load average before: {busyness():.1f}.")
    sizes = [
        Size(number, chosen.members, number * chosen.audit_entries, 10, number * chosen.sign_ins) for number in (10, chosen.organizations)
    ]
    with ExitStack() as stack:
        place = chosen.place or stack.enter_context(directory())
        outcomes = trio.run(_measured, place, sizes, chosen.parts or list(PARTS))
    print(table(outcomes))
    if not chosen.no_record:
        record(outcomes)
    return 0 if all(outcome.held for outcome in outcomes) else 1


async def _measured(place: Path, sizes: Sequence[Size], parts: Sequence[str]) -> Sequence[Outcome]:
    filled = await fill_both(place, sizes)
    outcomes = [Outcome("filling", filled)] if filled else []
    for name in parts:
        complain(f"{name} …")
        async with open_both(place, sizes) as (small, large):
            outcomes.append(Outcome(name, await PARTS[name](small, large)))
        complain(table(outcomes[-1:]))
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
