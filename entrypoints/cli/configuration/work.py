"""What `plan` and `apply` share: they read the files, and say problems with their places in the files."""

import argparse
import sys
from collections.abc import Sequence

import trio

from core.domain.platform.configuration.planning import Problem
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.files import Files, read_files
from entrypoints.cli.configuration.operators import DocumentOperator, owners_of
from entrypoints.cli.configuration.references import AllowedSecrets
from entrypoints.cli.configuration.showing import plan_as_json
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.failures import StartFailed
from entrypoints.http.routes.configuration.applying import Configuring, Planned

_LONGEST = 400


class NotPlanned(StartFailed):
    """The document has problems, which are on standard error."""


async def planned_files(postern: Postern, given: argparse.Namespace) -> tuple[Configuring, Planned]:
    """Raises `WrongFile`, and `NotPlanned` when a problem keeps the document from being applied."""
    files = await trio.to_thread.run_sync(read_files, given.files)
    configuring = Configuring(DocumentOperator(postern, owners_of(postern, given.owner)))
    references = AllowedSecrets(given.secrets_from, postern.settings.data_dir)
    planned = await configuring.plan(files.tree, references.resolve)
    if planned.problems:
        if given.json:
            print_json(plan_as_json(planned))
        for line in problem_lines(files, planned.problems):
            print(line, file=sys.stderr)
        raise NotPlanned(
            f"{len(planned.problems)} problems: nothing was done" if len(planned.problems) > 1 else "1 problem: nothing was done"
        )
    return configuring, planned


def problem_lines(files: Files, problems: Sequence[Problem]) -> list[str]:
    positions = files.positions([one.steps for one in problems])
    lines = []
    for one in problems:
        position = positions.get(one.steps)
        at = " / ".join(one.steps)
        lines.append(printable(f"{'' if position is None else f'{position}: '}{f'{at}: ' if at else ''}{one.message}", _LONGEST))
    return lines
