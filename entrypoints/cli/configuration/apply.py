"""`postern config apply`: applies a configuration file."""

import argparse
import sys

import trio

from core.domain.errors import Refusal
from core.domain.platform.configuration.planning import Change
from entrypoints.cli.configuration.planned_documents import (
    applied_as_json,
    applied_line,
    has_colours,
    loss_line,
    plan_digest,
    plan_lines,
    planned_files,
)
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress
from entrypoints.failures import FAILURE, OK, NotAgreed, StartFailed
from entrypoints.http.routes.configuration.applying import Applied, Planned
from entrypoints.settings import Settings


class OtherPlan(StartFailed):
    """What there is to do is not what was read: the document, the references or the installation changed."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    planned, applied = trio.run(_apply, arguments, settings)
    if arguments.json:
        print_json(applied_as_json(planned, applied))
    else:
        print(applied_line(applied))
    for one in applied.refused:
        print(f"{'/'.join(one.change.place.steps)}: {one.refusal.message}", file=sys.stderr)
    return FAILURE if applied.refused else OK


async def _apply(arguments: argparse.Namespace, settings: Settings) -> tuple[Planned, Applied]:
    async with opened_postern(settings) as postern:
        configuring, planned = await planned_files(postern, arguments)
        if not arguments.json:
            for line in plan_lines(planned, colours=has_colours()):
                print(line)
        if arguments.digest is not None and arguments.digest != plan_digest(planned):
            raise OtherPlan("Nothing was changed: the plan does not have this digest; run plan again")
        if planned.losses and not arguments.yes:
            await _require_agreement(planned)
        with progress("Applying", len(planned.plan.changes), "objects") as advance:

            def tell(_change: Change, _refusal: Refusal | None) -> None:
                advance(1)

            return planned, await configuring.apply(planned, tell)


async def _require_agreement(planned: Planned) -> None:
    if not sys.stdin.isatty():
        ends = "; ".join(loss_line(one) for one in planned.losses[:3])
        raise NotAgreed(f"Nothing was changed, because the plan deletes or revokes something: {ends}. Use --yes, or confirm in a terminal")
    answer = await trio.to_thread.run_sync(input, "Type yes to confirm: ", abandon_on_cancel=True)
    if answer.strip() != "yes":
        raise NotAgreed("Nothing was changed")
