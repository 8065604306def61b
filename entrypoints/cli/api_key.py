"""`postern api-key …`: what the operator does about a key that got into the wrong hands."""

import argparse
from typing import Final

import trio

from core.usecases.api_keys import ApiKeys
from entrypoints.cli.opening import opened_services
from entrypoints.cli.user import operator, printable
from entrypoints.failures import OK
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_services(settings) as services:
        await _ACTIONS[arguments.action](services.api_keys, arguments)


async def _revoke(api_keys: ApiKeys, given: argparse.Namespace) -> None:
    revoked = await api_keys.revoke(given.prefix, operator())
    key = revoked.key
    place = f"{revoked.service_slug} of {revoked.organization_slug}"
    print(f"{key.prefix} ({printable(key.name, 100)}), a key of {place}, is refused from now on.")


_ACTIONS: Final = {"revoke": _revoke}
