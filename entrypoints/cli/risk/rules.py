"""`postern risk-rules shadow`: sets the installation's risk policies to report-only, when they refuse everybody."""

import argparse

import trio

from core.domain.record.events import Actor
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import printable, tell
from entrypoints.cli.user import operator
from entrypoints.failures import OK
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_shadow, settings, arguments.factors, arguments.json)
    return OK


async def _shadow(settings: Settings, factors: bool, as_json: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with opened_postern(settings) as postern:
        changed = await postern.tenancy.risk_policies.put_in_shadow(Actor(operator=operator()), factors=factors)
        lines = [f"Now report-only: {printable(one.name)} ({one.action.value})" for one in changed]
        names = [one.name for one in changed]
        tell({"in_shadow": names}, *(lines or ["The installation has no such enforced risk policy."]), as_json=as_json)
