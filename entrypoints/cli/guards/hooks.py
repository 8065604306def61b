"""`postern hook list`: lists the hooks that delay sign-ins, for an operator. The other verbs of hooks are those of the API."""

import argparse
from collections.abc import Iterator, Sequence

import trio

from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import moment, print_json
from entrypoints.failures import OK
from entrypoints.settings import Settings
from ports.tenancy.hooks import HookTimes

_INSTALLATION = "(installation)"


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_list, settings, arguments.json)
    return OK


async def _list(settings: Settings, as_json: bool) -> None:  # noqa: FBT001 - trio.run passes by position
    async with opened_postern(settings) as postern:
        found = await postern.foundation.stores.hooks.times()
    if as_json:
        print_json(found)
        return
    for line in _lines(found):
        print(line)


def _lines(hooks: Sequence[HookTimes]) -> Iterator[str]:
    if not hooks:
        yield "No sign-in hooks."
    for one in hooks:
        state = "enforced" if one.enforced else "report-only, not called while work is held" if one.held else "report-only"
        yield f"{one.organization or _INSTALLATION}  {one.point}, {state}: {_said(one)}"


def _said(one: HookTimes) -> str:
    if one.last_asked_at is None:
        return "not called within the last week"
    return (
        f"median {one.median} ms, p90 {one.p90} ms of {one.seconds} s, {one.silent} of {one.questions} without a response "
        f"({one.silence}); last called {moment(one.last_asked_at)}"
    )
