"""`postern config plan`: what a document would change."""

import argparse
from collections.abc import Sequence
from itertools import chain

import trio

from core.domain.platform.configuration.planning import ReachedLimit
from entrypoints.cli.configuration.planned_documents import has_colours, limit_lines, plan_as_json, plan_lines, planned_files
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json
from entrypoints.failures import OK
from entrypoints.http.routes.configuration.applying import Planned
from entrypoints.settings import Settings

SOMETHING_TO_DO = 2


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    planned, limits = trio.run(_plan, arguments, settings)
    if arguments.json:
        print_json(plan_as_json(planned, limits))
    else:
        for line in chain(plan_lines(planned, colours=has_colours()), limit_lines(limits)):
            print(line)
    return OK if planned.is_empty else SOMETHING_TO_DO


async def _plan(arguments: argparse.Namespace, settings: Settings) -> tuple[Planned, Sequence[ReachedLimit]]:
    async with opened_postern(settings) as postern:
        configuring, planned = await planned_files(postern, arguments)
        return planned, await configuring.reached_limits(planned)
