"""`postern signals pause` and `resume`: an operator stops what the streams of an organization are sent, for a while."""

import argparse

import trio

from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting, for_owner
from entrypoints.cli.output.printing import tell
from entrypoints.failures import OK
from entrypoints.settings import Settings


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_switch, arguments, settings)
    return OK


async def _switch(arguments: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        signals, member = postern.federation.signals, await for_owner(postern, arguments.organization)
        if arguments.action == "pause":
            changed = await signals.pause(member, arguments.service, acting())
            done = "paused: events for them are kept for 7 days, and only `postern signals resume` ends the pause"
        else:
            changed = await signals.resume(member, arguments.service, acting())
            done = "sent to again"
    count = f"{len(changed)} {'stream is' if len(changed) == 1 else 'streams are'} {done}."
    tell({"organization": arguments.organization, "streams": [str(one.id) for one in changed]}, count, as_json=arguments.json)
