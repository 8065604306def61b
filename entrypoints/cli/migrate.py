"""`postern migrate`."""

import argparse
from collections.abc import Sequence

import trio

from adapters.postgres import migrate
from adapters.postgres.listening_processes import ListeningProcess
from adapters.postgres.migrating.forecast import lines
from adapters.postgres.migrating.schema import PROMISE, WayHere
from core.domain.formats import Json, timestamp
from entrypoints.cli.grants import granted
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress, say, say_beside
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, settings, arguments.plan, arguments.json, arguments.grant, arguments.although_older_processes_run)
    return OK


async def _run(settings: Settings, only_plan: bool, as_json: bool, role: str | None, agreed: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with reachable_database(settings, may_be_new=True):
        try:
            done = [] if only_plan else await _migrate(settings, say_beside if as_json else say, agreed=agreed)
            plan = await migrate.plan_of_all(conninfo(settings))
            older = await migrate.older_processes(conninfo(settings))
            if as_json:
                print_json(_as_json(plan, older=older))
            elif only_plan:
                await _print(settings, plan)
        except migrate.SchemaMismatch as error:
            if only_plan and isinstance(error, migrate.OlderSchema):
                _print_refused(error.way, as_json=as_json)
            raise StartFailed(str(error)) from error
        if not as_json:
            _print_end(plan, older, has_migrated=bool(done))
        if role is not None:
            told_role = await granted(settings, role)
            if not as_json:
                print(told_role)


async def _migrate(settings: Settings, report: migrate.Report, *, agreed: bool) -> Sequence[migrate.Migration]:
    return await migrate.migrate(conninfo(settings), report, progress=progress, although_older_processes_run=agreed)


def _print_end(plan: migrate.MigrationPlan, older: Sequence[ListeningProcess], *, has_migrated: bool) -> None:
    if older:
        print(_of_older(plan, older))
    if plan.beyond:
        print(f"A newer Postern has migrated this database up to {plan.beyond[-1]}; this one can run on it.")
    elif not has_migrated and not plan.lacking and plan.taken_on is None:
        print("The database is current.")


def _of_older(plan: migrate.MigrationPlan, older: Sequence[ListeningProcess]) -> str:
    """One line about the processes that serve and carry fewer migrations than this program."""
    named = f"lder processes serve this database, {migrate.listed_processes(older)}"
    refused = [one for one in older if plan.taken_on is not None or not _go_on(plan.pending, one)]
    if refused:
        return f"in the way: o{named}; `postern migrate` refuses until {len(refused)} of them {_stop(refused)}"
    ending = [one for one in older if not _go_on(plan.applied, one)]
    if ending:
        return f"O{named}. {len(ending)} of them cannot run on this schema and may fail: stop them."
    return f"O{named}. They go on. Restart them with this version."


def _stop(processes: Sequence[ListeningProcess]) -> str:
    return "is stopped" if len(processes) == 1 else "are stopped"


def _go_on(migrations: Sequence[migrate.Migration | migrate.AppliedMigration], process: ListeningProcess) -> bool:
    """Whether this process can run beside these migrations."""
    return all(process.runs_beside(one.number, one.needs) for one in migrations)


def _as_json(plan: migrate.MigrationPlan, led_to: Sequence[str] = (), older: Sequence[ListeningProcess] = ()) -> Json:
    """`led_to`: the commits at which to migrate first, because this program does not take the schema on."""
    return {
        "applied": [{"migration": str(one), "applied_at": timestamp(one.applied_at)} for one in plan.applied],
        "edition": None if plan.edition is None else plan.edition.number,
        "pending": [str(one) for one in plan.lacking],
        "ahead": [str(one) for one in plan.beyond],
        "taken_on": None if plan.taken_on is None else str(plan.taken_on),
        "led_to": list(led_to),
        "older_processes": [
            {
                "migration": one.migration,
                "version": one.version,
                "host": one.host,
                "since": None if one.since is None else timestamp(one.since),
                "goes_on": plan.taken_on is None and _go_on([*plan.applied, *plan.pending], one),
            }
            for one in older
        ],
    }


def _print_refused(way: WayHere, *, as_json: bool) -> None:
    """The plan for a schema that this program does not take on. The sentence that leads on follows, as with any failure."""
    if as_json:
        print_json(_as_json(migrate.MigrationPlan((), ()), way.commits))
    else:
        print(f"refused  {way.newest}  of a schema of before 0.2.0; changes nothing")


async def _print(settings: Settings, plan: migrate.MigrationPlan) -> None:
    for applied in plan.applied:
        print(f"applied  {applied}  {applied.applied_at:%Y-%m-%d %H:%M} UTC")
    if plan.edition is not None:
        print(f"applied  {plan.edition}")
    if plan.taken_on is not None:
        print(f"taken on {plan.taken_on}  in place of the migrations of before it; changes no table")
        print(f"         This step has no way back: programs of before refuse a database with {plan.taken_on}.")
        print("         Make a backup with the program that serves now: going back is restoring it.")
    if not plan.lacking:
        return
    outlook = await migrate.outlook(conninfo(settings), plan.pending, plan.replaceable)
    for pending, forecast in zip(plan.pending, outlook.forecasts, strict=True):
        print(f"pending  {pending}  {pending.promise}")
        for line in lines(forecast):
            print(f"         {line}")
    if plan.replaceable is not None:
        print(f"pending  {plan.replaceable}  {PROMISE}")
        if plan.applied or plan.taken_on is not None:
            print(f"         {', '.join(plan.replaceable.views)}: nobody reads them for a moment")
    for obstacle in outlook.obstacles:
        print(f"in the way: {obstacle}")
