"""`postern migrate`."""

import argparse

import trio

from adapters.postgres import migrate
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, settings, arguments.plan)
    return OK


async def _run(settings: Settings, only_plan: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with reachable_database(settings, may_be_new=True):
        try:
            plan = await migrate.plan(conninfo(settings))
            if only_plan:
                for applied in plan.applied:
                    print(f"applied  {applied}  {applied.applied_at:%Y-%m-%d %H:%M} UTC")
                for pending in plan.pending:
                    print(f"pending  {pending}  {pending.promise}")
            elif plan.pending:
                await migrate.migrate(conninfo(settings), print)
        except migrate.SchemaMismatch as error:
            raise StartFailed(str(error)) from error
        if plan.ahead:
            print(f"A newer Postern has migrated this database up to {plan.ahead[-1]}; this one can run on it.")
        elif not plan.pending:
            print("The database is current.")
