"""`postern migrate`."""

import argparse

import trio

from adapters.postgres import migrate
from adapters.postgres.migrating.forecast import told
from entrypoints.cli.grants import grant
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress, say
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, settings, arguments.plan, arguments.json, arguments.grant)
    return OK


async def _run(settings: Settings, only_plan: bool, as_json: bool, role: str | None) -> None:  # noqa: FBT001 - trio.run passes by position
    async with reachable_database(settings, may_be_new=True):
        try:
            plan = await migrate.plan(conninfo(settings))
            if only_plan and as_json:
                applied_at = [{"migration": str(one), "applied_at": one.applied_at} for one in plan.applied]
                print_json(
                    {"applied": applied_at, "pending": [str(one) for one in plan.pending], "ahead": [str(one) for one in plan.ahead]}
                )
                return
            if only_plan:
                await _print(settings, plan)
            elif plan.pending:
                await migrate.migrate(conninfo(settings), say, progress=progress)
        except migrate.SchemaMismatch as error:
            raise StartFailed(str(error)) from error
        if plan.ahead:
            print(f"A newer Postern has migrated this database up to {plan.ahead[-1]}; this one can run on it.")
        elif not plan.pending:
            print("The database is current.")
        if role is not None:
            await grant(settings, role)


async def _print(settings: Settings, plan: migrate.MigrationPlan) -> None:
    for applied in plan.applied:
        print(f"applied  {applied}  {applied.applied_at:%Y-%m-%d %H:%M} UTC")
    if not plan.pending:
        return
    outlook = await migrate.outlook(conninfo(settings), plan.pending)
    for pending, forecast in zip(plan.pending, outlook.forecasts, strict=True):
        print(f"pending  {pending}  {pending.promise}")
        for line in told(forecast):
            print(f"         {line}")
    for obstacle in outlook.obstacles:
        print(f"in the way: {obstacle}")
