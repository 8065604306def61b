"""`postern api-key …`: what the operator does about a key that got into the wrong hands."""

import argparse
from typing import Final

import trio

from adapters.postgres.migrate import SchemaMismatch, require_current
from core.usecases.api_keys import ApiKeys
from entrypoints.bootstrap import open_services
from entrypoints.cli.user import operator, printable
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import conninfo, reachable_database
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with reachable_database(settings):
        try:
            await require_current(conninfo(settings))
        except SchemaMismatch as error:
            raise StartFailed(str(error)) from error
        async with open_services(settings) as services:
            await _ACTIONS[arguments.action](services.api_keys, arguments)


async def _revoke(api_keys: ApiKeys, given: argparse.Namespace) -> None:
    revoked = await api_keys.revoke(given.prefix, operator())
    key = revoked.key
    place = f"{revoked.service_slug} of {revoked.organization_slug}"
    print(f"{key.prefix} ({printable(key.name, 100)}), a key of {place}, is refused from now on.")


_ACTIONS: Final = {"revoke": _revoke}
