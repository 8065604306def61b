"""`postern api-key …`: the operator revokes an API key that has leaked."""

import argparse
from typing import Final

import trio

from core.usecases.services.api_keys import ApiKeys
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import printable, tell
from entrypoints.cli.user import operator
from entrypoints.failures import OK
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_run, arguments, settings)
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        await _ACTIONS[arguments.action](postern.services.api_keys, arguments)


async def _revoke(api_keys: ApiKeys, given: argparse.Namespace) -> None:
    revoked = await api_keys.revoke(given.prefix, operator())
    key = revoked.key
    place = f"{revoked.service_slug} of {revoked.organization_slug}"
    tell(
        {"prefix": key.prefix, "name": key.name, "service": revoked.service_slug, "organization": revoked.organization_slug},
        f"{key.prefix} ({printable(key.name, 100)}), a key of {place}, is deleted and refused from now on.",
        as_json=given.json,
    )


_ACTIONS: Final = {"revoke": _revoke}
