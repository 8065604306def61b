"""`postern grants`: prints the grants that the serving database role needs, for the owner of the tables, or applies these grants."""

import argparse

import trio

from adapters.postgres import grants
from adapters.postgres.grants import GrantsImpossible
from entrypoints.cli.output.printing import tell
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, settings, arguments.role, arguments.apply, arguments.json)
    return OK


async def _run(settings: Settings, role: str, apply: bool, as_json: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    if settings.embedded:
        raise StartFailed("The embedded PostgreSQL has one role, which owns its tables: no grants are needed")
    async with reachable_database(settings):
        try:
            statements = [f"{one};" for one in await grants.script(conninfo(settings), role)]
        except GrantsImpossible as error:
            raise StartFailed(str(error)) from error
        lines = [await granted(settings, role)] if apply else statements
        tell({"role": role, "applied": apply, "statements": statements}, *lines, as_json=as_json)


async def granted(settings: Settings, role: str) -> str:
    """Gives the role what serving needs, and returns a sentence about it. Raises `StartFailed`."""
    try:
        fault = (await grants.apply(conninfo(settings), role)).fault
    except GrantsImpossible as error:
        raise StartFailed(str(error)) from error
    if fault is not None:
        # Before PostgreSQL 15, the owner of the database does not own the schema. PostgreSQL then reports a missing grant as a warning,
        # not as an error.
        raise StartFailed(f"{fault}. The owner cannot grant all of it: run this again as a superuser")
    return f"{role} now has the permissions that serving needs, and no others."
